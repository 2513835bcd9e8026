"""`muster logs`: prints the log of one container, or of many with the Pod's name on each line. Works for deleted Pods,
too."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer

from muster.cli.errors import CommandError
from muster.cli.output import LogWriter, colorize, echo, pick_color, supports_color, warn
from muster.cli.pod_logs import LogFollower, LogLine, LogSource, split_timestamp
from muster.cli.run_objects import is_workload
from muster.cli.selection import format_nothing_found, list_objects, watch_object
from muster.cli.session import LATEST, LabelSelector, Session, on_cluster, parse_duration
from muster.cli.workflow_objects import find_workflow, strip_workflow_type, workflow_kind
from muster.kube.cluster import LogQuery
from muster.kube.controller import Informer
from muster.kube.errors import ApiError, BadRequest, NotFound
from muster.kube.objects import (
    Object,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)


@on_cluster
async def logs(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="[POD | WORKFLOW | @latest | TYPE/NAME]")] = "",
    container_name: Annotated[str, typer.Argument(metavar="[CONTAINER | NODE]")] = "",
    container: Annotated[str, typer.Option("--container", "-c", help="The container of the Pod.")] = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Keep running and print new lines.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Print the log of the run before the last restart.")
    ] = False,
    tail: Annotated[int, typer.Option("--tail", help="Print only the last N lines; -1 prints all.")] = -1,
    since: Annotated[str, typer.Option("--since", help="Print only lines younger than this, as in 10m.")] = "",
    since_time: Annotated[str, typer.Option("--since-time", help="Print only lines after this time (RFC 3339).")] = "",
    limit_bytes: Annotated[int, typer.Option("--limit-bytes", help="Print at most this many bytes; 0 prints all.")] = 0,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Print the time of each line.")] = False,
    selector: LabelSelector = "",
    all_containers: Annotated[bool, typer.Option("--all-containers", help="Print the logs of all containers.")] = False,
    prefix: Annotated[bool, typer.Option("--prefix", help="Print the Pod's name before each line.")] = False,
) -> None:
    """Print the logs of containers."""
    if bool(target) == bool(selector):
        raise CommandError("specify a Pod, a TYPE/NAME such as job/train, or a selector (-l)")
    container = container or container_name
    query = LogQuery(
        container=container,
        follow=follow,
        previous=previous,
        timestamps=timestamps,
        tail_lines=tail if tail >= 0 else None,
        since_seconds=_since_seconds(since, since_time),
        limit_bytes=limit_bytes or None,
    )
    if selector:
        many = _LogPrinter(session, query, labels=selector)
        if tail < 0 and not follow:
            many.query = replace(query, tail_lines=10)
        await many.run()
        return
    if await _print_workflow_logs(session, target, container, query):
        return
    kind, name = await session.target(target)
    if kind.kind != "Pod" or kind.group:
        owner = await session.cluster.get(kind, name, session.namespace)
        await _LogPrinter(session, query, owner=owner).run()
        return
    await _print_pod(session, name, query, all_containers, prefix)


async def _print_workflow_logs(session: Session, target: str, node: str, query: LogQuery) -> bool:
    """Prints the logs of a workflow or of one of its nodes. Returns False if the target is not a workflow."""
    if not await _is_workflow(session, target):
        return False
    from muster.cli.workflow_follow import LogView, print_logs  # rarely needed

    view = LogView(
        node=node,
        follow=query.follow,
        previous=query.previous,
        timestamps=query.timestamps,
        tail=query.tail_lines,
        since=query.since_seconds,
    )
    await print_logs(session, await find_workflow(session, target), view)
    return True


async def _is_workflow(session: Session, target: str) -> bool:
    name = strip_workflow_type(target)
    if not name or target == LATEST or "/" in target:
        return bool(name)
    pod_kind = session.cluster.catalogue.of("v1", "Pod")
    try:
        pod = await session.cluster.get(pod_kind, name, session.namespace)
    except NotFound:
        try:
            await session.cluster.get(workflow_kind(), name, session.namespace)
        except NotFound:
            return False
        return True
    # A workflow of one Pod gives it the workflow's name.
    return labels_of(pod).get("workflows.argoproj.io/workflow") == name


async def _print_pod(session: Session, name: str, query: LogQuery, all_containers: bool, prefix: bool) -> None:
    try:
        pod = await session.cluster.get(session.cluster.catalogue.of("v1", "Pod"), name, session.namespace)
    except NotFound as missing:
        await _print_deleted_pod(session, name, query, missing)
        return
    containers = _containers(pod)
    if all_containers and len(containers) > 1:
        many = _LogPrinter(session, query, pods=[pod])
        await many.run()
        return
    if not query.container and len(containers) > 1:
        default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
        main = default or str(spec_of(pod)["containers"][0]["name"])
        if len(spec_of(pod)["containers"]) > 1:
            warn(f'Defaulted container "{main}" out of: {", ".join(_describe_containers(pod))}')
        query = replace(query, container=main)
    if query.container and query.container not in containers:
        raise CommandError(
            f"error: container {query.container} is not valid for pod {name}; it has {', '.join(containers)}"
        )
    if query.follow:
        await _wait_until_has_started(session, pod, query.container or containers[0])
    await _copy(session, name, query, f"[pod/{name}/{query.container or containers[0]}] " if prefix else "")


async def _print_deleted_pod(session: Session, name: str, query: LogQuery, missing: NotFound) -> None:
    """Prints the log of a deleted Pod, which only the embedded cluster keeps. Another cluster raises `missing`."""
    try:
        await _copy(session, name, replace(query, follow=False), "")
    except (NotFound, BadRequest):
        other = await _find_workload(session, name)
        if other:
            raise CommandError(
                f'error: there is no Pod "{name}" in namespace {session.namespace}; for the logs of all its Pods: '
                f"muster logs {other}"
            ) from None
        raise missing from None


async def _find_workload(session: Session, name: str) -> str:
    """Returns KIND/NAME of a training job or Job with this name, or ""."""
    for kind in session.cluster.catalogue:
        if kind.namespaced and is_workload({"apiVersion": kind.api_version, "kind": kind.kind}):
            with suppress(ApiError):
                await session.cluster.get(kind, name, session.namespace)
                return f"{kind.singular}/{name}"
    return ""


async def _copy(session: Session, name: str, query: LogQuery, prefix: str) -> None:
    """Copies the log byte by byte."""
    out = LogWriter()
    at_start = True
    mark = prefix.encode()
    async for chunk in session.cluster.logs(name, session.namespace, query):
        if mark:
            body = chunk[:-1] if chunk.endswith(b"\n") else chunk
            chunk, ends = (mark if at_start else b"") + body.replace(b"\n", b"\n" + mark), chunk.endswith(b"\n")
            chunk += b"\n" if ends else b""
            at_start = ends
        out.write(chunk)


async def _wait_until_has_started(session: Session, pod: Object, container: str) -> None:
    """Waits until the container has started, so that there is a log to follow."""
    kind = session.cluster.catalogue.of("v1", "Pod")
    async with watch_object(session.cluster, kind, name_of(pod), namespace_of(pod)) as states:
        async for now in states:
            if now is None or _has_started(now, container):
                return


def _has_started(pod: Object, container: str) -> bool:
    status = status_of(pod)
    if status.get("phase") in ("Succeeded", "Failed"):
        return True
    for one in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if one.get("name") == container:
            state = {**(one.get("lastState") or {}), **(one.get("state") or {})}
            return "running" in state or "terminated" in state
    return False


class _LogPrinter:
    """Prints the logs of several containers, with the source of each line."""

    def __init__(
        self,
        session: Session,
        query: LogQuery,
        *,
        labels: str = "",
        owner: Object | None = None,
        pods: Sequence[Object] = (),
    ) -> None:
        self.query = query
        self._session = session
        self._labels = labels
        self._owner = owner
        self._pods = pods
        self._colours = supports_color()
        self._known: dict[str, int] = {}

    async def run(self) -> None:
        if self.query.follow:
            await self._follow()
            return
        pods = list(self._pods) or [pod for pod in await self._list() if self._is_selected(pod)]
        if not pods:
            warn(format_nothing_found(self._session.namespace))
            return
        for pod in sorted(pods, key=lambda p: str(p["metadata"].get("creationTimestamp"))):
            for container in _containers(pod):
                if not self.query.container or container == self.query.container:
                    await self._print(pod, container)

    async def _list(self) -> list[Object]:
        kind = self._session.cluster.catalogue.of("v1", "Pod")
        return await list_objects(self._session, kind, self._session.namespace, self._labels)

    async def _print(self, pod: Object, container: str) -> None:
        query = replace(self.query, container=container, timestamps=True)
        source = LogSource(namespace_of(pod), name_of(pod), container, len(_containers(pod)) == 1)
        rest = b""
        try:
            async for chunk in self._session.cluster.logs(name_of(pod), namespace_of(pod), query):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    self._emit(source, [split_timestamp(line) for line in whole.decode(errors="replace").split("\n")])
        except BadRequest as error:
            # The container has not started, so it has no log yet.
            warn(f"{source}: {error.message}")
        if rest:
            self._emit(source, [split_timestamp(rest.decode(errors="replace"))])

    async def _follow(self) -> None:
        """Follows the logs until every Pod has ended."""
        cluster = self._session.cluster
        follower = LogFollower(
            cluster,
            self._emit,
            container=self.query.container,
            tail_lines=self.query.tail_lines,
            since_seconds=self.query.since_seconds,
        )
        running: set[str] = set()
        changed = asyncio.Event()

        def on_change(before: Object | None, after: Object | None) -> None:
            pod = after or before
            if pod is None or not self._is_selected(pod):
                return
            if after is None or status_of(after).get("phase") in ("Succeeded", "Failed"):
                running.discard(uid_of(pod))
            else:
                running.add(uid_of(pod))
            follower.update(pod)
            if after is None:
                follower.finish(pod)
            changed.set()

        kind = cluster.catalogue.of("v1", "Pod")
        fields = f"metadata.name={name_of(self._pods[0])}" if self._pods else ""
        try:
            async with Informer(
                cluster, kind, self._session.namespace, labels=self._labels, fields=fields, on_change=on_change
            ) as informer:
                if not any(self._is_selected(pod) for pod in informer.objects.values()) and self._owner is None:
                    warn(format_nothing_found(self._session.namespace))
                    return
                while running or (self._owner is not None and not changed.is_set()):
                    changed.clear()
                    await changed.wait()
                await follower.drain()
        finally:
            await follower.close()

    def _is_selected(self, pod: Object) -> bool:
        if self._pods:
            return uid_of(pod) == uid_of(self._pods[0])
        return self._owner is None or any(ref.get("uid") == uid_of(self._owner) for ref in owners_of(pod))

    def _emit(self, source: LogSource, lines: list[LogLine]) -> None:
        number = self._known.setdefault(str(source), len(self._known))
        mark = colorize(f"[{source}]", pick_color(number), on=self._colours)
        for line in lines:
            stamp = f"{line.stamp} " if self.query.timestamps else ""
            echo(f"{mark} {stamp}{line.text}")


def _containers(pod: Object) -> list[str]:
    spec = spec_of(pod)
    return [str(c["name"]) for c in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))]


def _describe_containers(pod: Object) -> list[str]:
    spec = spec_of(pod)
    return [
        *(str(c["name"]) for c in spec.get("containers") or ()),
        *(f"{c['name']} (init)" for c in spec.get("initContainers") or ()),
    ]


def _since_seconds(since: str, since_time: str) -> float | None:
    if since and since_time:
        raise CommandError("--since and --since-time cannot be combined")
    if since:
        return parse_duration(since, "--since")
    if not since_time:
        return None
    try:
        return max((datetime.now(UTC) - parse_time(since_time)).total_seconds(), 0.0)
    except ValueError:
        raise CommandError(f'--since-time: "{since_time}" is not a time; use the form 2025-01-31T12:00:00Z') from None
