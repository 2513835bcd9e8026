"""`muster run`: applies files, shows their progress, and exits with their result."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, NamedTuple

import typer

from muster.cli.errors import CommandError, CommandExit
from muster.cli.pipeline_files import read_pipelines
from muster.cli.platform import parse_pairs
from muster.cli.pod_logs import read_log_tails
from muster.cli.run_display import Display, create_display, format_run_time
from muster.cli.run_objects import (
    AppliedObject,
    Outcome,
    apply_document,
    check_documents,
    create_namespaces,
    delete_applied,
    find_outcome,
    is_service,
    is_workload,
    sort_for_apply,
)
from muster.cli.run_watch import RunWatch
from muster.cli.selection import read_manifests
from muster.cli.session import (
    ContextName,
    Debug,
    Gang,
    Kubeconfig,
    Namespace,
    Session,
    configure_logging,
    connect_or_start,
    parse_duration,
    resource_name,
)
from muster.kube.errors import ApiError
from muster.kube.events import event_selector
from muster.kube.events import sort_events as events_in_order
from muster.kube.manifests import Document
from muster.kube.objects import Object, name_of, namespace_of, status_of, uid_of
from muster.kube.pod_diagnosis import MAX_DIAGNOSED_PODS, diagnose_pod, select_pods_to_diagnose


class FailureReport(NamedTuple):
    """A workload that failed or did not finish, with its Pods, their events and the last lines of their logs."""

    title: str
    outcome: Outcome | None
    """None if it had not finished at the timeout."""
    pods: Sequence[Object]
    events: Mapping[str, Sequence[Object]]
    """By Pod uid."""
    lines: Mapping[str, Mapping[str, Sequence[str]]]
    """By Pod uid and container name."""


def format_failure(report: FailureReport) -> list[str]:
    lines = [f"{report.title} {_format_outcome(report.outcome)}"]
    shown = select_pods_to_diagnose(report.pods)
    stories: dict[tuple[str, ...], list[str]] = {}
    for pod in shown[:MAX_DIAGNOSED_PODS]:
        stories.setdefault(tuple(_describe_pod(pod, report)), []).append(f"pod/{name_of(pod)}")
    for story, pods in stories.items():
        margin = "  "
        if pods != [report.title]:
            lines.append(f"  {', '.join(pods)}:")
            margin = "    "
        lines += [f"{margin}{line}" for line in story]
    if len(shown) > MAX_DIAGNOSED_PODS:
        lines.append(f"  ... and {len(shown) - MAX_DIAGNOSED_PODS} more Pods; `muster describe` shows them")
    return lines


def _describe_pod(pod: Object, report: FailureReport) -> list[str]:
    lines = [line for reason in _find_reasons(pod, report) for line in reason.splitlines()]
    for container, last in (report.lines.get(uid_of(pod)) or {}).items():
        lines += [f'last lines of container "{container}":', *(f"  {line}" for line in last)]
    if not lines and report.outcome is None and status_of(pod).get("phase") == "Running":
        return ["still running"]
    return lines


def _format_outcome(outcome: Outcome | None) -> str:
    if outcome is None:
        return "had not finished at the timeout"
    if outcome.reason == "Deleted":
        return "was deleted before it finished"
    detail = ": ".join(text for text in (outcome.reason, outcome.message) if text and text != "Failed")
    return f"failed: {detail}" if detail else "failed"


def _find_reasons(pod: Object, report: FailureReport) -> list[str]:
    reasons = diagnose_pod(pod, report.events.get(uid_of(pod)) or ())
    already = ": ".join(text for text in (report.outcome or ()) if isinstance(text, str) and text)
    return [reason for reason in reasons if reason != already]


_LOG_LINES = 15
_INTERRUPTED = 130
_LOOK_SECONDS = 2.0


def run(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, directories, or - for stdin.")],
    keep: Annotated[bool, typer.Option("--keep", help="Keep all objects at the end, including running ones.")] = False,
    rm: Annotated[bool, typer.Option("--rm", help="Delete all applied objects at the end.")] = False,
    timeout: Annotated[str, typer.Option("--timeout", help="Stop after this time, as in 30m.")] = "",
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Stop everything when the first workload fails.")
    ] = False,
    runtime: Annotated[
        str, typer.Option("--runtime", help="What runs Pods: sandbox, podman or docker. Only if no cluster runs yet.")
    ] = "",
    parameters: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="A parameter of a Kubeflow pipeline, as NAME=VALUE."),
    ] = None,
    gang: Gang = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: ContextName = "",
    debug: Debug = False,
) -> None:
    """Apply files, show their progress, and exit with their result.

    A file may also be a compiled Kubeflow pipeline, or a Python file that defines one.

    Uses the running cluster, or starts one that ends with this command. The exit code is 0 if all workloads succeeded,
    1 if any failed, and 130 after Ctrl-C, which also deletes the applied objects.
    """
    configure_logging(debug)
    if keep and rm:
        raise CommandError("--keep and --rm cannot be combined")
    timeout_seconds = parse_duration(timeout, "--timeout") if timeout else None
    pipelines, others = read_pipelines(files, parse_pairs("-p", parameters))
    documents = sort_for_apply([*pipelines, *(read_manifests(others) if others else ())])
    if not documents:
        raise CommandError(f"no objects found in {', '.join(files)}")
    job = _Run(documents, keep=keep, rm=rm, timeout=timeout_seconds, fail_fast=fail_fast)

    async def run_connected() -> int:
        with job.display:
            job.display.wait("connecting to a cluster, or starting one")
            async with connect_or_start(kubeconfig, context, namespace, runtime=runtime, gang=gang) as session:
                return await job.run(session)

    import uvloop

    code = uvloop.run(run_connected())
    if code:
        raise CommandExit(code)


class _Run:
    def __init__(
        self, documents: Sequence[Document], *, keep: bool, rm: bool, timeout: float | None, fail_fast: bool
    ) -> None:
        self.display: Display = create_display()
        self._documents = documents
        self._keep = keep
        self._rm = rm
        self._timeout = timeout
        self._fail_fast = fail_fast
        self._applied: list[AppliedObject] = []

    async def run(self, session: Session) -> int:
        began = time.monotonic()
        async with _interruptions() as interrupted:
            work = asyncio.create_task(self._work(session, began))
            stop = asyncio.create_task(interrupted.wait())
            await asyncio.wait([work, stop], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                interrupted.clear()
                cleaning = asyncio.create_task(self._handle_interrupt(session))
                again = asyncio.create_task(interrupted.wait())
                await asyncio.wait([cleaning, again], return_when=asyncio.FIRST_COMPLETED)
                if not cleaning.done():
                    self.display.say("some objects could not be deleted; list them with `muster get all`", "yellow")
                for task in (cleaning, again):
                    task.cancel()
                await asyncio.gather(cleaning, again, return_exceptions=True)
                return _INTERRUPTED
            stop.cancel()
            await asyncio.gather(stop, return_exceptions=True)
            return work.result()

    async def _work(self, session: Session, began: float) -> int:
        cluster, display = session.cluster, self.display
        namespaces = await create_namespaces(session, self._documents)
        try:
            with session.warnings():
                await check_documents(session, self._documents)
        except CommandError:
            await delete_applied(cluster, namespaces)
            raise
        for one in namespaces:
            self._add(one)
        with session.warnings():
            for document in self._documents:
                self._add(await apply_document(session, document))
        watch = RunWatch(cluster, self._applied, display)
        if not watch.has_work and not watch.stays:
            display.say("all objects are applied; none of them is a workload")
            return 0
        async with watch.watching():
            in_time = await self._wait_until_done(session, watch)
            code = await self._report(session, watch, time.monotonic() - began, in_time=in_time)
            left = [pod for end in watch.finished() for pod in end.pods if not _has_ended(pod)]
        await self._clean_up(session, left)
        return code

    def _add(self, one: AppliedObject) -> None:
        self._applied.append(one)
        called = resource_name(one.kind, name_of(one.object))
        self.display.say(f"{called} {one.change}", "dim")
        if is_workload(one.object) and one.change in ("configured", "unchanged"):
            # A finished workload would have been replaced.
            self.display.say(f"{called} is already running; following it. To start it again, delete it first", "yellow")

    async def _wait_until_done(self, session: Session, watch: RunWatch) -> bool:
        if not watch.has_work:
            self.display.say("no object ends by itself; press Ctrl-C to stop and delete them", "dim")
        telling = asyncio.create_task(self._report_storage_problems(session))
        try:
            async with asyncio.timeout(self._timeout):
                await watch.wait_until_done(fail_fast=self._fail_fast)
        except TimeoutError:
            await watch.settle()
            return False
        finally:
            telling.cancel()
        return True

    async def _report_storage_problems(self, session: Session) -> None:
        """Reports, until cancelled, when the cluster cannot store anything and when it can again."""
        reported = ""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            trouble = await session.trouble()
            if trouble != reported:
                reported = trouble
                self.display.say(f"waiting: {trouble}" if trouble else "the cluster is working again", "yellow")

    async def _report(self, session: Session, watch: RunWatch, took: float, *, in_time: bool) -> int:
        if not watch.has_work:
            self.display.say(f"stopped after {format_run_time(took)} by --timeout")
            return 0
        failures = [end for end in watch.finished() if not end.outcome.succeeded]
        troubles = [
            await _report_failure(
                session, resource_name(end.work.kind, name_of(end.work.object)), end.outcome, end.pods
            )
            for end in failures
        ]
        if not in_time:
            troubles += [
                await _report_failure(session, resource_name(one.kind, name_of(one.object)), None, pods)
                for one, pods in watch.unfinished()
            ]
        for trouble in troubles:
            first, *rest = format_failure(trouble)
            self.display.say(first, "bold red")
            for line in rest:
                self.display.say(line)
        if troubles or not in_time:
            total = len(watch.finished()) + len(watch.unfinished())
            failed = f"{len(failures)} of {total} failed" if failures else ""
            late = (
                ""
                if in_time
                else f"timed out: {len(watch.unfinished())} of {total} not finished after {format_run_time(took)}"
            )
            self.display.say("; ".join(text for text in (failed, late) if text), "red")
            return 1
        ends = watch.finished()
        what = resource_name(ends[0].work.kind, name_of(ends[0].work.object)) if len(ends) == 1 else f"all {len(ends)}"
        self.display.say(f"{what} succeeded in {format_run_time(took)}", "green")
        return 0

    async def _clean_up(self, session: Session, left: Sequence[Object]) -> None:
        """Deletes what would keep running: services, and Pods that are `left` of finished jobs, such as parameter
        servers and MPI workers. Finished workloads stay, so that they can be inspected."""
        if self._keep:
            return
        ours = [one for one in self._applied if one.ours]
        if not self._rm:
            now = [await _refresh(session, one) for one in ours if is_workload(one.object) or is_service(one.object)]
            ours = [one for one in now if one is not None and find_outcome(one.object) is None]
            pods = session.cluster.catalogue.of("v1", "Pod")
            ours += [AppliedObject(pods, pod, "created") for pod in left]
        await delete_applied(session.cluster, ours)

    async def _handle_interrupt(self, session: Session) -> None:
        if self._keep:
            self.display.say("interrupted; all objects are kept", "yellow")
            return
        ours = [one for one in self._applied if one.ours]
        if ours:
            self.display.say("interrupted: deleting the applied objects (press Ctrl-C again to keep them)", "yellow")
        for one in await delete_applied(session.cluster, ours):
            self.display.say(f"{resource_name(one.kind, name_of(one.object))} deleted", "dim")
        trouble = await session.trouble() if ours else ""
        if trouble:
            self.display.say(f"some objects could not be deleted: {trouble}", "yellow")


def _has_ended(pod: Object) -> bool:
    return status_of(pod).get("phase") in ("Succeeded", "Failed")


async def _report_failure(
    session: Session, called: str, outcome: Outcome | None, pods: Sequence[Object]
) -> FailureReport:
    events: dict[str, list[Object]] = {}
    lines: dict[str, dict[str, list[str]]] = {}
    for pod in select_pods_to_diagnose(pods)[:MAX_DIAGNOSED_PODS]:
        events[uid_of(pod)] = await _events(session, pod)
        lines[uid_of(pod)] = await read_log_tails(session.cluster, pod, _LOG_LINES)
    return FailureReport(called, outcome, pods, events, lines)


async def _events(session: Session, pod: Object) -> list[Object]:
    catalogue = session.cluster.catalogue
    try:
        page = await session.cluster.list(
            catalogue.of("v1", "Event"), namespace_of(pod), fields=event_selector(catalogue.of("v1", "Pod"), pod)
        )
    except ApiError:
        return []
    return events_in_order(page.items)


async def _refresh(session: Session, one: AppliedObject) -> AppliedObject | None:
    try:
        obj = await session.cluster.get(one.kind, name_of(one.object), namespace_of(one.object))
    except ApiError:
        return None
    return AppliedObject(one.kind, obj, one.change)


@asynccontextmanager
async def _interruptions() -> AsyncIterator[asyncio.Event]:
    """Yields an event that Ctrl-C and SIGTERM set while the block runs."""
    loop = asyncio.get_running_loop()
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupted.set)
    try:
        yield interrupted
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
