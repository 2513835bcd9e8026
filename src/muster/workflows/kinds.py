"""The kinds of argoproj.io/v1alpha1, in the spellings of v4.0 and v3.7."""

from __future__ import annotations

from typing import Final

from muster.kube.kinds import Column, Kind
from muster.kube.schema import root
from muster.kube.validation import validate_metadata
from muster.workflows.lint.warnings import find_warnings
from muster.workflows.lint.workflow import workflow_rule
from muster.workflows.schemas import (
    ARTIFACT_GC_SPEC,
    ARTIFACT_GC_STATUS,
    CRON_SPEC,
    CRON_STATUS,
    EVENT_BINDING_SPEC,
    NODE_RESULT,
    TASK_SET_SPEC,
    TASK_SET_STATUS,
    WORKFLOW_SPEC,
    WORKFLOW_STATUS,
)

GROUP: Final = "argoproj.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

WORKFLOW: Final = Kind(
    GROUP, VERSION, "Workflow", "workflows", short_names=("wf",), has_status=False, stored_as_rows=("status", "nodes"),
    schema=root({"spec": WORKFLOW_SPEC, "status": WORKFLOW_STATUS}, ["metadata", "spec"]),
    columns=(
        Column("Status", ".status.phase", description="Status of the workflow"),
        Column("Age", ".status.startedAt", "date", description="When the workflow was started"),
        Column("Message", ".status.message", description="Why the workflow is in this condition"),
    ),
    validate=workflow_rule, warnings=find_warnings,
)  # fmt: skip
WORKFLOW_TEMPLATE: Final = Kind(
    GROUP, VERSION, "WorkflowTemplate", "workflowtemplates", short_names=("wftmpl",), has_status=False,
    schema=root({"spec": WORKFLOW_SPEC}, ["metadata", "spec"]),
    validate=workflow_rule, warnings=find_warnings,
)  # fmt: skip
CLUSTER_WORKFLOW_TEMPLATE: Final = Kind(
    GROUP, VERSION, "ClusterWorkflowTemplate", "clusterworkflowtemplates", namespaced=False,
    short_names=("clusterwftmpl", "cwft"), has_status=False,
    schema=root({"spec": WORKFLOW_SPEC}, ["metadata", "spec"]),
    validate=workflow_rule, warnings=find_warnings,
)  # fmt: skip
CRON_WORKFLOW: Final = Kind(
    GROUP, VERSION, "CronWorkflow", "cronworkflows", short_names=("cwf", "cronwf"), has_status=False,
    schema=root({"spec": CRON_SPEC, "status": CRON_STATUS}, ["metadata", "spec"]),
    validate=workflow_rule, warnings=find_warnings,
)  # fmt: skip
WORKFLOW_EVENT_BINDING: Final = Kind(
    GROUP, VERSION, "WorkflowEventBinding", "workfloweventbindings", short_names=("wfeb",), has_status=False,
    schema=root({"spec": EVENT_BINDING_SPEC}, ["metadata", "spec"]), validate=validate_metadata,
)  # fmt: skip
WORKFLOW_TASK_SET: Final = Kind(
    GROUP, VERSION, "WorkflowTaskSet", "workflowtasksets", short_names=("wfts",),
    schema=root({"spec": TASK_SET_SPEC, "status": TASK_SET_STATUS}, ["metadata", "spec"]), validate=validate_metadata,
)  # fmt: skip
WORKFLOW_TASK_RESULT: Final = Kind(
    GROUP, VERSION, "WorkflowTaskResult", "workflowtaskresults", has_status=False,
    schema=root(NODE_RESULT, ["metadata"]), validate=validate_metadata,
)  # fmt: skip
WORKFLOW_ARTIFACT_GC_TASK: Final = Kind(
    GROUP, VERSION, "WorkflowArtifactGCTask", "workflowartifactgctasks", short_names=("wfat",),
    schema=root({"spec": ARTIFACT_GC_SPEC, "status": ARTIFACT_GC_STATUS}, ["metadata", "spec"]),
    validate=validate_metadata,
)  # fmt: skip

_ALL = (
    WORKFLOW, WORKFLOW_TEMPLATE, CLUSTER_WORKFLOW_TEMPLATE, CRON_WORKFLOW, WORKFLOW_EVENT_BINDING, WORKFLOW_TASK_SET,
    WORKFLOW_TASK_RESULT, WORKFLOW_ARTIFACT_GC_TASK,
)  # fmt: skip


def workflow_kinds() -> tuple[Kind, ...]:
    return _ALL
