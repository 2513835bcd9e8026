"""Decides what the tasks of a pipeline do: the TaskResolver of Workflows that `compile.py` made.

Everything is decided in the server from stored, typed values: inputs, conditions, loops, importers, caching. So a task
costs one Pod, and everything else costs none. The values are in the nodes: a node's inputs and outputs have one text
parameter for each value, as Argo has it, and one parameter with all of them as JSON (`TASK_INPUTS`, `TASK_OUTPUTS`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from muster.kube.objects import Object
from muster.pipelines.cache import cache_key, cache_name
from muster.pipelines.cel import CelError, evaluate_condition
from muster.pipelines.compile import ROOT, PipelineRun, pipeline_run
from muster.pipelines.executor import read_outputs, template_of
from muster.pipelines.importers import copy_to_workspace, imported
from muster.pipelines.inputs import (
    InputResolver,
    TaskState,
    as_parameters,
    collect_iterations,
    iteration_inputs,
    loop_items,
    select_dag_outputs,
)
from muster.pipelines.model import Component, ContainerSpec, RetryPolicy, Task
from muster.pipelines.model import Dag as DagSpec
from muster.pipelines.placeholders import names_of
from muster.pipelines.spec import PipelineError
from muster.pipelines.task import (
    TASK_INPUTS,
    TASK_OUTPUTS,
    Artifact,
    TaskFailed,
    TaskInputs,
    TaskLaunch,
    TaskOutputs,
)
from muster.pipelines.values import ValueTypeError, to_text, whole_numbers
from muster.pipelines.volume_claims import claim_outputs, claim_template, is_claim_stub
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.node_tree import is_ended
from muster.workflows.engine.task_resolver import (
    CompleteTask,
    ExpandTask,
    SkipTask,
    StartTask,
    TaskDecision,
    TaskResolver,
)
from muster.workflows.lang.limits import check_budget
from muster.workflows.lang.tags import mark_value
from muster.workflows.model import Node, Outcome, Outputs, Template

if TYPE_CHECKING:
    from muster.workflows.engine.dag import Dag
    from muster.workflows.engine.leaf_nodes import LeafNode
    from muster.workflows.engine.node_tree import NodeTree

_FINAL_STATES = {"Succeeded": "COMPLETE", "Skipped": "SKIPPED", "Omitted": "SKIPPED"}
_LONGEST_BACKOFF = 3600


def resolver_for(workflow: Object) -> TaskResolver | None:
    """Returns the resolver of a Workflow that runs a pipeline, else None."""
    try:
        run = pipeline_run(workflow)
    except PipelineError as error:
        return BrokenPipeline(str(error))
    return None if run is None else PipelineResolver(run)


class PipelineResolver:
    def __init__(self, run: PipelineRun) -> None:
        self._run = run
        self._inputs: dict[str, TaskInputs] = {}
        """By the id of a DAG's node."""
        self._outputs: dict[str, TaskOutputs] = {}
        """By the id of a node that has ended."""
        self._launches: dict[str, TaskLaunch] = {}
        """By the id of the task's node, until it succeeds."""
        self._known: dict[str, TaskOutputs] = {}
        """The outputs of such tasks that are known before they run: claims and imported artifacts."""

    # -- the TaskResolver ----------------------------------------------------------------------------------------------

    def decide(self, dag: Dag, task: str) -> TaskDecision:
        try:
            return self._decide(dag, task)
        except (TaskFailed, ValueTypeError) as error:
            raise WorkflowError(str(error)) from None

    def dag_outputs(self, dag: Dag) -> Outputs | None:
        found = select_dag_outputs(_dag_of(self._component_of(dag)).outputs, self._states(dag))
        self._inputs.pop(dag.id, None)
        return _to_outputs(found) if found.parameters or found.artifacts else None

    def outcome(self, leaf: LeafNode, outcome: Outcome) -> Outcome:
        launch = self._launches.get(leaf.call.id)
        if launch is None:
            return outcome
        if outcome.phase != "Succeeded":
            return replace(outcome, outputs=_without_parameters(outcome.outputs))
        try:
            known = self._known.pop(leaf.call.id, None)
            found = known if known is not None else read_outputs(launch, outcome.outputs)
        except TaskFailed as error:
            kept = _without_parameters(outcome.outputs)
            return replace(outcome, phase="Failed", message=str(error), outputs=kept)
        del self._launches[leaf.call.id]
        return replace(outcome, outputs={**outcome.outputs, **_to_outputs(found)})

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _decide(self, dag: Dag, key: str) -> TaskDecision:
        task = _dag_of(self._component_of(dag)).tasks.get(key)
        if task is None:
            raise TaskFailed(f'the pipeline has no task "{key}" here: its Workflow was changed')
        component = self._run.pipeline.component(task.component_ref.name)
        names = names_of(self._run.info, key, dag.run.tree.id_of(f"{dag.name}.{key}"))
        resolver = InputResolver(self._dag_inputs(dag), self._states(dag), names)
        inputs = resolver.resolve(task, component)
        if not _is_triggered(task, inputs):
            return SkipTask(f"the condition is false: {task.trigger_policy.condition}")
        items = loop_items(task, inputs)
        if items is None:
            return self._start(dag, key, key, task, component, inputs, resolver)
        steps = []
        dag.run.tree.budget.count_items(len(items))
        for index, (name, item) in enumerate(items):
            check_budget()
            one = iteration_inputs(inputs, component, name, item)
            decision = self._start(dag, f"{key}({index})", key, task, component, one, resolver)
            if not isinstance(decision, StartTask):
                raise TaskFailed("a loop over an importer is not supported: put it into a component of the loop")
            steps.append(decision.step)
        return ExpandTask(steps, task.iterator_policy.parallelism_limit)

    def _start(
        self,
        dag: Dag,
        name: str,
        key: str,
        task: Task,
        component: Component,
        inputs: TaskInputs,
        resolver: InputResolver,
    ) -> StartTask | CompleteTask:
        component_name = task.component_ref.name
        step: dict[str, Any] = {"name": name, "template": component_name}
        if component.dag is not None:
            written = mark_value(_to_json(inputs.to_json()))
            step["arguments"] = {"parameters": [{"name": TASK_INPUTS, "value": written}]}
            if task.retry_policy is not None and task.retry_policy.max_retry_count:
                templates = {str(each.get("name")): each for each in dag.run.spec.get("templates") or ()}
                declared = templates.get(component_name)
                if declared is None:
                    raise TaskFailed(f'the template "{component_name}" of the pipeline was removed from its Workflow')
                step["inline"] = {**declared, "retryStrategy": _retry_strategy(task.retry_policy)}
            return StartTask(step)
        executor = self._run.pipeline.spec.deployment_spec.executors[component.executor_label]
        task_id = dag.run.tree.id_of(f"{dag.name}.{name}")
        if executor.importer is not None:
            outputs = imported(executor.importer, component, inputs)
            if not executor.importer.download_to_workspace:
                return CompleteTask(_to_outputs(outputs), {"parameters": _described(inputs)})
            empty = self._launch(task_id, key, component_name, component, ContainerSpec(), inputs)
            launch = copy_to_workspace(empty, outputs)
            self._launches[task_id], self._known[task_id] = launch, outputs
            step["inline"] = self._leaf_template(launch, task)
            return StartTask(step)
        assert executor.container is not None
        config = self._run.pipeline.platform.kubernetes.deployment_spec.executors.get(component.executor_label) or {}
        launch = self._launch(task_id, key, component_name, component, executor.container, inputs)
        launch = replace(launch, platform=resolver.platform(config, inputs))
        self._launches[task_id] = launch
        if is_claim_stub(launch.container):
            self._known[task_id] = claim_outputs(launch)
        step["inline"] = self._leaf_template(launch, task)
        return StartTask(step)

    def _launch(
        self,
        task_id: str,
        key: str,
        component_name: str,
        component: Component,
        container: ContainerSpec,
        inputs: TaskInputs,
    ) -> TaskLaunch:
        info = self._run.info
        root = f"{info.pipeline_root}/{info.pipeline_name}/{info.run_id}/{key}/{task_id}"
        artifacts = {
            name: (
                ()
                if definition.is_artifact_list
                else (Artifact(name, f"{root}/{name}", definition.artifact_type, definition.metadata),)
            )
            for name, definition in component.output_definitions.artifacts.items()
        }
        return TaskLaunch(
            run=info,
            task_name=key,
            task_id=task_id,
            component_name=component_name,
            component=component,
            container=container,
            inputs=inputs,
            task_root=root,
            output_artifacts=artifacts,
        )

    def _leaf_template(self, launch: TaskLaunch, task: Task) -> Template:
        """Returns the template of a task's Pod, or of the claim that it makes."""
        made = claim_template(launch) if is_claim_stub(launch.container) else template_of(launch)
        template: Template = mark_value(whole_numbers(made))
        template["name"] = launch.component_name
        template["inputs"] = {
            **(template.get("inputs") or {}),
            "parameters": mark_value(_described(launch.inputs)),
        }
        if task.retry_policy is not None and task.retry_policy.max_retry_count:
            template["retryStrategy"] = _retry_strategy(task.retry_policy)
        if task.caching_options.enable_cache and launch.task_id not in self._known:
            cache = {"configMap": {"name": cache_name(self._run.pipeline.name)}}
            template["memoize"] = {"key": cache_key(launch, task.caching_options.cache_key), "cache": cache}
        return template

    # -- what is known -------------------------------------------------------------------------------------------------

    def _component_of(self, dag: Dag) -> Component:
        """Anyone who may write Workflows can write one whose templates are not those of its pipeline."""
        name = str(dag.template.get("name") or "")
        found = self._run.pipeline.spec.root if name == ROOT else self._run.pipeline.spec.components.get(name)
        if found is None:
            raise WorkflowError(f'the pipeline has no component "{name}": its Workflow was changed')
        return found

    def _dag_inputs(self, dag: Dag) -> TaskInputs:
        if dag.id not in self._inputs:
            self._inputs[dag.id] = node_inputs(dag.node)
        return self._inputs[dag.id]

    def _states(self, dag: Dag) -> Callable[[str], TaskState]:
        tree, tasks = dag.run.tree, _dag_of(self._component_of(dag)).tasks

        def state(key: str) -> TaskState:
            node = tree.find(f"{dag.name}.{key}")
            if node is None or key not in tasks:
                return TaskState("SKIPPED")
            inner = self._run.pipeline.component(tasks[key].component_ref.name)
            return TaskState(final_state(node), self._outputs_of(node, tree, inner), _message(node))

        return state

    def _outputs_of(self, node: Node, tree: NodeTree, component: Component) -> TaskOutputs:
        known = self._outputs.get(node["id"])
        if known is not None:
            return known
        if node["type"] == "TaskGroup":
            own = f"{node['name']}("
            items = [n for n in tree.children(node["id"]) if n["name"].startswith(own) and n["name"].endswith(")")]
            found = collect_iterations(component, [node_outputs(each) for each in sorted(items, key=_iteration)])
        else:
            found = node_outputs(node)
        if is_ended(node):
            self._outputs[node["id"]] = found
        return found


class BrokenPipeline:
    """The TaskResolver of a Workflow whose pipeline cannot be read: a user has changed it. Nothing in it runs."""

    def __init__(self, message: str) -> None:
        self._message = message

    def decide(self, dag: Dag, task: str) -> TaskDecision:
        raise WorkflowError(self._message)

    def dag_outputs(self, dag: Dag) -> Outputs | None:
        return None

    def outcome(self, leaf: LeafNode, outcome: Outcome) -> Outcome:
        return outcome


def _dag_of(component: Component) -> DagSpec:
    if component.dag is None:
        raise WorkflowError("a container of the pipeline is a DAG in its Workflow, which was changed")
    return component.dag


def node_inputs(node: Node) -> TaskInputs:
    """Returns the typed inputs of a node."""
    return TaskInputs.from_json(_typed((node.get("inputs") or {}).get("parameters"), TASK_INPUTS))


def node_outputs(node: Node) -> TaskOutputs:
    """Returns the typed outputs of a node."""
    return TaskOutputs.from_json(_typed((node.get("outputs") or {}).get("parameters"), TASK_OUTPUTS))


def final_state(node: Node) -> str:
    """Returns the state of a node as `dsl.PipelineTaskFinalStatus` has it."""
    if node["phase"] == "Succeeded" and (node.get("memoizationStatus") or {}).get("hit"):
        return "CACHED"
    return _FINAL_STATES.get(node["phase"], "FAILED")


def _typed(parameters: Any, name: str) -> dict[str, Any]:
    """Anyone who may write Workflows can write a node, so nothing is assumed about it."""
    for parameter in parameters or ():
        if parameter.get("name") == name:
            try:
                found = json.loads(str(parameter.get("value") or "{}"))
            except (ValueError, RecursionError):
                return {}
            return found if isinstance(found, dict) else {}
    return {}


def _is_triggered(task: Task, inputs: TaskInputs) -> bool:
    condition = task.trigger_policy.condition
    if not condition:
        return True
    try:
        return evaluate_condition(condition, inputs.parameters)
    except CelError as error:
        raise TaskFailed(f"the condition cannot be evaluated: {condition}: {error}") from None


def _retry_strategy(policy: RetryPolicy) -> dict[str, Any]:
    factor = (int(policy.backoff_factor) if math.isfinite(policy.backoff_factor) else 0) or 2
    longest = _seconds(policy.backoff_max_duration) or _LONGEST_BACKOFF
    return {
        "limit": policy.max_retry_count,
        "retryPolicy": "Always",
        "backoff": {
            "duration": f"{_seconds(policy.backoff_duration):g}s",
            "factor": factor,
            "cap": f"{min(longest, _LONGEST_BACKOFF):g}s",
        },
    }


def _seconds(duration: str) -> float:
    """Returns the seconds of a duration of protobuf, which is text such as `3.5s`."""
    try:
        found = float(duration.removesuffix("s") or 0)
    except ValueError:
        return 0.0
    return found if math.isfinite(found) else float(_LONGEST_BACKOFF)


def _described(inputs: TaskInputs) -> list[dict[str, str]]:
    """Returns inputs as a node shows them: each value as text, and all of them as JSON."""
    return [*as_parameters(inputs.parameters), {"name": TASK_INPUTS, "value": _to_json(inputs.to_json())}]


def _to_outputs(outputs: TaskOutputs) -> Outputs:
    written = {"name": TASK_OUTPUTS, "value": _to_json(outputs.to_json())}
    return Outputs(parameters=[*({"name": n, "value": to_text(v)} for n, v in outputs.parameters.items()), written])


def _without_parameters(outputs: Outputs) -> Outputs:
    kept = Outputs(**outputs)
    kept.pop("parameters", None)
    return kept


def _to_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _iteration(node: Node) -> int:
    number = node["name"].rpartition("(")[2][:-1]
    return int(number) if number.isdecimal() else 0


def _message(node: Node) -> str:
    return "" if node["phase"] in _FINAL_STATES else node.get("message") or f"the task ended as {node['phase']}"
