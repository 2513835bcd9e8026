"""Reads compiled pipelines (IR, YAML or JSON), and checks what the form of a file does not say.

Everything is checked before anything runs: a reference to a task, a component or an input that does not exist, a cycle,
an expression that cannot be parsed. So a run fails for reasons of its data only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.kube.errors import Cause, closest_word, format_value, join_path, required
from muster.kube.manifests import Document, ManifestError, parse_mappings
from muster.pipelines.cel import CelError, parse_condition, parse_selector
from muster.pipelines.model import CHANNEL_PREFIX, Component, InputParameter, PipelineSpec, PlatformSpec, Task, decode
from muster.pipelines.values import ValueTypeError, check_type

SCHEMA_VERSION = "2.1.0"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,127}")
_KUBERNETES_FIELDS = frozenset(
    (
        "secretAsVolume", "secretAsEnv", "pvcMount", "nodeSelector", "podMetadata", "imagePullSecret",
        "imagePullPolicy", "configMapAsVolume", "configMapAsEnv", "activeDeadlineSeconds", "fieldPathAsEnv",
        "tolerations", "genericEphemeralVolume", "nodeAffinity", "podAffinity", "enabledSharedMemory", "emptyDirMounts",
        "securityContext",
    )
)  # fmt: skip
_MOST_CAUSES = 20
"""Problems that one error lists."""


class PipelineError(ValueError):
    """A compiled pipeline, or the parameters of a run, cannot be used. As text: one line for each problem, with the
    file and the line where they are known."""

    def __init__(self, causes: Sequence[Cause], documents: Sequence[Document] = ()) -> None:
        self.causes = tuple(causes)
        lines = [_line(cause, documents) for cause in self.causes[:_MOST_CAUSES]]
        if len(self.causes) > _MOST_CAUSES:
            lines.append(f"and {len(self.causes) - _MOST_CAUSES} more")
        super().__init__("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled pipeline: what it does, and how Kubernetes runs it."""

    spec: PipelineSpec
    platform: PlatformSpec = field(default_factory=PlatformSpec)
    spec_json: Mapping[str, Any] = field(default_factory=dict)
    """As written: what `pipeline_spec` of the API contains."""
    platform_json: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.spec.pipeline_info.name

    def component(self, name: str) -> Component:
        return self.spec.components[name]

    def to_json(self) -> dict[str, Any]:
        """Returns the form in which a pipeline is stored, which `parse_pipeline` reads."""
        if not self.platform_json:
            return dict(self.spec_json)
        return {"pipeline_spec": self.spec_json, "platform_spec": self.platform_json}


def read_pipeline(text: str, source: str = "pipeline") -> Pipeline:
    """Reads an IR file: a PipelineSpec and an optional second document, a PlatformSpec. Raises PipelineError."""
    try:
        documents = parse_mappings(text, source)
    except ManifestError as error:
        raise PipelineError([Cause("", str(error))]) from None
    if not documents:
        raise PipelineError([Cause("", f"{source}: the file is empty; expected a pipeline that `kfp.compiler` wrote")])
    if len(documents) > 2:
        message = "expected one PipelineSpec and at most one PlatformSpec"
        raise PipelineError([Cause("", f"{documents[2].where()}: {message}, found {len(documents)} documents")])
    first, second = documents[0], documents[1] if len(documents) == 2 else None
    if second is not None and "platforms" in first.object:
        first, second = second, first
    return _build(first.object, second.object if second is not None else None, [first, *([second] if second else [])])


def parse_pipeline(value: Any) -> Pipeline:
    """Reads a pipeline from JSON: a PipelineSpec, or `{pipeline_spec, platform_spec}`. Raises PipelineError."""
    if not isinstance(value, dict):
        raise PipelineError([Cause("pipeline_spec", "expected an object")])
    return _build(value, None, [])


def check_parameters(spec: PipelineSpec, parameters: Mapping[str, Any]) -> None:
    """Checks the inputs of a run. Raises PipelineError that lists everything that is wrong."""
    causes = list(_check_parameters(spec.root.input_definitions.parameters, parameters))
    for name, artifact in spec.root.input_definitions.artifacts.items():
        if not artifact.is_optional:
            fix = "import it in the pipeline with dsl.importer, from a uri that is a parameter"
            causes.append(Cause(join_path("artifacts", name), f"a run cannot be given an artifact: {fix}"))
    if causes:
        raise PipelineError(causes)


def _check_parameters(declared: Mapping[str, InputParameter], given: Mapping[str, Any]) -> Iterator[Cause]:
    for name, value in given.items():
        where = join_path("parameters", name)
        definition = declared.get(name)
        if definition is None:
            near = closest_word(name, declared)
            known = f'did you mean "{near}"?' if near else f"it has {', '.join(declared) or 'none'}"
            yield Cause(where, f'the pipeline has no parameter "{name}"; {known}')
            continue
        if value is None and (definition.is_optional or definition.default_value is not None):
            continue
        try:
            check_type(value, definition.parameter_type)
        except ValueTypeError as error:
            yield Cause(where, str(error))
            continue
        if definition.literals and value not in definition.literals:
            allowed = ", ".join(format_value(each) for each in definition.literals)
            yield Cause(where, f"{format_value(value)} is not allowed: use one of {allowed}")
    for name, definition in declared.items():
        optional = definition.is_optional or definition.default_value is not None
        if given.get(name) is None and not optional and definition.parameter_type != "TASK_FINAL_STATUS":
            yield Cause(join_path("parameters", name), f'the parameter "{name}" is required and has no value')


def _build(
    spec_json: Mapping[str, Any], platform_json: Mapping[str, Any] | None, documents: list[Document]
) -> Pipeline:
    prefix = ""
    if "pipeline_spec" in spec_json or "pipelineSpec" in spec_json:
        joined = spec_json
        unknown = [name for name in joined if name not in _JOINED]
        if unknown:
            raise PipelineError([Cause(name, f'unknown field "{name}"') for name in unknown], documents)
        prefix = "pipeline_spec" if "pipeline_spec" in joined else "pipelineSpec"
        spec_json = joined[prefix] if isinstance(joined[prefix], dict) else {}
        platform_json = joined.get("platform_spec") or joined.get("platformSpec") or platform_json
    if spec_json.get("apiVersion") or spec_json.get("kind"):
        message = "this is a Kubernetes object, not a compiled pipeline: compile with kfp 2 (`kfp dsl compile`)"
        raise PipelineError([Cause("kind" if spec_json.get("kind") else "apiVersion", message)], documents)
    causes: list[Cause] = []
    spec = decode(PipelineSpec, spec_json, prefix, causes)
    platform = PlatformSpec()
    if platform_json is not None:
        found = list[Cause]()
        platform = decode(PlatformSpec, platform_json, "", found)
        found.extend(_check_platform(spec, platform) if not found else ())
        if found:
            causes += found if len(documents) < 2 else [Cause("", _line(each, documents[1:])) for each in found]
    if not causes:
        causes = [Cause(join_path(prefix, each.field), each.message) for each in check_spec(spec)]
    if causes:
        raise PipelineError(causes, documents[:1])
    return Pipeline(spec, platform, spec_json, platform_json or {})


_JOINED = ("pipeline_spec", "pipelineSpec", "platform_spec", "platformSpec")


def check_spec(spec: PipelineSpec) -> Iterator[Cause]:
    """Yields what is wrong with a pipeline that could be decoded."""
    if spec.schema_version != SCHEMA_VERSION:
        given = f'"{spec.schema_version}"' if spec.schema_version else "missing"
        yield Cause("schemaVersion", f"it is {given}, but has to be {SCHEMA_VERSION}: compile the pipeline with kfp 2")
        return
    name = spec.pipeline_info.name
    if not name:
        yield required("pipelineInfo.name", "a pipeline needs a name")
    elif not _NAME.fullmatch(name):
        rule = "use lower-case letters, digits and dashes, at most 128, and begin with a letter or a digit"
        yield Cause("pipelineInfo.name", f"{format_value(name)} is not a valid name: {rule}")
    if spec.root.dag is None:
        yield required("root.dag", "the root of a pipeline is a DAG")
    for place, component in _components(spec):
        yield from _check_component(spec, place, component)
    yield from _check_recursion(spec)
    for label, executor in spec.deployment_spec.executors.items():
        where = f"deploymentSpec.executors.{label}"
        if executor.resolver is not None or executor.custom_job is not None:
            kind = "resolver" if executor.resolver is not None else "customJob"
            yield Cause(where, f"{kind} executors run only on Vertex AI: use a container or an importer")
        elif (executor.container is None) == (executor.importer is None):
            yield Cause(where, "expected one of container and importer")


def _components(spec: PipelineSpec) -> Iterator[tuple[str, Component]]:
    yield "root", spec.root
    for name, component in spec.components.items():
        yield f"components.{name}", component


def _check_component(spec: PipelineSpec, place: str, component: Component) -> Iterator[Cause]:
    if component.dag is not None and component.executor_label:
        yield Cause(place, "expected one of dag and executorLabel, found both")
    elif component.dag is not None:
        yield from _check_dag(spec, place, component)
    elif place != "root" and component.executor_label not in spec.deployment_spec.executors:
        known = spec.deployment_spec.executors
        yield _unknown(f"{place}.executorLabel", "executor", component.executor_label, known)


def _check_dag(spec: PipelineSpec, place: str, component: Component) -> Iterator[Cause]:
    assert component.dag is not None
    tasks = component.dag.tasks
    for name, task in tasks.items():
        where = f"{place}.dag.tasks.{name}"
        if task.component_ref.name not in spec.components:
            yield _unknown(f"{where}.componentRef.name", "component", task.component_ref.name, spec.components)
            continue
        yield from _check_task(spec, where, task, component, tasks)
    yield from _check_cycles(f"{place}.dag.tasks", tasks)
    outputs = component.dag.outputs
    for name, parameter in outputs.parameters.items():
        for selector in parameter.selectors:
            yield from _check_producer(
                spec, f"{place}.dag.outputs.parameters.{name}", tasks, selector.producer_subtask,
                selector.output_parameter_key, "parameters",
            )  # fmt: skip
    for name, artifact in outputs.artifacts.items():
        for chosen in artifact.artifact_selectors:
            yield from _check_producer(
                spec, f"{place}.dag.outputs.artifacts.{name}", tasks, chosen.producer_subtask,
                chosen.output_artifact_key, "artifacts",
            )  # fmt: skip


def _check_task(
    spec: PipelineSpec, where: str, task: Task, parent: Component, tasks: Mapping[str, Task]
) -> Iterator[Cause]:
    for need in task.upstream():
        if need not in tasks:
            yield _unknown(f"{where}.dependentTasks", "task", need, tasks)
    if task.parameter_iterator is not None and task.artifact_iterator is not None:
        yield Cause(where, "expected one of parameterIterator and artifactIterator, found both")
    if task.iterator_policy.parallelism_limit < 0:
        yield Cause(f"{where}.iteratorPolicy.parallelismLimit", "expected a number that is not negative")
    if task.trigger_policy.condition:
        try:
            parse_condition(task.trigger_policy.condition)
        except CelError as error:
            yield Cause(f"{where}.triggerPolicy.condition", str(error))
    for name, parameter in task.inputs.parameters.items():
        at = f"{where}.inputs.parameters.{name}"
        if parameter.task_output_parameter is not None:
            source = parameter.task_output_parameter
            yield from _check_producer(
                spec, at, tasks, source.producer_task, source.output_parameter_key, "parameters"
            )  # fmt: skip
        declared = parent.input_definitions.parameters
        # Of an f-string with items of nested loops, the SDK also asks outer loops for the items of inner ones.
        is_known = parameter.component_input_parameter in declared or name.startswith(CHANNEL_PREFIX)
        if parameter.component_input_parameter and not is_known:
            yield _unknown(f"{at}.componentInputParameter", "input", parameter.component_input_parameter, declared)
        if parameter.parameter_expression_selector:
            try:
                parse_selector(parameter.parameter_expression_selector)
            except CelError as error:
                yield Cause(f"{at}.parameterExpressionSelector", str(error))
    for name, artifact in task.inputs.artifacts.items():
        at = f"{where}.inputs.artifacts.{name}"
        if artifact.task_output_artifact is not None:
            taken = artifact.task_output_artifact
            yield from _check_producer(spec, at, tasks, taken.producer_task, taken.output_artifact_key, "artifacts")
        inputs = parent.input_definitions.artifacts
        if artifact.component_input_artifact and artifact.component_input_artifact not in inputs:
            yield _unknown(f"{at}.componentInputArtifact", "input", artifact.component_input_artifact, inputs)
    yield from _check_iterators(where, task, spec.components[task.component_ref.name])


def _check_iterators(where: str, task: Task, component: Component) -> Iterator[Cause]:
    if task.parameter_iterator is not None:
        items, target = task.parameter_iterator.items, task.parameter_iterator.item_input
        if bool(items.raw) == bool(items.input_parameter):
            yield Cause(f"{where}.parameterIterator.items", "expected one of raw and inputParameter")
        elif items.input_parameter and items.input_parameter not in task.inputs.parameters:
            at = f"{where}.parameterIterator.items.inputParameter"
            yield _unknown(at, "input", items.input_parameter, task.inputs.parameters)
        if target not in component.input_definitions.parameters:
            known = component.input_definitions.parameters
            yield _unknown(f"{where}.parameterIterator.itemInput", "input", target, known)
    if task.artifact_iterator is not None:
        source, target = task.artifact_iterator.items.input_artifact, task.artifact_iterator.item_input
        if source not in task.inputs.artifacts:
            yield _unknown(f"{where}.artifactIterator.items.inputArtifact", "input", source, task.inputs.artifacts)
        if target not in component.input_definitions.artifacts:
            known_artifacts = component.input_definitions.artifacts
            yield _unknown(f"{where}.artifactIterator.itemInput", "input", target, known_artifacts)


def _check_producer(
    spec: PipelineSpec, where: str, tasks: Mapping[str, Task], producer: str, key: str, kind: str
) -> Iterator[Cause]:
    task = tasks.get(producer)
    if task is None:
        yield _unknown(where, "task", producer, tasks)
        return
    component = spec.components.get(task.component_ref.name)
    if component is None:
        return
    outputs: Mapping[str, Any] = getattr(component.output_definitions, kind)
    if key not in outputs:
        yield _unknown(where, f"output of task {producer}", key, outputs)


def _check_cycles(where: str, tasks: Mapping[str, Task]) -> Iterator[Cause]:
    circle = _find_circle({name: [need for need in task.upstream() if need in tasks] for name, task in tasks.items()})
    if circle:
        yield Cause(where, f"these tasks wait for each other: {', '.join(circle)}")


def _check_recursion(spec: PipelineSpec) -> Iterator[Cause]:
    """A component that contains itself would never end."""
    inside = {
        name: [task.component_ref.name for task in component.dag.tasks.values()] if component.dag is not None else []
        for name, component in spec.components.items()
    }
    circle = _find_circle({name: [each for each in found if each in inside] for name, found in inside.items()})
    if circle:
        yield Cause("components", f"these components contain each other: {', '.join(circle)}")


def _find_circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the names that are on, or behind, a cycle."""
    unmet = {name: len(set(found)) for name, found in needs.items()}
    needed_by: dict[str, list[str]] = {name: [] for name in needs}
    for name, found in needs.items():
        for need in set(found):
            needed_by[need].append(name)
    free = [name for name, count in unmet.items() if not count]
    for name in free:
        for waiting in needed_by[name]:
            unmet[waiting] -= 1
            if not unmet[waiting]:
                free.append(waiting)
    return [name for name, count in unmet.items() if count]


def _check_platform(spec: PipelineSpec, platform: PlatformSpec) -> Iterator[Cause]:
    for name, single in platform.platforms.items():
        if name != "kubernetes":
            yield _unknown(f"platforms.{name}", "platform", name, ("kubernetes",))
            continue
        for label, config in single.deployment_spec.executors.items():
            where = f"platforms.{name}.deploymentSpec.executors.{label}"
            if label not in spec.deployment_spec.executors:
                yield _unknown(where, "executor", label, spec.deployment_spec.executors)
            if isinstance(config, dict):
                for unknown in config.keys() - _KUBERNETES_FIELDS:
                    yield _unknown(f"{where}.{unknown}", "field", unknown, _KUBERNETES_FIELDS)


def _unknown(where: str, what: str, name: str, known: Any) -> Cause:
    near = closest_word(name, known)
    return Cause(where, f'there is no {what} "{name}"' + (f'; did you mean "{near}"?' if near else ""))


def _line(cause: Cause, documents: Sequence[Document]) -> str:
    text = f"{cause.field}: {cause.message}" if cause.field else cause.message
    return f"{documents[0].where(cause.field)} {text}" if documents and cause.field else text
