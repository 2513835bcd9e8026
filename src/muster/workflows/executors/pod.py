"""Executes templates as Pods: stages inputs, creates the Pods, and reports their outcomes."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Coroutine, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from muster.kube.beneath import Folder
from muster.kube.budgets import Budgets
from muster.kube.builtin import POD
from muster.kube.cluster import STOP_ANNOTATION, NodeFiles, StatusRowsCluster
from muster.kube.controller import Informer
from muster.kube.errors import AlreadyExists, ApiError, BadRequest, Conflict, Forbidden, Invalid, NotFound, TooLarge
from muster.kube.file_names import path_component
from muster.kube.objects import (
    Key,
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
)
from muster.kube.resource_quota import EXCEEDED
from muster.workflows.artifacts.client import ArtifactClient
from muster.workflows.artifacts.locations import LOCAL, ArtifactError, ArtifactMissing, ArtifactUnreachable, is_supplied
from muster.workflows.controller_config import controller_config
from muster.workflows.executors.pod_outputs import SECONDS, OutputCollector, progress_file, reported_progress
from muster.workflows.executors.pod_spec import (
    CannotRun,
    StagedInputs,
    build_pod,
    build_script_config_map,
    input_artifacts,
)
from muster.workflows.executors.pod_status import failed_before_start, pod_outcome
from muster.workflows.kinds import WORKFLOW
from muster.workflows.lang.environment import evaluate_in
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import to_json
from muster.workflows.lang.limits import BudgetExceeded
from muster.workflows.model import (
    COMPLETED_LABEL,
    FINISHED_PHASES,
    NODE_ID,
    WORKFLOW_LABEL,
    Launch,
    Node,
    Outcome,
    Outputs,
    ReportOutcome,
    Template,
)
from muster.workflows.step_threads import run_metered

_COMING = ".coming"
"""A folder beside those of the namespaces."""


class InputStaging:
    """Staged input artifacts: `<folder>/<namespace>/<Pod>/<index of the artifact>`, from before the Pod is created
    until it has ended."""

    def __init__(self, folder: Path, artifacts: ArtifactClient) -> None:
        self._folder = folder
        self._artifacts = artifacts

    async def stage(self, workflow: Object, launch: Launch) -> StagedInputs | None:
        """Raises CannotRun, or ArtifactUnreachable where a retry may help.

        Everything happens in a folder that no Pod can have mounted, so that no link can be put in the way.
        """
        wanted = input_artifacts(launch.template)
        if not wanted:
            return None
        place = self._place(Key(namespace_of(workflow), launch.pod_name))
        coming = await asyncio.to_thread(_new_folder, self._folder / _COMING)
        try:
            ready = [
                index for index, artifact in enumerate(wanted) if await self._fetch(workflow, artifact, index, coming)
            ]
            await asyncio.to_thread(_move_folder, coming, place)
        finally:
            await asyncio.to_thread(_remove, coming)
        return StagedInputs(str(place), frozenset(ready))

    async def _fetch(self, workflow: Object, artifact: Mapping[str, Any], index: int, folder: Path) -> bool:
        """Returns False for an optional artifact that is not there."""
        name, optional = artifact.get("name"), bool(artifact.get("optional"))
        if not is_supplied(artifact):
            if optional:
                return False
            raise CannotRun(f"required artifact '{name}' not supplied")
        try:
            await self._artifacts.fetch(workflow, artifact, folder / str(index))
        except ArtifactMissing as error:
            if not optional:
                raise CannotRun(f"artifact {name} failed to load: {error}") from None
            return False
        except ArtifactUnreachable as error:
            raise ArtifactUnreachable(f"artifact {name} failed to load: {error}") from None
        except (ArtifactError, OSError) as error:
            raise CannotRun(f"artifact {name} failed to load: {error}") from None
        return True

    async def forget(self, pod: Key) -> None:
        with suppress(BadRequest):  # the name of a template may be anything
            await asyncio.to_thread(_remove, self._place(pod))

    def sweep(self, pods: Collection[Key]) -> None:
        """Removes what was staged for other Pods than these."""
        for namespace in self._folder.iterdir() if self._folder.is_dir() else ():
            for place in namespace.iterdir():
                if Key(namespace.name, place.name) not in pods:
                    _remove(place)

    def _place(self, pod: Key) -> Path:
        return self._folder / path_component(pod.namespace) / path_component(pod.name)


def _new_folder(above: Path) -> Path:
    above.mkdir(parents=True, exist_ok=True)
    folder = Path(mkdtemp(dir=above))
    folder.chmod(0o755)
    return folder


def _move_folder(folder: Path, place: Path) -> None:
    _remove(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    folder.rename(place)


def _remove(place: Path) -> None:
    """The Pod may have written to the folder: nothing in it is followed."""
    with suppress(OSError), Folder.at(place.parent) as above:
        above.remove([place.name])


async def run_data(artifacts: ArtifactClient, workflow: Object, template: Template) -> Outcome:
    """Lists the keys of a data template and transforms them; no Pod is needed. Raises ArtifactUnreachable where a retry
    may help."""
    started = timestamp()
    try:
        source = (template["data"].get("source") or {}).get("artifactPaths")
        if source is None:
            raise ArtifactError("no valid source is used for data template: write source.artifactPaths")
        found: Any = await artifacts.keys(workflow, source)
        steps = template["data"].get("transformation") or ()
        result = await run_metered(lambda: to_json(transform_data(found, steps)))
    except ArtifactUnreachable:
        raise
    except ArtifactError as error:
        return Outcome("Error", f"unable to process data source: {error}", started=started, finished=timestamp())
    except (ExpressionError, BudgetExceeded) as error:
        message = f"unable to process data transformation: {error}"
        return Outcome("Error", message, started=started, finished=timestamp())
    outputs = Outputs(result=result)
    return Outcome("Succeeded", outputs=outputs, started=started, finished=timestamp(), exit_code=None)


def transform_data(data: Any, steps: Any) -> Any:
    """Each step's expression sees the result of the one before as `data`."""
    for step in steps:
        scope: Mapping[str, Any] = {"data": data}
        if step.get("expression"):
            data = evaluate_in(str(step["expression"]), scope)
    return data


log = logging.getLogger(__name__)

_PARALLEL_TRANSFERS = 8
"""How many Pods of a namespace may fetch artifacts at a time. Those of others do not wait for them."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_TRIES = 5
_LABEL_PAUSE = 0.5
_MAX_REPOSITORIES = 1000
_ROUTINE = ("", "ContainerCreating", "PodInitializing")


@dataclass(slots=True, eq=False)
class _PodLeaf:
    workflow: Object
    spec: Mapping[str, Any]
    launch: Launch
    repository: Mapping[str, Any]
    pod: str = ""
    """The uid of its Pod, once it exists."""
    gone: str = ""
    """The uid of the last deleted Pod of its name."""
    last_reported: Outcome | None = None
    collecting: bool = False
    stopped: bool = False
    """Cancel it, even if it has not started."""
    stop_sent: bool = False
    force: bool = False
    progress: str = ""
    restarts: int = 0
    """How often its Pod was created again because the machine had failed it."""
    restarting: bool = False
    """Whether its Pod is being deleted for that."""


class PodExecutor:
    """The `Executor` of Pods. `files` gives access to what nodes keep of Pods; `home` holds files in transit."""

    def __init__(
        self,
        cluster: StatusRowsCluster,
        report: ReportOutcome,
        *,
        files: NodeFiles,
        home: Path,
        artifacts: ArtifactClient,
        budgets: Budgets = Budgets(),  # noqa: B008
    ) -> None:
        self._cluster = cluster
        self._report = report
        self._artifacts = artifacts
        self._files = files
        self._inputs = InputStaging(home / "inputs", artifacts)
        self._collector = OutputCollector(files, artifacts, home / "passing", budgets)
        self._leaves: dict[Key, _PodLeaf] = {}
        """By Pod."""
        self._unrecorded: dict[tuple[str, str], tuple[Key, str]] = {}
        """The Pods, with their uids, whose end is reported but not stored yet, by uid of the workflow and node."""
        self._completed: dict[Key, str] = {}
        """The Pods, with their uids, whose end is stored but not in their label yet."""
        self._repositories: dict[str, Mapping[str, Any]] = {}
        """By uid of the workflow, which keeps the repository it started with."""
        self._gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_PARALLEL_TRANSFERS))
        """By namespace."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()
        self._informer = Informer(
            cluster,
            POD,
            labels=WORKFLOW_LABEL,
            on_change=self._changed,
            indexers={"node": _by_node, "workflow": _by_workflow},
        )

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer.run())
                group.create_task(self._poll_progress())
                await self._informer.synced.wait()
                await asyncio.to_thread(self._inputs.sweep, frozenset(self._informer.objects))
                await asyncio.to_thread(self._artifacts.sweep)
                self._find_completed()
                self._ready.set()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def launch(self, workflow: Object, spec: Object, launch: Launch, *, begun: bool) -> None:
        await self._ready.wait()
        key = Key(namespace_of(workflow), launch.pod_name)
        known, pod = self._leaves.get(key), None
        if known is not None or begun or self._informer.get(*key) is not None:
            pod = await self._find(key)  # the informer may be behind: a Pod that was deleted for a retry does not count
            if pod is not None and (not _belongs_to(pod, workflow) or (is_deleting(pod) and not begun)):
                pod = None
        if known is not None and uid_of(known.workflow) == uid_of(workflow):
            if not known.pod:
                return  # it is being created
            if pod is not None and uid_of(pod) == known.pod:
                if known.last_reported is not None:  # the caller may not have received it
                    self._report(key_of(workflow), launch.node["id"], known.last_reported)
                return
        leaf = self._leaves[key] = _PodLeaf(workflow, spec, launch, await self._repository(workflow))
        leaf.restarts = launch.node.get("failedPodRestarts") or 0
        try:
            if pod is not None:
                self._adopt(key, leaf, pod)
            elif begun:
                self._report_end(key, leaf, Outcome("Error", "pod deleted", finished=timestamp()))
            elif "data" in launch.template or (launch.template.get("inputs") or {}).get("artifacts"):
                await self._begin_with_retries(key, leaf)
            else:
                await self._begin(key, leaf)
        except BaseException:
            if self._leaves.get(key) is leaf:
                del self._leaves[key]
            raise

    async def stop(self, workflow: Object, node: Node, *, force: bool) -> None:
        namespace = namespace_of(workflow)
        found = [pod for pod in self._informer.by("node", (namespace, node["id"])) if _belongs_to(pod, workflow)]
        if not found:
            # It may be about to be created: then it is stopped when it appears.
            for key, leaf in self._leaves.items():
                if leaf.launch.node["id"] == node["id"] and key.namespace == namespace:
                    leaf.stopped, leaf.force = True, force
        for pod in found:
            known = self._leaves.get(key_of(pod))
            if known is not None:
                known.stopped, known.stop_sent = True, True
            await self._stop_pod(pod, force)

    async def stop_others(self, workflow: Object, nodes: Collection[str]) -> None:
        await self._ready.wait()
        if not nodes:
            workflow_uid = uid_of(workflow)
            for place in [place for place in self._unrecorded if place[0] == workflow_uid]:
                del self._unrecorded[place]
        for pod in list(self._informer.by("workflow", uid_of(workflow))):
            node = annotations_of(pod).get(NODE_ID)
            if node and node not in nodes and not is_deleting(pod):
                await self._stop_pod(pod, force=False)

    async def _begin_with_retries(self, key: Key, leaf: _PodLeaf) -> None:
        """Retries a limited number of times while a store does not respond."""
        wait = _FIRST_WAIT
        for attempt in range(_TRIES):
            try:
                await self._begin(key, leaf)
                return
            except ArtifactUnreachable as error:
                if leaf.stopped:
                    self._report_end(key, leaf, _stopped_before_start())
                    return
                if attempt == _TRIES - 1:
                    self._report_end(key, leaf, Outcome("Error", str(error), finished=timestamp()))
                    return
                self._report_change(leaf, Outcome("Pending", str(error)))
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)

    async def _begin(self, key: Key, leaf: _PodLeaf) -> None:
        """Creates the Pod. Errors of the user are reported; others are raised for another attempt."""
        try:
            if "data" in leaf.launch.template:
                self._report_end(key, leaf, await run_data(self._artifacts, leaf.workflow, leaf.launch.template))
            else:
                await self._create(key, leaf)
        except CannotRun as error:
            self._report_end(key, leaf, Outcome("Error", str(error), finished=timestamp()))
        except (Invalid, BadRequest, Forbidden, TooLarge) as error:
            if EXCEEDED in error.message:  # other Pods will end, so the node waits
                self._report_change(leaf, Outcome("Pending", error.message))
                raise
            self._report_end(key, leaf, Outcome("Error", error.message, finished=timestamp()))

    async def _create(self, key: Key, leaf: _PodLeaf) -> None:
        workflow, spec, launch = leaf.workflow, leaf.spec, leaf.launch
        staged = None
        if (launch.template.get("inputs") or {}).get("artifacts"):
            async with self._gates[key.namespace]:
                staged = await self._inputs.stage(workflow, launch)
        pod = build_pod(workflow, spec, launch, staged)
        script = build_script_config_map(workflow, launch)
        if script is not None:
            await self._create_once(script)
        if leaf.stopped:
            self._report_end(key, leaf, _stopped_before_start())
            return
        try:
            made = await self._cluster.create(pod)
        except AlreadyExists:
            found = await self._find(key)
            if found is None or is_deleting(found) or _belongs_to_namesake(found, workflow):
                raise Conflict(f"an earlier Pod {key} is still being deleted") from None
            if not _belongs_to(found, workflow):
                raise CannotRun(f"a Pod {key.name} exists already and does not belong to this workflow") from None
            made = found
        self._adopt(key, leaf, made)

    def _adopt(self, key: Key, leaf: _PodLeaf, pod: Object) -> None:
        """Follows this Pod from now on; some of its changes may have arrived already."""
        leaf.pod = uid_of(pod)
        news = self._informer.get(*key)
        if leaf.gone == leaf.pod:
            self._pod_gone(key, leaf)
        else:
            self._update(key, leaf, news if news is not None and uid_of(news) == leaf.pod else pod)

    async def _create_once(self, obj: Object) -> None:
        try:
            await self._cluster.create(obj)
        except AlreadyExists:
            return

    async def _repository(self, workflow: Object) -> Mapping[str, Any]:
        uid = uid_of(workflow)
        found = self._repositories.get(uid)
        if found is None:
            try:
                found = await self._artifacts.repository(workflow)
            except ArtifactError:
                return LOCAL  # whatever uses it reports the error
            if len(self._repositories) >= _MAX_REPOSITORIES:
                self._repositories.clear()
            self._repositories[uid] = found
        return found

    async def _find(self, key: Key) -> Object | None:
        try:
            return await self._cluster.get(POD, key.name, key.namespace)
        except NotFound:
            return None

    def _changed(self, before: Object | None, after: Object | None) -> None:
        pod = after if after is not None else before
        assert pod is not None
        key = key_of(pod)
        leaf = self._leaves.get(key)
        if leaf is None:
            return
        if uid_of(pod) != leaf.pod:
            # An earlier Pod of the same name, or its own before `create` returned.
            leaf.gone = uid_of(pod) if after is None else leaf.gone
        elif after is not None:
            self._update(key, leaf, after)
        else:
            self._pod_gone(key, leaf)

    def _pod_gone(self, key: Key, leaf: _PodLeaf) -> None:
        if leaf.collecting:
            return
        if leaf.stopped:
            self._report_end(key, leaf, _stopped_before_start())
        elif leaf.restarting or leaf.last_reported is None or leaf.last_reported.phase == "Pending":
            leaf.pod, leaf.restarting = "", False
            self._start(self._create_again(key, leaf))
        else:
            self._report_end(key, leaf, Outcome("Error", "pod deleted", finished=timestamp()))

    async def _create_again(self, key: Key, leaf: _PodLeaf) -> None:
        """As Argo does if a Pod is deleted that has not started: nothing has run yet."""
        try:
            await self._begin(key, leaf)
        except (ApiError, ArtifactUnreachable, OSError) as error:
            message = f"pod deleted, and it could not be created again: {error}"
            self._report_end(key, leaf, Outcome("Error", message, finished=timestamp()))

    def _update(self, key: Key, leaf: _PodLeaf, pod: Object) -> None:
        if leaf.collecting or leaf.restarting or not status_of(pod):
            return
        outcome = pod_outcome(pod, leaf.launch.template)
        if outcome.phase not in FINISHED_PHASES:
            if leaf.stopped and not leaf.stop_sent:
                leaf.stop_sent = True
                self._start(self._stop_pod(pod, leaf.force))
            self._report_change(leaf, outcome)
        elif self._may_restart(leaf, pod):
            leaf.restarting, leaf.restarts = True, leaf.restarts + 1
            message = f"pod auto-restarting due to {status_of(pod)['reason']}: {status_of(pod).get('message') or ''}"
            self._report_change(leaf, Outcome("Pending", message))
            self._start(self._delete(pod, force=True))
        elif status_of(pod).get("phase") == "Pending":
            self._report_end(key, leaf, outcome)
            self._start(self._delete(pod, force=True))
        elif self._collector.is_needed(leaf.launch, leaf.spec, leaf.repository):
            leaf.collecting = True
            self._start(self._collect(key, leaf, pod, outcome))
        else:
            self._report_end(key, leaf, outcome)

    def _may_restart(self, leaf: _PodLeaf, pod: Object) -> bool:
        if leaf.stopped or is_deleting(pod) or not failed_before_start(pod, leaf.launch.template):
            return False
        return leaf.restarts < controller_config(self._cluster).failed_pod_restarts

    async def _collect(self, key: Key, leaf: _PodLeaf, pod: Object, outcome: Outcome) -> None:
        wait = _FIRST_WAIT
        for attempt in range(_TRIES):
            try:
                done = await self._collector.collect(
                    leaf.workflow, leaf.spec, leaf.launch, pod, outcome, leaf.repository
                )
            except ArtifactUnreachable as error:
                done = replace(outcome, phase="Error" if outcome.phase == "Succeeded" else outcome.phase)
                done = replace(done, message=outcome.message or str(error))
                if attempt == _TRIES - 1:
                    break
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LONGEST_WAIT)
            except Exception as error:
                log.exception("the outputs of Pod %s could not be collected", key)
                done = replace(outcome, phase="Error", message=f"outputs could not be collected: {error}")
                break
            else:
                break
        self._report_end(key, leaf, done)

    async def _poll_progress(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            for key, leaf in list(self._leaves.items()):
                last_reported, pod = leaf.last_reported, self._informer.get(*key)
                if last_reported is None or last_reported.phase != "Running" or pod is None:
                    continue
                progress = reported_progress(progress_file(self._files, pod))
                if progress:
                    leaf.progress = progress
                    self._report_change(leaf, last_reported)

    def _report_change(self, leaf: _PodLeaf, outcome: Outcome) -> None:
        """Reports only what is new to the engine: each report costs a step."""
        if outcome.phase == "Pending" and outcome.message in _ROUTINE and not outcome.containers:
            return
        if outcome.ready and not leaf.launch.template.get("daemon"):
            outcome = replace(outcome, ready=False)
        if leaf.progress:
            outcome = replace(outcome, progress=leaf.progress)
        if leaf.restarts:
            outcome = replace(outcome, restarts=leaf.restarts)
        if outcome != leaf.last_reported:
            leaf.last_reported = outcome
            self._report(key_of(leaf.workflow), leaf.launch.node["id"], outcome)

    def _report_end(self, key: Key, leaf: _PodLeaf, outcome: Outcome) -> None:
        if self._leaves.get(key) is leaf:
            del self._leaves[key]
        if (leaf.launch.template.get("inputs") or {}).get("artifacts"):
            self._start(self._inputs.forget(key))
        if outcome.phase != "Error" and leaf.progress:
            outcome = replace(outcome, progress=leaf.progress)
        self._report(key_of(leaf.workflow), leaf.launch.node["id"], outcome)
        if leaf.pod:
            self._unrecorded[uid_of(leaf.workflow), leaf.launch.node["id"]] = key, leaf.pod

    def recorded(self, workflow: Object, nodes: Collection[str]) -> None:
        workflow_uid = uid_of(workflow)
        for node in nodes:
            found = self._unrecorded.pop((workflow_uid, node), None)
            if found is not None:
                self._mark_completed(*found)

    def _find_completed(self) -> None:
        """Finds the Pods that were not labelled before the server ended."""
        for key, pod in self._informer.objects.items():
            if labels_of(pod).get(COMPLETED_LABEL) != "false" or status_of(pod).get("phase") not in FINISHED_PHASES:
                continue
            owner = controller_of(pod)
            rows = self._cluster.status_rows(WORKFLOW, owner["uid"]) if owner is not None else {}
            if rows.get(annotations_of(pod).get(NODE_ID, ""), {}).get("phase") in FINISHED_PHASES:
                self._mark_completed(key, uid_of(pod))

    def _mark_completed(self, key: Key, uid: str) -> None:
        if not self._completed:
            self._start(self._label_completed())
        self._completed[key] = uid

    async def _label_completed(self) -> None:
        """Labels the Pods that have completed, soon and many at once, which is cheaper than one by one."""
        await asyncio.sleep(_LABEL_PAUSE)
        completed, self._completed = self._completed, {}
        await asyncio.gather(*(self._label(key, uid) for key, uid in completed.items()))

    async def _label(self, key: Key, uid: str) -> None:
        """Says by the label, as Argo's controller does, that the outcome of a Pod is stored: it may be deleted."""
        patch = {"metadata": {"uid": uid, "labels": {COMPLETED_LABEL: "true"}}}
        try:
            await self._cluster.patch(POD, key.name, key.namespace, patch)
        except (NotFound, Conflict):
            return
        except ApiError as error:
            log.warning("Pod %s could not be labelled: %s", key, error)

    async def _stop_pod(self, pod: Object, force: bool) -> None:
        phase = status_of(pod).get("phase") or "Pending"
        if phase in FINISHED_PHASES:
            return
        if phase == "Pending":
            await self._delete(pod, force=force)
            return
        grace = 0 if force else spec_of(pod).get("terminationGracePeriodSeconds", 30)
        patch = {"metadata": {"annotations": {STOP_ANNOTATION: str(grace)}}}
        try:
            await self._cluster.patch(POD, name_of(pod), namespace_of(pod), patch)
        except NotFound:
            return

    async def _delete(self, pod: Object, *, force: bool) -> None:
        grace = 0 if force else None
        try:
            await self._cluster.delete(POD, name_of(pod), namespace_of(pod), grace_seconds=grace, uid=uid_of(pod))
        except (NotFound, Conflict):
            return
        except ApiError as error:
            log.warning("Pod %s could not be deleted: %s", key_of(pod), error)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _stopped_before_start() -> Outcome:
    return Outcome("Failed", "stopped before it started", finished=timestamp())


def _by_node(pod: Object) -> Collection[Hashable]:
    node = annotations_of(pod).get(NODE_ID)
    return [(namespace_of(pod), node)] if node else []


def _by_workflow(pod: Object) -> Collection[Hashable]:
    owner = controller_of(pod)
    return [owner.get("uid")] if owner is not None else []


def _belongs_to_namesake(pod: Object, workflow: Object) -> bool:
    """Whether the Pod belongs to an earlier workflow of the same name, with which it will be deleted."""
    owner = controller_of(pod) or {}
    return (owner.get("kind"), owner.get("name")) == ("Workflow", name_of(workflow)) and not _belongs_to(pod, workflow)


def _belongs_to(pod: Object, workflow: Object) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.get("uid") == uid_of(workflow)
