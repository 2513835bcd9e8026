"""Builds the Workflow to create from what a user submits: a file, a template or a cron workflow, and options. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, spec_of

API_VERSION = "argoproj.io/v1alpha1"
_PREFIX = "workflows.argoproj.io"
_SOURCES = {
    "workflowtemplate": "WorkflowTemplate",
    "workflowtemplates": "WorkflowTemplate",
    "wftmpl": "WorkflowTemplate",
    "clusterworkflowtemplate": "ClusterWorkflowTemplate",
    "clusterworkflowtemplates": "ClusterWorkflowTemplate",
    "clusterwftmpl": "ClusterWorkflowTemplate",
    "cwft": "ClusterWorkflowTemplate",
    "cronworkflow": "CronWorkflow",
    "cronworkflows": "CronWorkflow",
    "cronwf": "CronWorkflow",
    "cwf": "CronWorkflow",
}


class SubmissionError(ValueError):
    """An invalid option. The message is for the user."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    name: str = ""
    generate_name: str = ""
    entrypoint: str = ""
    service_account: str = ""
    parameters: Sequence[str] = ()
    """NAME=VALUE."""
    labels: str = ""
    """NAME=VALUE,NAME=VALUE."""
    annotations: str = ""
    priority: int | None = None
    pod_priority_class: str = ""
    owner_reference: Mapping[str, Any] | None = None


def source_kind(word: str) -> str:
    """Returns the kind that a word such as `workflowtemplate` or `cwft` means."""
    kind = _SOURCES.get(word.lower())
    if kind is None:
        raise SubmissionError(
            f"Resource kind '{word}' is not supported for submitting; write workflowtemplate/NAME, "
            "clusterworkflowtemplate/NAME or cronworkflow/NAME"
        )
    return kind


def workflow_from_template(name: str, *, cluster_scope: bool = False) -> Object:
    """Returns a Workflow that runs a WorkflowTemplate or a ClusterWorkflowTemplate."""
    label = "cluster-workflow-template" if cluster_scope else "workflow-template"
    ref: Object = {"name": name, **({"clusterScope": True} if cluster_scope else {})}
    return {
        "apiVersion": API_VERSION,
        "kind": "Workflow",
        "metadata": {"generateName": f"{name}-", "labels": {f"{_PREFIX}/{label}": name}},
        "spec": {"workflowTemplateRef": ref},
    }


def workflow_from_cron(cron: Object, scheduled: str) -> Object:
    """Returns the Workflow that a CronWorkflow creates, outside its schedule."""
    spec = spec_of(cron)
    more = spec.get("workflowMetadata") or {}
    labels = {f"{_PREFIX}/cron-workflow": name_of(cron), **(more.get("labels") or {})}
    annotations = {f"{_PREFIX}/scheduled-time": scheduled, **(more.get("annotations") or {})}
    metadata: Object = {"generateName": f"{name_of(cron)}-", "labels": labels, "annotations": annotations}
    if more.get("finalizers"):
        metadata["finalizers"] = more["finalizers"]
    return {
        "apiVersion": API_VERSION,
        "kind": "Workflow",
        "metadata": metadata,
        "spec": spec.get("workflowSpec") or {},
    }


def apply_options(workflow: Object, options: SubmitOptions) -> Object:
    """Returns the Workflow with the options applied. Raises SubmissionError."""
    spec, metadata = dict(spec_of(workflow)), dict(meta(workflow))
    given = {
        "entrypoint": options.entrypoint,
        "serviceAccountName": options.service_account,
        "podPriorityClassName": options.pod_priority_class,
        "priority": options.priority,
    }
    spec |= {field: value for field, value in given.items() if value not in ("", None)}
    if options.parameters:
        arguments = spec.get("arguments") or {}
        spec["arguments"] = {
            **arguments,
            "parameters": override_parameters(arguments.get("parameters") or (), options.parameters),
        }
    if options.labels:
        metadata["labels"] = {**labels_of(workflow), **parse_pairs(options.labels, "label")}
    if options.annotations:
        metadata["annotations"] = {**annotations_of(workflow), **parse_pairs(options.annotations, "annotation")}
    if options.generate_name:
        metadata["generateName"] = options.generate_name
        metadata.pop("name", None)
    if options.name:
        metadata["name"] = options.name
    if options.owner_reference:
        metadata["ownerReferences"] = [*(metadata.get("ownerReferences") or ()), dict(options.owner_reference)]
    return {**workflow, "metadata": metadata, "spec": spec}


def override_parameters(parameters: Iterable[Mapping[str, Any]], given: Sequence[str]) -> list[Object]:
    """Returns the parameters with the given ones first, in that order; parameters of the same name are replaced."""
    named = dict(_pair(text, "parameter") for text in given)
    new: list[Object] = [{"name": name, "value": value} for name, value in named.items()]
    return new + [dict(parameter) for parameter in parameters if parameter.get("name") not in named]


def parse_pairs(text: str, what: str) -> dict[str, str]:
    """Parses `a=b,c=d`."""
    return dict(_pair(part.strip(), what) for part in text.split(",") if part.strip())


def parameters_from_file(values: Mapping[str, Any]) -> list[str]:
    """Returns NAME=VALUE for each entry of a parameter file. Values other than strings are written as JSON."""
    import orjson

    return [
        f"{name}={value if isinstance(value, str) else orjson.dumps(value).decode()}" for name, value in values.items()
    ]


def _pair(text: str, what: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise SubmissionError(f'expected a {what} of the form NAME=VALUE, not "{text}"')
    return name, value
