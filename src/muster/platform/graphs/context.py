"""What a graph refers to but does not hold: virtual clusters, storage roots, modules; and the run it is made for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.kube.pod_security import PodGrants
from muster.platform.graphs.model import Graph, Node, Output, Variable, is_graph, read
from muster.platform.records.resources import QueueSystem


@dataclass(frozen=True, slots=True)
class AvailableCluster:
    name: str
    sku: Mapping[str, str]
    """What one SKU is, by resource: {"nvidia.com/gpu": "1", "cpu": "10", "memory": "80G"}."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    queue: str = ""
    """What enforces its total, if there is anything: the name of a queue, or of a PriorityClass."""
    usable: bool = True
    """Whether the author may use it."""
    tolerations: Sequence[str] = ()
    """As `kubectl taint` writes them."""
    system: QueueSystem = "embedded"
    """What the queue belongs to."""


@dataclass(frozen=True, slots=True)
class AvailableRoot:
    """A host path or a claim."""

    name: str
    path: str
    """Where nodes find it, and the host path if there is no claim and no `host_path`."""
    claim: str = ""
    host_path: str = ""
    """The path on the host, if it differs from `path`."""
    read_only: bool = False
    usable: bool = True


@dataclass(frozen=True, slots=True)
class AvailableModule:
    """One version of a module."""

    name: str
    version: str
    image: str
    entrypoint: tuple[str, ...] = ()
    """The image's own, if known."""
    inputs: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    env: tuple[Variable, ...] = ()
    folder: str = ""
    """A checkout on the host that runs instead of the image; it needs `entrypoint`."""
    working_dir: str = "/app"
    """The image's WORKDIR: where the checkout is put."""
    usable: bool = True
    deprecated: bool = False
    retired: bool = False
    """Deprecated and not used by the workflow so far: it may not be added."""


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that exists, by name. What the author may not use is included, so that messages can say so."""

    clusters: Mapping[str, AvailableCluster] = field(default_factory=dict)
    roots: Mapping[str, AvailableRoot] = field(default_factory=dict)
    modules: Mapping[tuple[str, str], AvailableModule] = field(default_factory=dict)
    """By name and version."""
    allowed: PodGrants | None = None
    """What a manifest may refer to; None for everything."""
    claim_class: str | None = ""
    """The storage class of the volume that the Pods of a run share, if it has a training node with files; '' for the
    cluster's default, None if there is none for several Pods."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a version is compiled for."""

    id: str
    name: str
    """The name of the Workflow object."""
    user: str
    secret: str
    """The name of the run's Secret; see `secret_for`."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What was filled in; defaults are taken for the rest."""
    namespace: str = ""
    service_account: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


def retire(context: Context, before: Mapping[str, Any] | None) -> Context:
    """For a new version of a workflow: deprecated modules may be used only if the previous document uses them."""
    pinned = {node.module for node in read(before).nodes} if before is not None and is_graph(before) else set()
    modules = {
        key: replace(module, retired=True) if module.deprecated and key not in pinned else module
        for key, module in context.modules.items()
    }
    return replace(context, modules=modules)


def with_modules(graph: Graph, context: Context) -> Graph:
    """Returns the graph with the image, environment and outputs of modules filled in. Nodes of unknown modules stay
    unchanged."""
    return replace(graph, nodes=tuple(_with_module(node, context) for node in graph.nodes))


def _with_module(node: Node, context: Context) -> Node:
    module = context.modules.get(node.module) if node.module is not None and node.kind == "module" else None
    if module is None:
        return node
    own = {variable.name for variable in node.env}
    env = (*(variable for variable in module.env if variable.name not in own), *node.env)
    return replace(node, command="", image=module.image, env=env, outputs=module.outputs)
