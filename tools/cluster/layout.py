"""The files and addresses of a cluster. Several can run side by side: each has its own name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

NODE_ADDRESS = "10.77.0.1"
"""The address of everything that runs beside the Pods: the API server, the kubelet, the controllers. It is the same
in every cluster, as each has its own network."""

NODE_RANGE = "10.77.0.0/24"
POD_RANGE = "10.88.0.0/16"
SERVICE_RANGE = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
API_PORT = 6443
DOMAIN = "cluster.local"


@dataclass(frozen=True, slots=True)
class Layout:
    """Folders and names of one cluster. All of them are removed with the cluster."""

    name: str = "muster"

    @property
    def root(self) -> Path:
        return Path(os.environ.get("MUSTER_CLUSTER_HOME", "/var/lib/muster-cluster")) / self.name

    @property
    def lock(self) -> Path:
        return self.root.with_name(f"{self.name}.lock")

    @property
    def network(self) -> Path:
        """The name of the network namespace for `ip netns`."""
        return Path("/run/netns") / self.identity

    @property
    def identity(self) -> str:
        """The name of the cluster in machine-wide lists: namespaces and control groups."""
        return "muster-cluster" if self.name == "muster" else f"muster-cluster-{self.name}"

    @property
    def node(self) -> str:
        return f"{self.name}-node"

    @property
    def certificates(self) -> Path:
        return self.root / "certificates"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubeconfig_of("admin")

    def kubeconfig_of(self, user: str) -> Path:
        return self.root / "kubeconfigs" / f"{user}.yaml"

    @property
    def processes(self) -> Path:
        return self.root / "processes"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def configuration(self) -> Path:
        return self.root / "configuration"

    @property
    def registries(self) -> Path:
        """For each registry that is not reached by HTTPS, a folder with its `hosts.toml`. It is read for every pull."""
        return self.configuration / "registries"

    @property
    def containerd_socket(self) -> Path:
        return self.root / "containerd.sock"

    def make(self) -> None:
        for folder in (self.certificates, self.kubeconfig.parent, self.processes, self.logs, self.configuration):
            folder.mkdir(parents=True, exist_ok=True)
        self.root.chmod(0o700)
