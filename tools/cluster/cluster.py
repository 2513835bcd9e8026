"""`Cluster`: a real Kubernetes in parts that tests start, inspect, break on purpose and remove."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.cluster import addons, control_plane, credentials, gangs, images, kwok, network, node, processes, remains
from tools.cluster.build import build
from tools.cluster.kubectl import apply, kubectl, succeeds
from tools.cluster.layout import Layout
from tools.cluster.processes import Component
from tools.cluster.progress import say, step
from tools.cluster.sources import (
    ARGO,
    ARGO_3,
    COREDNS,
    ETCD,
    KUBE_ROUTER,
    KUBERNETES,
    KUBERNETES_NODE,
    KUEUE,
    KWOK,
    SCHEDULER_PLUGINS,
    TRAINING_OPERATOR,
    VERSITYGW,
    VOLCANO,
    Source,
)

ROOT = Path(__file__).parents[2]
CORE = ("iproute2", "util-linux")
CONTROLLERS = (
    "kube-controller-manager", "kube-scheduler", "kwok", "vc-controller-manager", "vc-scheduler", "workflow-controller",
    "workflow-controller-3.7", "training-operator", "scheduler-plugins-controller", "scheduler-plugins-scheduler",
    "kueue", "network-policy-controller",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """An optional part: what it is built from, what it runs, and what else it needs."""

    components: Mapping[str, Callable[[Layout], Component]]
    sources: tuple[Source, ...]
    packages: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    on_demand: bool = False
    """Whether it is installed only if named: building it takes minutes."""
    instead_of: str = ""
    """The part that it is another version of. Only one of them runs: starting one stops the other."""


PARTS: Mapping[str, Part] = {
    "control-plane": Part(
        {
            "etcd": control_plane.etcd,
            "kube-apiserver": control_plane.api_server,
            "kube-controller-manager": control_plane.controller_manager,
            "kube-scheduler": control_plane.scheduler,
        },
        (ETCD, KUBERNETES),
    ),
    "kwok": Part({"kwok": kwok.controller}, (KWOK,)),
    "node": Part(
        {
            "containerd": node.containerd,
            "kubelet": node.kubelet,
            "kube-proxy": node.proxy,
            "coredns": node.coredns,
        },
        (KUBERNETES_NODE, COREDNS),
        node.PACKAGES,
    ),
    "volcano": Part(
        {"vc-scheduler": addons.volcano_scheduler, "vc-controller-manager": addons.volcano_controllers}, (VOLCANO,)
    ),
    "argo": Part({"workflow-controller": addons.argo}, (ARGO,), needs=("node",)),
    "argo-3.7": Part(
        {"workflow-controller-3.7": addons.argo_3}, (ARGO_3,), needs=("node",), on_demand=True, instead_of="argo"
    ),
    "s3": Part({"s3": addons.s3}, (VERSITYGW,)),
    "training-operator": Part({"training-operator": addons.training_operator}, (TRAINING_OPERATOR,)),
    "scheduler-plugins": Part(
        {
            "scheduler-plugins-scheduler": gangs.plugins_scheduler,
            "scheduler-plugins-controller": gangs.plugins_controller,
        },
        (SCHEDULER_PLUGINS,),
        on_demand=True,
    ),
    "kueue": Part({"kueue": gangs.kueue}, (KUEUE,), on_demand=True),
    "network-policy": Part(
        {"network-policy-controller": node.policy_controller},
        (KUBE_ROUTER,),
        node.POLICY_PACKAGES,
        needs=("node",),
        on_demand=True,
    ),
}
USUAL = tuple(name for name, part in PARTS.items() if not part.on_demand)


class ClusterError(RuntimeError):
    """Says what to do."""


class Cluster:
    def __init__(self, name: str = "muster") -> None:
        self.layout = Layout(name)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig. It works only inside the cluster's network: `run`, `start` and `entered`."""
        return self.layout.kubeconfig

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of another user: "operator" may do everything, like any other component, and is not exempt
        from the server's priority and fairness."""
        return self.layout.kubeconfig_of(user)

    def up(self, parts: Sequence[str] = USUAL, *, fake_nodes: int | None = None) -> None:
        """Starts those of these parts that do not run yet. `fake_nodes` is the number of KWOK's nodes; by default
        existing ones stay, and a new cluster gets four."""
        if os.geteuid():
            raise ClusterError("the cluster needs root: it makes network namespaces, mounts and control groups")
        wanted = chosen(parts)
        for packages in (CORE, *(PARTS[part].packages for part in wanted)):
            if packages:
                subprocess.run([str(ROOT / "scripts" / "apt-install"), *packages], check=True)
        build([source for part in wanted for source in PARTS[part].sources])
        with self._alone():
            if not self.is_up():
                self._remove()
            self.layout.make()
            credentials.make(self.layout)
            network.make(self.layout)
            node.make_control_groups(self.layout)
            with step(f"Starting {', '.join(wanted)}"):
                for part in wanted:
                    self._start_part(part)
            if "kwok" in wanted and (fake_nodes is not None or not kwok.has_nodes(self.layout)):
                kwok.fake_nodes(self.layout, 4 if fake_nodes is None else fake_nodes)

    def down(self) -> None:
        """Removes all of it, even if it was started only in part."""
        with self._alone():
            self._remove()

    def is_up(self) -> bool:
        return all(processes.is_running(self.layout, name) for name in ("etcd", "kube-apiserver"))

    def status(self) -> dict[str, int | None]:
        """Every component that was started, with its pid if it runs."""
        return {name: processes.pid_of(self.layout, name) for name in processes.recorded(self.layout)}

    def kubectl(self, *arguments: str, given: str = "", seconds: float = 120.0) -> str:
        return kubectl(self.layout, *arguments, given=given, seconds=seconds)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        apply(self.layout, objects)

    def run(
        self, command: Sequence[str], *, seconds: float | None = None, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs inside the cluster's network, with KUBECONFIG set."""
        return subprocess.run(
            network.inside(self.layout, command), capture_output=True, text=True, timeout=seconds,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), **(environment or {})},
        )  # fmt: skip

    def entered(self) -> AbstractContextManager[None]:
        """Puts this thread into the cluster's network."""
        return network.entered(self.layout.network)

    def start(self, component: Component) -> None:
        """Starts a process beside the others: in the cluster's network, with a log, and stopped with the cluster."""
        processes.start(self.layout, component)
        processes.wait_ready(self.layout, component)

    def stop(self, name: str, *, force: bool = False) -> None:
        """`force` is like a power cut: the component gets no signal that it could handle."""
        processes.stop(self.layout, name, force=force)

    def restart(self, name: str, *more: str, environment: Mapping[str, str] | None = None) -> None:
        """Stops a component of ours if it runs, and starts it with these additional arguments."""
        self.stop(name)
        component = self._component(name)
        variables = {**(component.environment or {}), **(environment or {})}
        self._start(replace(component, command=[*component.command, *more], environment=variables))
        self._finish(name)

    def reconnect(self) -> None:
        """Restarts the running controllers unchanged: after an API server was away, each waits up to minutes before
        its next request."""
        running = [name for name in CONTROLLERS if self.pid(name)]
        for name in running:
            command = processes.command_of(self.layout, name)
            self.stop(name)
            processes.start(self.layout, replace(self._component(name), command=command))
        for name in running:
            self.wait_ready(name)
            self._finish(name)

    def wait_ready(self, name: str) -> None:
        """Waits until the component is ready. Raises an error with the end of its log if it exits instead."""
        processes.wait_ready(self.layout, self._component(name))

    def pid(self, name: str) -> int | None:
        return processes.pid_of(self.layout, name)

    def log(self, name: str) -> str:
        return processes.log_of(self.layout, name).read_text(errors="replace")

    def load(self, image: images.Image) -> str:
        """Imports the image into the node. Returns its name for `image:`, with `imagePullPolicy: Never`."""
        images.load(image, self.layout)
        return image.name

    def _start_part(self, part: str) -> None:
        layout = self.layout
        if all(processes.is_running(layout, name) for name in PARTS[part].components):
            return
        for other in other_versions(part):
            for name in PARTS[other].components:
                self.stop(name)
        if part == "control-plane":
            self._start(control_plane.etcd(layout))
            self._start(control_plane.api_server(layout))
            apply(layout, [_components_may_do_everything()])
        elif part == "volcano":
            addons.prepare_volcano(layout)
        elif part in ("argo", "argo-3.7"):
            addons.prepare_argo(layout, *PARTS[part].sources)
        elif part == "training-operator":
            addons.prepare_training_operator(layout)
        elif part == "scheduler-plugins":
            gangs.prepare_scheduler_plugins(layout)
        elif part == "kueue":
            gangs.prepare_kueue(layout)
        elif part == "node":
            self._start(node.containerd(layout))
            processes.wait_until(layout, "containerd", lambda: _containerd_answers(layout), 60)
            images.load(images.pause(), layout)
            images.load(images.busybox(), layout)
        components = [make(layout) for make in PARTS[part].components.values()]
        for component in components:
            if processes.start(layout, component):
                say(f"  {component.name} started")
        for component in components:
            self._finish(component.name)
            processes.wait_ready(layout, component)
        if part == "node":
            kubectl(layout, "wait", "--for=condition=Ready", "--timeout=90s", f"node/{layout.node}")

    def _start(self, component: Component) -> None:
        if processes.start(self.layout, component):
            say(f"  {component.name} started")
        processes.wait_ready(self.layout, component)

    def _finish(self, name: str) -> None:
        """What a component needs from others before it is ready."""
        layout = self.layout
        if name == "training-operator":
            addons.finish_training_operator(layout)
        elif name == "kueue":
            gangs.finish_kueue(layout)
        elif name == "vc-controller-manager":
            addons.finish_volcano(layout)
        elif name == "kube-controller-manager":
            # Pods are refused before this object exists.
            processes.wait_until(layout, name, lambda: succeeds(layout, "get", "serviceaccount", "default"), 60)

    def _component(self, name: str) -> Component:
        for part in PARTS.values():
            if name in part.components:
                return part.components[name](self.layout)
        raise ClusterError(f"there is no component {name}")

    def _remove(self) -> None:
        processes.stop_everything(self.layout)
        remains.remove(self.layout)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self.layout.lock.parent.mkdir(parents=True, exist_ok=True)
        with self.layout.lock.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another process starts or stops this cluster; waiting")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def chosen(parts: Sequence[str]) -> list[str]:
    """These parts and what they need, in the order of their start."""
    wanted = {"control-plane"}
    waiting = list(parts)
    while waiting:
        part = waiting.pop()
        if part not in PARTS:
            raise ClusterError(f'there is no part "{part}"; there are: {", ".join(PARTS)}')
        wanted.add(part)
        waiting += [needed for needed in PARTS[part].needs if needed not in wanted]
    for part in wanted:
        both = [other for other in other_versions(part) if other in wanted]
        if both:
            raise ClusterError(f"{part} and {both[0]} are versions of the same part: choose one")
    return [part for part in PARTS if part in wanted]


def other_versions(part: str) -> list[str]:
    """The parts that cannot run beside this one."""
    same = PARTS[part].instead_of or part
    return [name for name, each in PARTS.items() if name != part and (each.instead_of or name) == same]


def _containerd_answers(layout: Layout) -> bool:
    asked = ["ctr", f"--address={layout.containerd_socket}", "--timeout=5s", "version"]
    return subprocess.run(asked, capture_output=True).returncode == 0


def _components_may_do_everything() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "muster-components"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": credentials.COMPONENTS},
        ],
    }
