"""Makes the Workflow of a pipeline run.

The Workflow has one `dag` template for every DAG of the pipeline and one template for every executor, so clients of
Argo show what is to come. Its tasks have dependencies only: their inputs, conditions and loops are decided by the
PipelineResolver (`resolver.py`) from the pipeline itself, which is an argument of the Workflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from muster.kube.errors import Cause
from muster.kube.objects import Object, meta, name_of, namespace_of, spec_of
from muster.pipelines.inputs import with_defaults
from muster.pipelines.model import Component, PipelineConfig, Task
from muster.pipelines.object_stores import ROOT_KEY, ObjectStores, read_object_stores
from muster.pipelines.spec import Pipeline, PipelineError, check_parameters, parse_pipeline
from muster.pipelines.task import TASK_INPUTS, RunInfo, TaskFailed, TaskInputs
from muster.pipelines.values import ValueTypeError
from muster.workflows.model import PIPELINE_ARGUMENT, PIPELINE_RUN_LABEL, Template

NAME_ANNOTATION = "pipelines.kubeflow.org/run_name"
DEFAULT_ROOT = "minio://mlpipeline/v2/artifacts"
WORKSPACE_VOLUME = "kfp-workspace"
ROOT = "root"
"""The template of the pipeline's own DAG. Components cannot have this name: theirs begin with `comp-`."""
_SEMAPHORES = "semaphore-config"
"""The ConfigMap with the limits of semaphores, as in Kubeflow Pipelines."""
_NOT_IN_NAMES = re.compile(r"[^a-z0-9-]+")
_LONGEST_PIPELINE = 40


def to_workflow(
    pipeline: Pipeline,
    *,
    run_id: str,
    display_name: str,
    parameters: Mapping[str, Any],
    namespace: str,
    name: str = "",
    pipeline_root: str = "",
    service_account: str = "",
    scheduled: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    launcher: Mapping[str, str] | None = None,
) -> Object:
    """Returns the Workflow that runs a pipeline. `launcher` is the data of the namespace's ConfigMap kfp-launcher.
    Raises PipelineError if the parameters do not fit."""
    check_parameters(pipeline.spec, parameters)
    given = {key: value for key, value in parameters.items() if value is not None}
    try:
        inputs = with_defaults(given, pipeline.spec.root.input_definitions.parameters)
    except (TaskFailed, ValueTypeError) as error:  # the default of a parameter does not have its type
        raise PipelineError([Cause("", str(error))]) from None
    stores = read_object_stores(launcher or {})
    usual = (launcher or {}).get(ROOT_KEY) or DEFAULT_ROOT
    run = {
        "runId": run_id,
        "displayName": display_name,
        "pipelineRoot": (pipeline_root or pipeline.spec.default_pipeline_root or usual).rstrip("/"),
        "scheduled": scheduled,
        **({"stores": stores.to_json()} if stores.stores else {}),
    }
    spec: Object = {
        "entrypoint": ROOT,
        "templates": [_dag_template(ROOT, pipeline.spec.root, pipeline), *_component_templates(pipeline)],
        "arguments": {
            "parameters": [
                {"name": PIPELINE_ARGUMENT, "value": literal_json({**_joined(pipeline), "run": run})},
                {"name": TASK_INPUTS, "value": literal_json(TaskInputs(inputs).to_json())},
            ]
        },
        **_settings(pipeline.platform.kubernetes.pipeline_config),
    }
    if service_account:
        spec["serviceAccountName"] = service_account
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": name or workflow_name(pipeline.name, run_id),
            "namespace": namespace,
            "labels": {**(labels or {}), PIPELINE_RUN_LABEL: run_id},
            "annotations": {**(annotations or {}), NAME_ANNOTATION: display_name},
        },
        "spec": spec,
    }


def workflow_name(pipeline: str, run_id: str) -> str:
    """Returns the name of a run's Workflow: that of the pipeline, and the start of the run's id."""
    return f"{_NOT_IN_NAMES.sub('-', pipeline.lower())[:_LONGEST_PIPELINE].strip('-')}-{run_id.replace('-', '')[:10]}"


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a Workflow says about the pipeline that it runs."""

    pipeline: Pipeline
    info: RunInfo


def pipeline_run(workflow: Object) -> PipelineRun | None:
    """Returns the pipeline and the run of a Workflow, or None if it is an ordinary one. Raises PipelineError."""
    for parameter in (spec_of(workflow).get("arguments") or {}).get("parameters") or ():
        if parameter.get("name") == PIPELINE_ARGUMENT:
            pipeline, run = _parse_argument(str(parameter.get("value") or ""))
            config = pipeline.platform.kubernetes.pipeline_config
            info = RunInfo(
                run_id=str(run.get("runId") or ""),
                display_name=str(run.get("displayName") or ""),
                workflow_name=name_of(workflow),
                namespace=namespace_of(workflow),
                pipeline_name=pipeline.name,
                pipeline_root=str(run.get("pipelineRoot") or DEFAULT_ROOT),
                created=str(meta(workflow).get("creationTimestamp") or ""),
                scheduled=str(run.get("scheduled") or ""),
                pipeline_config=config,
                workspace_claim=f"{name_of(workflow)}-{WORKSPACE_VOLUME}" if config.workspace is not None else "",
                stores=ObjectStores.from_json(run.get("stores")),
            )
            return PipelineRun(pipeline, info)
    return None


def literal_json(value: Any) -> str:
    """Returns JSON in which nothing looks like a tag of Argo."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("{{", "{\\u007b")


@lru_cache(maxsize=64)
def _parse_argument(text: str) -> tuple[Pipeline, Mapping[str, Any]]:
    """Many runs have the same pipeline, and a run is loaded more than once."""
    try:
        found = json.loads(text)
        json.dumps(found, ensure_ascii=False).encode()  # JSON can contain half of a character, which nothing stores
    except (ValueError, RecursionError):
        raise PipelineError([Cause("", f"the argument {PIPELINE_ARGUMENT} is not JSON")]) from None
    if not isinstance(found, dict):
        raise PipelineError([Cause("", f"the argument {PIPELINE_ARGUMENT} is not an object")])
    run = found.pop("run", None)
    return parse_pipeline(found), run if isinstance(run, dict) else {}


def _joined(pipeline: Pipeline) -> dict[str, Any]:
    joined: dict[str, Any] = {"pipeline_spec": pipeline.spec_json}
    return {**joined, "platform_spec": pipeline.platform_json} if pipeline.platform_json else joined


def _component_templates(pipeline: Pipeline) -> list[Template]:
    found = []
    for name, component in pipeline.spec.components.items():
        if component.dag is not None:
            found.append(_dag_template(name, component, pipeline))
            continue
        executor = pipeline.spec.deployment_spec.executors[component.executor_label]
        if executor.importer is not None:
            found.append({"name": name, "plugin": {"kubeflow-importer": {}}})
        else:
            image = executor.container.image if executor.container is not None else ""
            shown = image if image and "{{" not in image else "(decided at run time)"
            found.append({"name": name, "container": {"image": shown}})
    return found


def _dag_template(name: str, component: Component, pipeline: Pipeline) -> Template:
    tasks = component.dag.tasks if component.dag is not None else {}
    return {
        "name": name,
        "inputs": {"parameters": [{"name": TASK_INPUTS}]},
        "dag": {"failFast": False, "tasks": [_dag_task(key, task, pipeline) for key, task in tasks.items()]},
    }


def _dag_task(key: str, task: Task, pipeline: Pipeline) -> dict[str, Any]:
    found: dict[str, Any] = {"name": key, "template": task.component_ref.name}
    needs = task.upstream()
    if needs and task.runs_after_failures:
        ends = ("Succeeded", "Failed", "Errored", "Skipped", "Omitted")
        found["depends"] = " && ".join(f"({' || '.join(f'{need}.{end}' for end in ends)})" for need in needs)
    elif needs:
        found["depends"] = " && ".join(f"{need}.Succeeded" for need in needs)
    if pipeline.component(task.component_ref.name).dag is not None:
        # The resolver gives the real one. This one is for clients that check that every input is supplied.
        found["arguments"] = {"parameters": [{"name": TASK_INPUTS, "value": "{}"}]}
    return found


def _settings(config: PipelineConfig) -> dict[str, Any]:
    """Returns the fields of a Workflow's spec that `dsl.PipelineConfig` stands for."""
    found: dict[str, Any] = {}
    seconds = {
        "secondsAfterCompletion": config.resource_ttl_on_completion,
        "secondsAfterSuccess": config.resource_ttl_on_success,
        "secondsAfterFailure": config.resource_ttl_on_failure,
    }
    if any(seconds.values()):
        found["ttlStrategy"] = {name: value for name, value in seconds.items() if value}
    if config.active_deadline_seconds:
        found["activeDeadlineSeconds"] = config.active_deadline_seconds
    locks: dict[str, Any] = {}
    if config.mutex_name:
        locks["mutexes"] = [{"name": config.mutex_name}]
    if config.semaphore_key:
        locks["semaphores"] = [{"configMapKeyRef": {"name": _SEMAPHORES, "key": config.semaphore_key}}]
    if locks:
        found["synchronization"] = locks
    if config.workspace is not None:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            **config.workspace.kubernetes.pvc_spec_patch,
            "resources": {"requests": {"storage": config.workspace.size}},
        }
        found["volumeClaimTemplates"] = [{"metadata": {"name": WORKSPACE_VOLUME}, "spec": claim}]
    return found
