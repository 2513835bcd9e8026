"""The end of the logs of containers that ended badly: usually where the reason stands."""

from __future__ import annotations

import asyncio

from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import ApiError
from muster.kube.objects import Object, name_of, namespace_of
from muster.kube.why import ended_badly

_PATIENCE = 5.0


async def last_lines(cluster: Cluster, pod: Object, count: int) -> dict[str, list[str]]:
    """By container. A log that cannot be read is left out: the status already says that the container failed."""
    ends = ended_badly(pod)
    found = await asyncio.gather(*(_tail(cluster, pod, end.container, count, end.running_again) for end in ends))
    return {end.container: lines for end, lines in zip(ends, found, strict=True) if lines}


async def _tail(cluster: Cluster, pod: Object, container: str, count: int, previous: bool) -> list[str]:
    query = LogQuery(container=container, tail_lines=count, previous=previous)
    try:
        async with asyncio.timeout(_PATIENCE):
            data = b"".join([chunk async for chunk in cluster.logs(name_of(pod), namespace_of(pod), query)])
    except (ApiError, OSError, TimeoutError):
        return []
    return as_lines(data)[-count:]


def as_lines(data: bytes) -> list[str]:
    """Text lines; of a line that redraws itself (a progress bar), what it showed last."""
    lines = data.decode(errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return [last_shown(line) for line in lines]


def last_shown(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2]
