"""Where a workspace is served, for the proxy in front of it.

    upstream = await find_upstream(cluster, NOTEBOOK, namespace, name)

The address is that of the Pod which the workspace controls, as its node reported it. Nothing that a user writes can
change the host; the port is the one that the container names. The headers prove to the workspace's own server that a
request comes from the proxy: they are sent instead of what the browser sends, and never reach a browser, a URL or a
log.
"""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime
from typing import NamedTuple

from muster.kube.builtin import POD, SECRET
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, controller_of, get_condition, parse_time, status_of, uid_of
from muster.workspaces.kinds import NOTEBOOK, is_stopped
from muster.workspaces.plan import TOKEN_KEY, is_ready, pod_name, port_of, prefix_of, secret_name


class Upstream(NamedTuple):
    host: str
    port: int
    prefix: str
    """The path below which it is served: `/`, or the notebook's own NB_PREFIX, with a slash at the end."""
    headers: tuple[tuple[str, str], ...]
    """What the proxy adds to every request, and to the handshake of a WebSocket. Never log it."""
    uid: str
    """Of the Pod: another one after a restart."""
    ready_since: datetime

    def __repr__(self) -> str:
        return f"Upstream({self.host}:{self.port}{self.prefix})"


def address_of(workspace: Object, pod: Object) -> tuple[str, int] | None:
    """Returns the host and port of a workspace's Pod; None if it is not ready, or the Pod is not the workspace's."""
    owner = controller_of(pod)
    host = str(status_of(pod).get("podIP") or "")
    if owner is None or owner.get("uid") != uid_of(workspace) or not host or not is_ready(pod):
        return None
    return host, port_of(workspace)


def headers_for(workspace: Object, token: str) -> tuple[tuple[str, str], ...]:
    """Jupyter's token, or that of our TensorBoard server."""
    scheme = "token" if workspace.get("kind") == NOTEBOOK.kind else "Bearer"
    return (("authorization", f"{scheme} {token}"),)


async def find_upstream(cluster: Cluster, kind: Kind, namespace: str, name: str) -> Upstream | None:
    """Returns where a workspace is served; None if it is stopped or not ready. Raises NotFound if there is none. The
    caller must check permissions."""
    workspace = await cluster.get(kind, name, namespace)
    if is_stopped(workspace):
        return None
    try:
        pod = await cluster.get(POD, pod_name(workspace), namespace)
        token = await read_token(cluster, workspace)
    except NotFound:
        return None
    address = address_of(workspace, pod)
    if address is None or not token:
        return None
    ready = get_condition(status_of(pod).get("conditions"), "Ready") or {}
    since = parse_time(str(ready.get("lastTransitionTime") or workspace["metadata"]["creationTimestamp"]))
    return Upstream(*address, prefix_of(workspace), headers_for(workspace, token), uid_of(pod), since)


async def read_token(cluster: Cluster, workspace: Object) -> str:
    """Returns the token of a workspace's server; '' if the Secret is not the workspace's. Raises NotFound."""
    secret = await cluster.get(SECRET, secret_name(workspace), str(workspace["metadata"]["namespace"]))
    owner = controller_of(secret)
    if owner is None or owner.get("uid") != uid_of(workspace):
        return ""
    return b64decode((secret.get("data") or {}).get(TOKEN_KEY) or "").decode()
