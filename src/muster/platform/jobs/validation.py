"""Validates a manifest of training jobs before anything is created. Every finding has a line. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.kube.errors import Cause
from muster.kube.manifests import Document, ManifestError
from muster.kube.objects import Object, labels_of, meta, name_of, namespace_of
from muster.kube.pod_security import PodGrants
from muster.platform.graphs.templates import KUEUE_QUEUE, QUEUE
from muster.platform.jobs.jobs import job_kind_of, kind_names
from muster.platform.messages import FieldError, format_message
from muster.platform.namespaces import OWNER_LABEL, TEAM_LABEL
from muster.platform.pod_policy import find_forbidden, find_forbidden_metadata
from muster.training.kinds.paddlecloud import ETCD_ANNOTATION

SOURCE = "manifest"
"""The name of the text in messages."""


_GROUPS = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name", "scheduling.x-k8s.io/pod-group")


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """An error or warning about a manifest."""

    line: int
    """From 1; 0 if it is about the whole text."""
    path: str
    message: str
    code: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    is_warning: bool = False
    column: int = 0

    def to_error(self) -> FieldError:
        message = f"line {self.line}: {self.message}" if self.line else self.message
        return FieldError(self.path or SOURCE, message, self.code, {**self.arguments, "line": self.line})


@dataclass(frozen=True, slots=True)
class Limits:
    """What users who are not admins may use."""

    namespace: str
    allowed: PodGrants
    queues: frozenset[str] = frozenset()
    """Queues that they may not use."""


def unreadable_finding(error: ManifestError) -> ManifestFinding:
    return ManifestFinding(error.line, "", error.message, "job.text", {"detail": error.message}, column=error.column)


def cluster_findings(
    document: Document, causes: Sequence[Cause], message: str, path: str = ""
) -> list[ManifestFinding]:
    """Findings for the errors of the cluster; at `path` if an error names no field."""
    said = [cause for cause in causes if cause.field] or [Cause(path, message)]
    return [_create_finding(document, cause.field, "job.cluster", detail=cause.message) for cause in said]


def warning_findings(document: Document, causes: Iterable[Cause]) -> list[ManifestFinding]:
    return [
        ManifestFinding(
            document.line(c.field), c.field, c.message, "job.warning", {"detail": c.message}, is_warning=True
        )
        for c in causes
    ]


def check_documents(documents: Sequence[Document], limits: Limits | None) -> list[ManifestFinding]:
    """Checks what only the platform knows; the cluster checks the rest. Without limits, the author is an admin."""
    if not documents:
        return [ManifestFinding(0, "", format_message("job.empty", {}), "job.empty")]
    found: list[ManifestFinding] = []
    lines: dict[tuple[str, str, str], int] = {}
    for document in documents:
        obj = document.object
        if job_kind_of(obj) is None:
            found.append(
                _create_finding(document, "kind", "job.kind", kind=str(obj.get("kind")), known=", ".join(kind_names()))
            )
            continue
        kind, name = str(obj.get("kind")), name_of(obj)
        same = lines.setdefault((kind, namespace_of(obj), name), document.line("metadata.name"))
        if name and same != document.line("metadata.name"):
            found.append(_create_finding(document, "metadata.name", "job.twice", kind=kind, name=name, other=same))
        found += [_locate(document, error) for error in _check_reserved_labels(obj, owned=limits is not None)]
        if limits is not None:
            found += _check_confinement(document, limits)
    return found


def with_owner(obj: Object, namespace: str, owner: str, team: str) -> Object:
    """Returns the object to create, with its owner and team."""
    labels = {**labels_of(obj), OWNER_LABEL: owner} | ({TEAM_LABEL: team} if team else {})
    return {**obj, "metadata": {"namespace": namespace, **meta(obj), "labels": labels}}


def templates_in(obj: Object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the Pod templates of a job of any kind, with their paths."""
    for name, value in _mapping(obj.get("spec")).items():
        if not isinstance(value, Mapping):
            continue
        for path, part in ((f"spec.{name}", value), *((f"spec.{name}.{role}", each) for role, each in value.items())):
            if isinstance(part, Mapping) and isinstance(part.get("template"), Mapping):
                yield f"{path}.template", part["template"]


def secrets_in(obj: Object) -> set[str]:
    """Returns the names of all Secrets that the Pods of a job or a Workflow use."""
    return set(_secret_names(obj.get("spec")))


def _check_reserved_labels(obj: Object, *, owned: bool) -> Iterator[FieldError]:
    yield from find_forbidden_metadata(meta(obj), "metadata", owned=owned)
    for path, template in templates_in(obj):
        yield from find_forbidden_metadata(template.get("metadata"), f"{path}.metadata", owned=owned)


def _check_confinement(document: Document, limits: Limits) -> Iterator[ManifestFinding]:
    obj = document.object
    if namespace_of(obj) not in ("", limits.namespace):
        yield _create_finding(document, "metadata.namespace", "job.namespace", namespace=limits.namespace)
    if ETCD_ANNOTATION in _mapping(meta(obj).get("annotations")):
        yield _create_finding(document, f"metadata.annotations[{ETCD_ANNOTATION}]", "job.etcd", name=ETCD_ANNOTATION)
    for path, queue in _queues(obj):
        if queue in limits.queues:
            yield _create_finding(document, path, "job.queue", name=queue)
    for path, template in templates_in(obj):
        metadata = template.get("metadata")
        for part in ("annotations", "labels"):
            written = metadata.get(part) if isinstance(metadata, Mapping) else None
            for name in written if isinstance(written, Mapping) else ():
                if name in _GROUPS:
                    yield _create_finding(document, f"{path}.metadata.{part}[{name}]", "job.group", name=name)
        for error in find_forbidden(template.get("spec"), f"{path}.spec", limits.allowed):
            yield _locate(document, error)


def _queues(obj: Object) -> Iterator[tuple[str, str]]:
    """Yields the path and name of every queue in the job."""
    spec = _mapping(obj.get("spec"))
    for path, policy in (
        ("spec.schedulingPolicy", spec.get("schedulingPolicy")),
        ("spec.runPolicy.schedulingPolicy", _mapping(spec.get("runPolicy")).get("schedulingPolicy")),
    ):
        queue = _mapping(policy).get("queue")
        if queue:
            yield f"{path}.queue", str(queue)
    places = [("metadata", meta(obj)), *((f"{p}.metadata", _mapping(t.get("metadata"))) for p, t in templates_in(obj))]
    for path, metadata in places:
        for part in ("annotations", "labels"):
            for name in (QUEUE, KUEUE_QUEUE):
                queue = _mapping(metadata.get(part)).get(name)
                if queue:
                    yield f"{path}.{part}[{name}]", str(queue)


def _secret_names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _secret_names(item)
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if name in ("secretKeyRef", "secretRef", "secret") and isinstance(inner, Mapping):
            yield str(inner.get("secretName") or inner.get("name") or "")
        else:
            yield from _secret_names(inner)


def _locate(document: Document, error: FieldError) -> ManifestFinding:
    return ManifestFinding(
        document.line(error.field), error.field, error.message, error.code, dict(error.arguments or {})
    )


def _create_finding(document: Document, path: str, code: str, **arguments: Any) -> ManifestFinding:
    return ManifestFinding(document.line(path), path, format_message(code, arguments), code, arguments)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
