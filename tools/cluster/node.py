"""The real node: containerd, the kubelet, kube-proxy and CoreDNS, side by side in the cluster's network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import yaml

from tools.cluster.build import program
from tools.cluster.images import PAUSE
from tools.cluster.layout import DOMAIN, NODE_ADDRESS, POD_RANGE, SERVICE_RANGE, Layout
from tools.cluster.processes import CGROUPS, Component, Health, control_groups
from tools.cluster.sources import COREDNS, KUBE_ROUTER, KUBERNETES_NODE

PACKAGES = (
    "containerd", "runc", "containernetworking-plugins", "iptables", "conntrack", "iproute2", "debootstrap",
    "libcap2-bin",
)  # fmt: skip
POLICY_PACKAGES = ("ipset", "iptables")
PLUGINS = Path("/usr/lib/cni")


def containerd(layout: Layout) -> Component:
    folder = layout.configuration / "cni"
    folder.mkdir(exist_ok=True)
    # Routed, not bridged: the response of a Service then passes the rules of its request, whatever the kernel does with
    # bridges.
    network = {
        "cniVersion": "0.4.0",
        "name": layout.identity,
        "plugins": [
            {
                "type": "ptp",
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(layout.root / "addresses"),
                    "ranges": [[{"subnet": POD_RANGE}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
        ],
    }
    (folder / "10-pods.conflist").write_text(json.dumps(network, indent=2))
    configuration = layout.configuration / "containerd.toml"
    configuration.write_text(_containerd_settings(layout, folder))
    command = [_tool("containerd"), f"--config={configuration}"]
    return Component("containerd", command)


def kubelet(layout: Layout) -> Component:
    certificates = layout.certificates
    resolver = layout.configuration / "resolv.conf"
    resolver.write_text(f"nameserver {NODE_ADDRESS}\n")
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(certificates / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.identity}",
        "clusterDNS": [NODE_ADDRESS],
        "clusterDomain": DOMAIN,
        "containerRuntimeEndpoint": f"unix://{layout.containerd_socket}",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "maxPods": 250,
        # A process that may not raise the score of others may not lower its own.
        "oomScoreAdj": 0,
        "podLogsDir": str(layout.root / "pod-logs"),
        "resolvConf": str(resolver),
        "syncFrequency": "10s",
        "tlsCertFile": str(certificates / "kubelet.crt"),
        "tlsPrivateKeyFile": str(certificates / "kubelet.key"),
    }
    configuration = layout.configuration / "kubelet.yaml"
    configuration.write_text(yaml.safe_dump(settings))
    command = [
        str(program(KUBERNETES_NODE, "kubelet")),
        f"--config={configuration}",
        f"--kubeconfig={layout.kubeconfig_of('kubelet')}",
        f"--root-dir={layout.root / 'kubelet'}",
        f"--hostname-override={layout.node}",
        f"--node-ip={NODE_ADDRESS}",
    ]
    return Component("kubelet", command, health=Health(10248))


def proxy(layout: Layout) -> Component:
    command = [
        str(program(KUBERNETES_NODE, "kube-proxy")),
        f"--kubeconfig={layout.kubeconfig_of('kube-proxy')}",
        f"--hostname-override={layout.node}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={POD_RANGE}",
        "--conntrack-max-per-core=0",
        "--metrics-bind-address=127.0.0.1:10249",
    ]
    return Component("kube-proxy", command, health=Health(10256))


def coredns(layout: Layout) -> Component:
    corefile = layout.configuration / "Corefile"
    corefile.write_text(
        f".:53 {{\n"
        f"    bind {NODE_ADDRESS}\n"
        f"    errors\n"
        f"    health 127.0.0.1:8053\n"
        f"    kubernetes {DOMAIN} in-addr.arpa ip6.arpa {{\n"
        f"        kubeconfig {layout.kubeconfig_of('coredns')}\n"
        f"        pods insecure\n"
        f"        ttl 1\n"
        f"    }}\n"
        f"    cache 1\n"
        f"}}\n"
    )
    command = [str(program(COREDNS, "coredns")), f"-conf={corefile}"]
    return Component("coredns", command, health=Health(8053, "/health"))


def policy_controller(layout: Layout) -> Component:
    """Enforces NetworkPolicies with iptables and ipset. The CNI plugins themselves let everything through."""
    port = 20244
    command = [
        str(program(KUBE_ROUTER, "network-policy-controller")),
        f"--kubeconfig={layout.kubeconfig_of('network-policy')}",
        f"--hostname-override={layout.node}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        f"--healthz-bind-address=127.0.0.1:{port}",
    ]
    return Component("network-policy-controller", command, health=Health(port))


def make_control_groups(layout: Layout) -> None:
    """The kubelet requires its root group in every hierarchy."""
    for group in control_groups(layout):
        group.mkdir(exist_ok=True)
        if (group / "cpuset.cpus").exists() and group.parent != CGROUPS:
            for name in ("cpuset.cpus", "cpuset.mems"):
                (group / name).write_text((group.parent / name).read_text())


def _containerd_settings(layout: Layout, networks: Path) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    unused = ("snapshotter.v1.aufs", "snapshotter.v1.btrfs", "snapshotter.v1.devmapper", "snapshotter.v1.zfs")
    return f"""\
version = 2
root = "{layout.root / "containerd"}"
state = "{layout.root / "containerd-state"}"
disabled_plugins = [{", ".join(f'"io.containerd.{name}"' for name in unused)}]

[grpc]
address = "{layout.containerd_socket}"

[{cri}]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
disable_apparmor = true
netns_mounts_under_state_dir = true

[{cri}.cni]
bin_dir = "{PLUGINS}"
conf_dir = "{networks}"

[{cri}.registry]
config_path = "{layout.registries}"

[{cri}.containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"

[{cri}.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[{cri}.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "{layout.root / "runc"}"

[plugins."io.containerd.internal.v1.opt"]
path = "{layout.root / "containerd-opt"}"
"""


def _tool(name: str) -> str:
    found = shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin:/bin:/sbin")
    if found is None:
        raise FileNotFoundError(f"{name} is not installed: scripts/apt-install {' '.join(PACKAGES)}")
    return found
