"""The kinds of workspaces as Kubeflow's users have them: `kubeflow.org` Notebook in its three versions, and
`tensorboard.kubeflow.org/v1alpha1` Tensorboard. Both have fields of ours that Kubeflow does not know; all are optional.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from muster.kube.defaults import default_pod_spec
from muster.kube.errors import Cause, invalid, is_dns_name, required
from muster.kube.kinds import Column, Kind
from muster.kube.objects import Object, annotations_of, name_of, spec_of
from muster.kube.pod_validation import validate_pod_spec
from muster.kube.schema import INT32, NUMBER, STRING, TIME, list_of, obj, root, upstream_schema

STOP_ANNOTATION: Final = "kubeflow-resource-stopped"
"""On a Notebook: the time since when it is to be stopped. Its Pod is deleted; its volumes stay."""
LAST_ACTIVITY_ANNOTATION: Final = "notebooks.kubeflow.org/last-activity"
ACTIVITY_CHECK_ANNOTATION: Final = "notebooks.kubeflow.org/last_activity_check_timestamp"
CULL_AT_ANNOTATION: Final = "muster.dev/cull-at"
"""When an idle Notebook will be stopped. It is set some time before: the warning."""
CULL_IDLE_ANNOTATION: Final = "muster.dev/cull-idle-minutes"
"""How long this Notebook may be idle, instead of what the settings say; 0 for as long as it likes."""
CULLED_AT_ANNOTATION: Final = "muster.dev/culled-at"
"""When the Notebook was stopped because it was idle. A start removes it."""
RESTART_ANNOTATION: Final = "notebooks.opendatahub.io/notebook-restart"
"""On a Notebook: a request to restart it. The controller removes it when it has deleted the Pod."""

NOTEBOOK_LABEL: Final = "notebook-name"
"""Kubeflow's label on the Pod of a Notebook."""
TENSORBOARD_LABEL: Final = "tensorboard-name"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "muster-workspaces"}
"""The label of everything that the controllers create."""

LONGEST_NAME: Final = 52
"""Kubeflow's limit: names of objects that belong to a workspace are longer than its own."""

_NOTEBOOK_STATUS = obj({
    "conditions": list_of(
        obj({
            "type": STRING,
            "status": STRING,
            "reason": STRING,
            "message": STRING,
            "lastProbeTime": TIME,
            "lastTransitionTime": TIME,
        })
    ),
    "readyReplicas": INT32,
    "containerState": upstream_schema("core.v1.ContainerState"),
    "environment": obj({"name": STRING, "state": STRING, "message": STRING, "fraction": NUMBER}),
})  # fmt: skip
_NOTEBOOK_COLUMNS = (
    Column("Ready", ".status.readyReplicas", type="integer"),
    Column("Stopped", ".metadata.annotations.kubeflow-resource-stopped", type="date"),
    Column("Image", ".spec.template.spec.containers[0].image", priority=1),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)

_LOGS = list_of(obj({"name": STRING, "path": STRING}, ["name", "path"]))
_TENSORBOARD_STATUS = obj({
    "conditions": list_of(
        obj({"deploymentState": STRING, "lastProbeTime": TIME, "reason": STRING, "message": STRING})
    ),
    "readyReplicas": INT32,
    "environment": obj({"name": STRING, "state": STRING, "message": STRING, "fraction": NUMBER}),
})  # fmt: skip
_TENSORBOARD_COLUMNS = (
    Column("Ready", ".status.readyReplicas", type="integer"),
    Column("State", ".status.conditions[-1:].deploymentState"),
    Column("Logs", ".spec.logspath"),
    Column("Age", ".metadata.creationTimestamp", type="date"),
)


class LogSource(NamedTuple):
    """Where a TensorBoard finds event files."""

    name: str
    """How the runs in it are called in the board; '' if it is the only one."""
    scheme: str
    """`pvc`, `path` or the scheme of an object store: `s3`, `gs`, ..."""
    root: str
    """The claim, or ''."""
    path: str
    """The path in the claim, the folder of a storage root, or the whole URL."""


def read_logs(tensorboard: Object) -> list[LogSource]:
    """Returns the sources of a valid Tensorboard: `spec.logspath`, or the list `spec.logs` for several."""
    spec = spec_of(tensorboard)
    named = spec.get("logs") or []
    found = [] if named or not spec.get("logspath") else [parse_log_path(spec["logspath"])]
    return found + [parse_log_path(each["path"])._replace(name=each["name"]) for each in named]


def parse_log_path(text: str) -> LogSource:
    """Raises ValueError with a message for the user."""
    if text.startswith("/"):
        path = posixpath.normpath(text)
        if path == "/" or ".." in text.split("/"):
            raise ValueError("must be a folder below a storage root, without ..")
        return LogSource("", "path", "", path)
    scheme, separator, rest = text.partition("://")
    if not separator:
        # Kubeflow: a plain word is the name of a claim.
        scheme, rest = "pvc", text
    if scheme == "pvc":
        claim, _, path = rest.partition("/")
        if not is_dns_name(claim):
            raise ValueError("must name a claim, such as pvc://my-claim/logs")
        if ".." in path.split("/"):
            raise ValueError("must not leave the claim with ..")
        return LogSource("", "pvc", claim, path.strip("/"))
    if scheme not in ("s3", "gs", "hdfs") or not urlsplit(text).netloc:
        raise ValueError("must be pvc://CLAIM/PATH, /FOLDER of a storage root, or an s3://, gs:// or hdfs:// URL")
    return LogSource("", scheme, "", text)


def _validate_notebook(new: Object, old: Object | None) -> list[Cause]:
    if old is not None and new.get("spec") == old.get("spec"):
        return []
    template: Any = spec_of(new).get("template") or {}
    if not (template.get("spec") or {}).get("containers"):
        return [required("spec.template.spec.containers", "a notebook needs a container")]
    causes = [] if old is not None else _validate_name(new)
    return [*causes, *validate_pod_spec(default_pod_spec(template["spec"]), "spec.template.spec")]


def _validate_tensorboard(new: Object, old: Object | None) -> list[Cause]:
    spec = spec_of(new)
    if old is not None and spec == spec_of(old):
        return []
    causes = [] if old is not None else _validate_name(new)
    if not spec.get("logspath") and not spec.get("logs"):
        return [*causes, required("spec.logspath", "say where the logs are, such as pvc://my-claim/logs")]
    paths = [("spec.logspath", spec["logspath"])] if spec.get("logspath") else []
    paths += [(f"spec.logs[{number}].path", each["path"]) for number, each in enumerate(spec.get("logs") or ())]
    for field, text in paths:
        try:
            parse_log_path(text)
        except ValueError as error:
            causes.append(invalid(field, text, str(error)))
    return causes


def _validate_name(new: Object) -> list[Cause]:
    if len(name_of(new)) <= LONGEST_NAME:
        return []
    return [invalid("metadata.name", name_of(new), f"must have at most {LONGEST_NAME} characters")]


NOTEBOOK: Final = Kind(
    group="kubeflow.org",
    version="v1",
    kind="Notebook",
    plural="notebooks",
    schema=root({
        "spec": obj({
            "template": obj({
                "metadata": upstream_schema("meta.v1.ObjectMeta"),
                "spec": upstream_schema("core.v1.PodSpec"),
            })
        }),
        "status": _NOTEBOOK_STATUS,
    }),
    columns=_NOTEBOOK_COLUMNS,
    validate=_validate_notebook,
)  # fmt: skip

TENSORBOARD: Final = Kind(
    group="tensorboard.kubeflow.org",
    version="v1alpha1",
    kind="Tensorboard",
    plural="tensorboards",
    schema=root({
        "spec": obj({"logspath": STRING, "logs": _LOGS, "credentials": obj({"secretName": STRING}, ["secretName"])}),
        "status": _TENSORBOARD_STATUS,
    }),
    columns=_TENSORBOARD_COLUMNS,
    validate=_validate_tensorboard,
)  # fmt: skip


def workspace_kinds() -> tuple[Kind, ...]:
    """Returns the kinds for a cluster's catalogue."""
    older = (replace(NOTEBOOK, version=version) for version in ("v1beta1", "v1alpha1"))
    return (NOTEBOOK, *older, TENSORBOARD)


def is_stopped(workspace: Object) -> bool:
    return STOP_ANNOTATION in annotations_of(workspace)


def main_container(notebook: Object) -> Object:
    """The container that serves the notebook: the one with the notebook's name, or the first."""
    containers: Iterable[Object] = ((spec_of(notebook).get("template") or {}).get("spec") or {}).get("containers") or ()
    found = list(containers)
    return next((each for each in found if each.get("name") == name_of(notebook)), found[0] if found else {})
