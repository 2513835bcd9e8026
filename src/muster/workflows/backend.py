"""`WorkflowBackend`: what runs Workflows, and how the platform submits, follows, stops and retries them there.

There are two. The engine of the embedded cluster stores nodes as rows, and keeps logs of deleted Pods. The Argo
Workflows controller of a real cluster stores nodes in the Workflow: plain, compressed if they are large, or in its own
database; its executor archives logs in the artifact repository. Everything else is the same: both read and write
Argo's objects.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

import orjson

from muster.kube.cluster import Cluster, StatusRowsCluster
from muster.kube.errors import AlreadyExists, ApiError, NotFound, TooLarge, Unavailable
from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, namespace_of, spec_of, status_of
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing
from muster.workflows.executors.resource import RETRIES
from muster.workflows.kinds import WORKFLOW
from muster.workflows.operations import apply
from muster.workflows.operations.retry import RetryResult

log = logging.getLogger(__name__)

RUN_ACCOUNT: Final = "muster-run"
"""The service account of the Pods of runs on a real cluster."""
ARCHIVED_LOG: Final = "main-logs"
"""What Argo calls the artifact that holds the log of a node's main container."""
KEY_FORMAT: Final = "{{workflow.namespace}}/{{workflow.name}}/{{workflow.annotations." + RETRIES + "}}/{{pod.name}}"
"""Keys of artifacts and logs. A retry uses the names of Pods again, so the number of retries is a part of them: the log
of an earlier attempt is not overwritten."""
INSTANCE_LABEL: Final = "workflows.argoproj.io/controller-instanceid"

_LARGEST_WORKFLOW: Final = 1 << 20
"""Argo compresses the nodes of a Workflow that is larger: etcd refuses 1.5 MiB."""
_LARGEST_NODES: Final = 256 << 20
_SMALL: Final = 1 << 16


class WorkflowBackend(Protocol):
    @property
    def archives_logs(self) -> bool:
        """Whether `archived_log` returns the logs of all attempts, also of those before a retry."""
        ...

    @property
    def has_executor_lines(self) -> bool:
        """Whether an executor writes lines of its own into the logs of Pods."""
        ...

    @property
    def runs_pipelines(self) -> bool:
        """Whether compiled Kubeflow pipelines run there, too."""
        ...

    @property
    def reads_nodes_elsewhere(self) -> bool:
        """Whether nodes that cannot be read now may be readable later: they are not on the cluster."""
        ...

    async def submit(self, workflow: Object) -> None:
        """Creates the Workflow. Does nothing if it exists."""
        ...

    async def with_nodes(self, workflow: Object) -> Object:
        """Returns a Workflow with all its nodes in `status.nodes`. If they cannot be read, `lacks_nodes` holds."""
        ...

    async def write(self, workflow: Object, changed: Object) -> Object:
        """Writes what an operation such as stop has changed."""
        ...

    async def retry(self, workflow: Object, plan: RetryResult) -> Object:
        """Carries out a retry of a Workflow with its nodes. Raises Conflict if it has changed since it was read."""
        ...

    def archived_log(self, workflow: Object, round: int, pod: str) -> AsyncIterator[bytes]:
        """Yields the log of an attempt whose Pod is gone, each line with a time in front that may be empty; nothing if
        there is none. `workflow` needs no status, only its name and namespace."""
        ...


class EmbeddedBackend:
    """The engine in this process."""

    archives_logs = False
    has_executor_lines = False
    runs_pipelines = True
    reads_nodes_elsewhere = False

    def __init__(self, cluster: StatusRowsCluster) -> None:
        self._cluster = cluster

    async def submit(self, workflow: Object) -> None:
        with suppress(AlreadyExists):
            await self._cluster.create(workflow)

    async def with_nodes(self, workflow: Object) -> Object:
        return self._cluster.with_status_rows(workflow, WORKFLOW)

    async def write(self, workflow: Object, changed: Object) -> Object:
        return await apply.write(self._cluster, workflow, changed)

    async def retry(self, workflow: Object, plan: RetryResult) -> Object:
        return await apply.carry_out_retry(self._cluster, workflow, plan)

    async def archived_log(self, workflow: Object, round: int, pod: str) -> AsyncIterator[bytes]:
        """The cluster itself returns the logs of deleted Pods."""
        none: tuple[bytes, ...] = ()
        for piece in none:
            yield piece


@dataclass(frozen=True, slots=True)
class ArgoOptions:
    instance_id: str = ""
    """The `instanceID` of the controller that is to run the Workflows, if several share the cluster."""
    archive_logs: bool = False
    """Whether there is an artifact repository to which logs can be archived."""


FetchNodes = Callable[[str, str], Awaitable[Mapping[str, Any]]]
"""Returns the nodes of a Workflow, by namespace and name, that Argo keeps in its database."""


class ArgoBackend:
    """The Argo Workflows controller of a real cluster."""

    has_executor_lines = True
    runs_pipelines = False

    def __init__(
        self,
        cluster: Cluster,
        options: ArgoOptions = ArgoOptions(),
        artifacts: ArtifactClient | None = None,
        fetch_nodes: FetchNodes | None = None,
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._artifacts = artifacts
        self._fetch_nodes = fetch_nodes

    @property
    def archives_logs(self) -> bool:
        return self._options.archive_logs

    @property
    def reads_nodes_elsewhere(self) -> bool:
        return self._fetch_nodes is not None

    async def submit(self, workflow: Object) -> None:
        with suppress(AlreadyExists):
            await self._cluster.create(prepare_for_argo(workflow, self._options))

    async def with_nodes(self, workflow: Object) -> Object:
        status = status_of(workflow)
        if status.get("offloadNodeStatusVersion"):
            return await self._with_offloaded_nodes(workflow)
        packed = str(status.get("compressedNodes") or "")
        if not packed:
            return workflow
        try:
            nodes = unpack_nodes(packed) if len(packed) < _SMALL else await asyncio.to_thread(unpack_nodes, packed)
        except ValueError as error:
            return with_message(workflow, f"status.compressedNodes cannot be read: {error}")
        return {**workflow, "status": {**status, "nodes": nodes}}

    async def write(self, workflow: Object, changed: Object) -> Object:
        return await apply.write(self._cluster, stored_form(workflow), stored_form(changed))

    async def retry(self, workflow: Object, plan: RetryResult) -> Object:
        after = await asyncio.to_thread(pack_nodes, plan.workflow)
        return await apply.carry_out_retry(self._cluster, stored_form(workflow), plan._replace(workflow=after))

    async def archived_log(self, workflow: Object, round: int, pod: str) -> AsyncIterator[bytes]:
        if self._artifacts is None or not self._options.archive_logs:
            return
        key = archived_log_key(namespace_of(workflow), name_of(workflow), round, pod)
        artifact = {"name": ARCHIVED_LOG, "archive": {"none": {}}, "s3": {"key": key}}
        try:
            begins_line = True
            async for piece in self._artifacts.read(workflow, artifact):
                yield with_empty_times(piece, begins_line)
                begins_line = piece.endswith(b"\n")
        except ArtifactMissing:
            return
        except ArtifactError as error:
            raise Unavailable(f"the archived log cannot be read: {error}") from None

    async def _with_offloaded_nodes(self, workflow: Object) -> Object:
        if self._fetch_nodes is None:
            return with_message(workflow, OFFLOADED)
        try:
            nodes = await self._fetch_nodes(namespace_of(workflow), name_of(workflow))
        except (ApiError, OSError, ValueError) as error:
            log.warning("the nodes of %s/%s: %s", namespace_of(workflow), name_of(workflow), error)
            return with_message(workflow, f"the Argo server does not return the nodes: {error}")
        return {**workflow, "status": {**status_of(workflow), "nodes": dict(nodes)}}


OFFLOADED: Final = (
    "Argo keeps the nodes of this workflow in its database (nodeStatusOffLoad), where only the Argo server can read "
    "them: set kubernetes.argoServer"
)


def backend_of(cluster: Cluster) -> WorkflowBackend:
    """Returns the backend of a cluster without any options."""
    return EmbeddedBackend(cluster) if isinstance(cluster, StatusRowsCluster) else ArgoBackend(cluster)


def prepare_for_argo(workflow: Object, options: ArgoOptions) -> Object:
    """Returns the Workflow as it is created on a real cluster. What its author has set stays."""
    spec = dict(spec_of(workflow))
    spec.setdefault("serviceAccountName", RUN_ACCOUNT)
    if options.archive_logs:
        spec.setdefault("archiveLogs", True)
    metadata = {**meta(workflow), "annotations": {**annotations_of(workflow), RETRIES: "0"}}
    if options.instance_id:
        metadata["labels"] = {**labels_of(workflow), INSTANCE_LABEL: options.instance_id}
    return {**workflow, "metadata": metadata, "spec": spec}


def archived_log_key(namespace: str, workflow: str, round: int, pod: str) -> str:
    return f"{namespace}/{workflow}/{round}/{pod}/main.log"


def with_empty_times(piece: bytes, begins_line: bool) -> bytes:
    """Puts a space in front of every line that starts in the piece: an archived log has no times."""
    spaced = piece.replace(b"\n", b"\n ")
    if piece.endswith(b"\n"):
        spaced = spaced[:-1]
    return b" " + spaced if begins_line else spaced


def with_message(workflow: Object, message: str) -> Object:
    """Adds why the nodes are not known, unless the workflow itself has something to say."""
    status = status_of(workflow)
    return {**workflow, "status": {**status, "message": status.get("message") or message}}


def lacks_nodes(workflow: Object) -> bool:
    """Whether there are nodes that could not be read."""
    status = status_of(workflow)
    has_others = status.get("offloadNodeStatusVersion") or status.get("compressedNodes")
    return bool(has_others) and not status.get("nodes")


def unpack_nodes(packed: str) -> dict[str, Any]:
    """Returns the nodes of `status.compressedNodes`: JSON, gzip, base64. Raises ValueError."""
    try:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = unpacker.decompress(base64.b64decode(packed, validate=True), _LARGEST_NODES)
    except (binascii.Error, zlib.error) as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof:
        raise ValueError(f"it is incomplete, or has more than {_LARGEST_NODES >> 20} MiB")
    nodes = orjson.loads(text)
    if not isinstance(nodes, dict):
        raise ValueError("it is not a map of nodes")
    return nodes


def pack_nodes(workflow: Object) -> Object:
    """Returns the Workflow as Argo stores it: its nodes are compressed if it is too large with them. Raises
    TooLarge."""
    status = {n: v for n, v in status_of(workflow).items() if n not in ("compressedNodes", "offloadNodeStatusVersion")}
    plain = {**workflow, "status": status}
    if len(orjson.dumps(plain)) <= _LARGEST_WORKFLOW:
        return plain
    content = gzip.compress(orjson.dumps(status.get("nodes") or {}), mtime=0)
    status = {name: value for name, value in status.items() if name != "nodes"}
    packed = {**workflow, "status": {**status, "compressedNodes": base64.b64encode(content).decode()}}
    if len(orjson.dumps(packed)) > _LARGEST_WORKFLOW:
        raise TooLarge(
            f'the workflow "{name_of(workflow)}" is larger than {_LARGEST_WORKFLOW} bytes, even with compressed nodes'
        )
    return packed


def stored_form(workflow: Object) -> Object:
    """Returns a Workflow with its nodes as the cluster has it: without those that it stores compressed or elsewhere."""
    status = status_of(workflow)
    if not (status.get("compressedNodes") or status.get("offloadNodeStatusVersion")):
        return workflow
    return {**workflow, "status": {name: value for name, value in status.items() if name != "nodes"}}


def nodes_from_argo_server(
    request: Callable[[str], Awaitable[bytes]],
) -> FetchNodes:
    """`request` gets a path of the Argo server and returns the response."""

    async def fetch(namespace: str, name: str) -> Mapping[str, Any]:
        found = orjson.loads(await request(f"/api/v1/workflows/{namespace}/{name}?fields=status.nodes"))
        nodes = (found.get("status") or {}).get("nodes") if isinstance(found, dict) else None
        if not isinstance(nodes, dict):
            raise NotFound("it has none")
        return nodes

    return fetch
