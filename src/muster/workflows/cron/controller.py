"""The controller of CronWorkflows: creates workflows when they are due, and updates the status."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from muster.kube.budgets import Budgets, setting_name
from muster.kube.builtin import NAMESPACE
from muster.kube.cluster import Cluster
from muster.kube.controller import Controller, FairQueue, Informer, index_by_controller
from muster.kube.errors import AlreadyExists, BadRequest, Forbidden, Invalid, NotFound, TooLarge
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)
from muster.kube.pod_security import is_restricted
from muster.workflows.controller_metrics import ControllerMetrics
from muster.workflows.cron import plan
from muster.workflows.cron.schedule import Schedule, ScheduleError
from muster.workflows.kinds import CRON_WORKFLOW, WORKFLOW
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.limits import BudgetExceeded
from muster.workflows.model import EventRecorder
from muster.workflows.step_threads import run_metered

_WORKERS, _PER_NAMESPACE = 8, 2
_REFUSALS = (BadRequest, Forbidden, Invalid, NotFound, TooLarge)


class CronController:
    """Nothing runs twice after a restart: a workflow's name is derived from the time it was due. What was due while the
    controller was not running is run only within startingDeadlineSeconds, as in Argo."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: EventRecorder,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        budgets: Budgets | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics or ControllerMetrics()
        self._budgets = budgets or Budgets()
        self._recorder = recorder
        self._clock = clock
        queue = FairQueue[Key](lambda key: key.namespace, _PER_NAMESPACE)
        self._queue: Controller[Key] = Controller("cron workflows", self._reconcile, workers=_WORKERS, queue=queue)
        self._crons = Informer(
            cluster,
            CRON_WORKFLOW,
            on_change=self._cron_changed,
            indexers={"namespace": lambda cron: [namespace_of(cron)]},
        )
        self._workflows = Informer(
            cluster,
            WORKFLOW,
            labels=plan.CRON_LABEL,
            on_change=self._workflow_changed,
            indexers={"owner": index_by_controller},
        )
        self._until: dict[tuple[str, str], datetime] = {}
        """By uid and schedule: everything due until then is handled."""
        self._made: dict[str, dict[str, Object]] = {}
        """By uid of the CronWorkflow, then of the workflow: workflows that the informer may not show yet."""
        self._tried: dict[str, datetime] = {}
        """By uid: the last time it was tried to run for. A failed attempt is not repeated for the same time."""

    async def run(self) -> None:
        async with self._workflows, self._crons:
            await self._queue.run()

    async def _reconcile(self, key: Key) -> float | None:
        cron = self._crons.get(*key)
        if cron is None or is_deleting(cron):
            return None
        workflows = self._workflows_of(cron)
        restricted = await self._is_restricted(key.namespace)
        for workflow in plan.workflows_to_delete(cron, workflows, restricted=restricted):
            await self._delete(workflow)
        status = plan.update_status(cron, workflows)
        if labels_of(cron).get(plan.COMPLETED_LABEL) == "true":
            await self._write(cron, status)
            return None
        try:
            schedules = await run_metered(partial(plan.schedules_of, cron))
        except (ScheduleError, BudgetExceeded) as error:
            await self._refuse(cron, status, f"cron schedule is malformed: {error}")
            return None
        problem = plan.member_problem(cron, schedules, self._older(cron), self._budgets) if restricted else ""
        if problem:
            await self._refuse(cron, status, problem)
            return None
        now = self._clock()
        status = {**status, "conditions": _without(status, "SpecError")}
        try:
            is_over = await run_metered(partial(plan.has_stopped, cron, status))
        except (ExpressionError, BudgetExceeded) as error:
            await self._refuse(cron, status, f"failed to check the stopping condition: {error}")
            return None
        if is_over:
            await self._write(cron, {**status, "phase": "Stopped"}, labels={plan.COMPLETED_LABEL: "true"})
            return None
        before = status.get("lastScheduledTime")
        late = await run_metered(partial(plan.missed_time, cron, schedules, now))
        for due, schedule in await self._due(cron, schedules, now, late):
            most = self._budgets.member_running_workflows
            if restricted and len(status["active"]) >= most:
                setting = setting_name("member_running_workflows")
                message = f"{most} workflows of this CronWorkflow are still active: see {setting} in config.yaml"
                status = self._failed(cron, status, message)
                continue
            status = await self._run(cron, status, due, schedule)
        annotations = {plan.SCHEDULE_ANNOTATION: plan.schedule_text(cron)}
        await self._write(cron, status, annotations=annotations if status.get("lastScheduledTime") != before else {})
        self._settle(cron, schedules, now)
        return await self._pause(cron, schedules, now)

    def _workflows_of(self, cron: Object) -> list[Object]:
        shown = {uid_of(workflow): workflow for workflow in self._workflows.by("owner", uid_of(cron))}
        made = self._made.get(uid_of(cron), {})
        for uid in [uid for uid in made if uid in shown]:
            del made[uid]
        return list({**made, **shown}.values())

    async def _is_restricted(self, namespace: str) -> bool:
        try:
            return is_restricted(await self._cluster.get(NAMESPACE, namespace))
        except NotFound:
            return False

    def _older(self, cron: Object) -> int:
        """Returns how many CronWorkflows of the namespace are older, or that there are as many as allowed."""
        others = self._crons.by("namespace", namespace_of(cron))
        age = (meta(cron).get("creationTimestamp") or "", name_of(cron))
        older = (o for o in others if (meta(o).get("creationTimestamp") or "", name_of(o)) < age)
        return sum(1 for _ in islice(older, self._budgets.member_cron_workflows))

    async def _due(
        self, cron: Object, schedules: list[plan.Timed], now: datetime, late: tuple[datetime, Schedule] | None
    ) -> list[tuple[datetime, Schedule]]:
        """Returns the times to run for now, each once; `late` is one that was missed."""
        found: dict[datetime, Schedule] = {}
        if late is not None and late[0] != self._tried.get(uid_of(cron)):
            found[late[0]] = late[1]
        untils = [self._until.setdefault((uid_of(cron), text), now) for text, _ in schedules]
        for (_, schedule), due in zip(schedules, await _next_times(schedules, untils), strict=True):
            if due is not None and due <= now:
                found[due] = schedule
        return sorted(found.items(), key=lambda item: item[0])

    def _settle(self, cron: Object, schedules: list[plan.Timed], now: datetime) -> None:
        for text, schedule in schedules:
            until = self._until[uid_of(cron), text]
            if schedule.every:  # it keeps its schedule
                self._until[uid_of(cron), text] = schedule.latest_between(until, now) or until
            else:
                self._until[uid_of(cron), text] = now

    async def _pause(self, cron: Object, schedules: list[plan.Timed], now: datetime) -> float | None:
        nexts = await _next_times(schedules, [self._until.get((uid_of(cron), text), now) for text, _ in schedules])
        waits = [(due - self._clock()).total_seconds() for due in nexts if due is not None]
        return max(0.0, min(waits)) if waits else None

    async def _run(self, cron: Object, status: dict[str, Any], due: datetime, schedule: Schedule) -> dict[str, Any]:
        wanted = plan.workflow_for(cron, due, schedule)
        if any(ref["name"] == name_of(wanted) for ref in status["active"]):
            # The workflow was created, but the status could not be written.
            return {**status, "phase": "Active", "lastScheduledTime": _later(status.get("lastScheduledTime"), due)}
        try:
            if not await run_metered(partial(plan.may_run, cron, status)):
                if plan.is_forbidden(cron, status):
                    self._count("cronworkflows_concurrencypolicy_triggered", cron, concurrency_policy="Forbid")
                return status
        except (ExpressionError, BudgetExceeded) as error:
            self._tried[uid_of(cron)] = due
            return self._failed(cron, status, f"run policy error: {error}")
        self._tried[uid_of(cron)] = due
        if spec_of(cron).get("concurrencyPolicy") == "Replace":
            if status["active"]:
                self._count("cronworkflows_concurrencypolicy_triggered", cron, concurrency_policy="Replace")
            await asyncio.gather(*(self._terminate(cron, ref) for ref in status["active"]))
        try:
            made = await self._cluster.create(wanted)
        except AlreadyExists:
            there = await self._cluster.get(WORKFLOW, name_of(wanted), namespace_of(wanted))
            if (controller_of(there) or {}).get("uid") == uid_of(cron):
                return {**status, "lastScheduledTime": _later(status.get("lastScheduledTime"), due)}
            return self._failed(
                cron, status, f'Workflow "{name_of(wanted)}" exists and was not created by this CronWorkflow'
            )
        except _REFUSALS as error:
            return self._failed(cron, status, f"Failed to submit Workflow: {error.message}")
        self._count("cronworkflows_triggered_total", cron)
        self._made.setdefault(uid_of(cron), {})[uid_of(made)] = made
        self._recorder.event(cron, "Normal", "WorkflowCreated", f"Created workflow {name_of(made)}")
        return plan.status_after_start(status, made, due)

    def _count(self, metric: str, cron: Object, **labels: str) -> None:
        self._metrics.count(metric, name=name_of(cron), namespace=namespace_of(cron), **labels)

    def _failed(self, cron: Object, status: dict[str, Any], message: str) -> dict[str, Any]:
        self._recorder.event(cron, "Warning", "SubmissionError", message)
        return plan.status_after_failure(status, "SubmissionError", message)

    async def _refuse(self, cron: Object, status: dict[str, Any], message: str) -> None:
        self._recorder.event(cron, "Warning", "SpecError", message)
        await self._write(cron, plan.status_after_failure(status, "SpecError", message))

    async def _write(
        self,
        cron: Object,
        status: dict[str, Any],
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        metadata = dict(meta(cron))
        if labels:
            metadata["labels"] = {**labels_of(cron), **labels}
        if annotations:
            metadata["annotations"] = {**annotations_of(cron), **annotations}
        if metadata != meta(cron) or _told(status) != _told(status_of(cron)):
            await self._cluster.update({**cron, "metadata": metadata, "status": status})

    async def _terminate(self, cron: Object, ref: dict[str, Any]) -> None:
        try:
            await self._cluster.patch(WORKFLOW, ref["name"], namespace_of(cron), {"spec": {"shutdown": "Terminate"}})
        except NotFound:
            return

    async def _delete(self, workflow: Object) -> None:
        try:
            await self._cluster.delete(WORKFLOW, name_of(workflow), namespace_of(workflow), uid=uid_of(workflow))
        except NotFound:
            return

    def _cron_changed(self, before: Object | None, after: Object | None) -> None:
        if after is None and before is not None:
            uid = uid_of(before)
            self._made.pop(uid, None)
            self._tried.pop(uid, None)
            for place in [place for place in self._until if place[0] == uid]:
                del self._until[place]
        self._queue.enqueue(key_of(after or before or {}))

    def _workflow_changed(self, before: Object | None, after: Object | None) -> None:
        """Only its start and its end matter."""
        changed = after or before or {}
        owner = controller_of(changed)
        if owner is None or owner.get("kind") != CRON_WORKFLOW.kind:
            return
        if after is None:
            self._made.get(owner["uid"], {}).pop(uid_of(changed), None)
        if before is None or after is None or status_of(before).get("phase") != status_of(after).get("phase"):
            self._queue.enqueue(Key(namespace_of(changed), owner["name"]))


def _later(last: str | None, due: datetime) -> str:
    """lastScheduledTime never goes back."""
    return timestamp(due if not last or parse_time(last) < due else parse_time(last))


async def _next_times(schedules: list[plan.Timed], after: list[datetime]) -> list[datetime | None]:
    """Searches in a thread: a CronWorkflow may have many schedules, and each takes up to a millisecond."""
    pairs = list(zip(schedules, after, strict=True))
    return await run_metered(lambda: [timed.schedule.next_after(since) for timed, since in pairs])


def _without(status: dict[str, Any], type: str) -> list[dict[str, Any]]:
    return [c for c in status.get("conditions") or () if c.get("type") != type]


def _told(status: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if value not in ([], 0, None)}
