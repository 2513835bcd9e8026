"""Which workspaces there are, whose they are, and where their servers listen.

The address of a Pod comes from the node that runs it, or from the status that a kubelet wrote. It is read again for
every request: the address of a Pod that has ended may belong to another one a moment later.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, name_of, namespace_of, status_of, uid_of
from muster.platform.errors import UnavailableProblem
from muster.platform.namespaces import NamespaceOwner
from muster.platform.records.common import Subject
from muster.workspaces.addresses import find_upstream
from muster.workspaces.kinds import NOTEBOOK, TENSORBOARD
from muster.workspaces.plan import pod_name

PORT_ANNOTATION: Final = "workspaces.muster.dev/port"
"""On a Pod that can be opened in a browser: the port of its HTTP server."""
KINDS: Final = (NOTEBOOK, TENSORBOARD, POD)
_KEPT = 10_000
_UNKNOWN_SECONDS = 2.0
T = TypeVar("T")


class Workspace(NamedTuple):
    uid: str
    kind: Kind
    namespace: str
    name: str
    subject: Subject


class WorkspaceAddress(NamedTuple):
    host: str
    port: int
    headers: tuple[tuple[str, str], ...] = ()
    """What its server needs with every request, such as a token of Jupyter's. Browsers never see it. Never log it."""
    path: str = "/"
    """Where its pages begin."""

    def __repr__(self) -> str:
        return f"WorkspaceAddress({self.host}:{self.port})"


class WorkspaceDirectory:
    """Finds workspaces on the cluster. One belongs to the user or the team of its namespace."""

    def __init__(self, cluster: Cluster, find_owner: Callable[[str], NamespaceOwner | None]) -> None:
        self._cluster, self._find_owner = cluster, find_owner
        self._is_embedded = isinstance(cluster, EmbeddedCluster)
        self._places: OrderedDict[str, Workspace] = OrderedDict()
        self._unknown: OrderedDict[str, float] = OrderedDict()
        """Uids that were looked for in vain, and until when they are not looked for again."""

    async def find(self, uid: str) -> Workspace | None:
        """None if there is no such workspace (any more). Whose it is is looked up again."""
        known = self._places.get(uid) or await self._look_for(uid)
        if known is None:
            return None
        try:
            found = await self._cluster.get(known.kind, known.name, known.namespace)
        except NotFound:
            return None
        return self._describe(known.kind, found) if uid_of(found) == uid else None

    async def address(self, workspace: Workspace) -> WorkspaceAddress:
        """Where it is served now. Raises UnavailableProblem if it does not run."""
        namespace, name = workspace.namespace, workspace.name
        found = await self._cluster.get(workspace.kind, name, namespace)
        if workspace.kind is POD:
            port = port_of_pod(found)
            if port is None:
                raise UnavailableProblem.of("workspace.stopped", detail=f"{PORT_ANNOTATION} is missing")
            return WorkspaceAddress(await pod_address(self._cluster, namespace, name, port), port)
        upstream = await find_upstream(self._cluster, workspace.kind, namespace, name)
        if upstream is None:
            raise UnavailableProblem.of("workspace.stopped", detail="its Pod is not ready")
        host = upstream.host
        if self._is_embedded:
            host = await pod_address(self._cluster, namespace, pod_name(found), upstream.port)
        return WorkspaceAddress(host, upstream.port, upstream.headers, upstream.prefix)

    async def _look_for(self, uid: str) -> Workspace | None:
        now = time.monotonic()
        if self._unknown.get(uid, 0.0) > now:
            return None
        for kind in KINDS:
            with suppress(NotFound):  # a cluster without these kinds
                for found in (await self._cluster.list(kind)).items:
                    if kind is not POD or port_of_pod(found) is not None:
                        _remember(self._places, uid_of(found), self._describe(kind, found))
        if uid not in self._places:
            _remember(self._unknown, uid, now + _UNKNOWN_SECONDS)
        return self._places.get(uid)

    def _describe(self, kind: Kind, found: Object) -> Workspace:
        owner = namespace_owner(namespace_of(found), self._find_owner)
        subject = Subject("workspace", uid_of(found), owner=owner.user, team=owner.team)
        return Workspace(uid_of(found), kind, namespace_of(found), name_of(found), subject)


def port_of_pod(pod: Object) -> int | None:
    """The port that a Pod names in its annotation."""
    text = str(annotations_of(pod).get(PORT_ANNOTATION, ""))
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,4}", text) and int(text) < 65536 else None


def namespace_owner(namespace: str, find_owner: Callable[[str], NamespaceOwner | None]) -> NamespaceOwner:
    """What is in a namespace without an owner is for admins."""
    return find_owner(namespace) or NamespaceOwner()


async def pod_address(cluster: Cluster, namespace: str, pod: str, port: int) -> str:
    """Where a port of a running Pod can be reached from the server. Raises UnavailableProblem."""
    try:
        if not isinstance(cluster, EmbeddedCluster):
            found = str(status_of(await cluster.get(POD, pod, namespace)).get("podIP") or "")
        elif cluster.node is None:
            found = ""
        else:
            # The status of a Pod must not choose what the server connects to: members may write it.
            with cluster.node.forward(pod, namespace) as address:
                found = address
            cluster.node.check_listener(pod, namespace, port)
    except ApiError as error:
        raise UnavailableProblem.of("workspace.stopped", detail=str(error)) from None
    if not found:
        raise UnavailableProblem.of("workspace.stopped", detail=f'the Pod "{pod}" has no address')
    return found


def _remember(where: OrderedDict[str, T], key: str, value: T) -> None:
    where[key] = value
    while len(where) > _KEPT:
        where.popitem(last=False)
