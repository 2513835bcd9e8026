"""Versions that are an Argo Workflow manifest: its parameters, its faults, and what users who are not admins may not
write into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from muster.kube.manifests import Document, ManifestError, load_manifests
from muster.kube.objects import Object, meta, spec_of
from muster.kube.pod_security import PodGrants
from muster.kube.schema_validation import validate
from muster.platform.graphs.context import Context
from muster.platform.graphs.model import Parameter
from muster.platform.graphs.templates import KUEUE_QUEUE, QUEUE
from muster.platform.messages import FieldError, field_error, make_finding
from muster.platform.pod_policy import EVERYBODY, SHARED, find_forbidden, find_forbidden_metadata
from muster.platform.records.workflows import Finding
from muster.workflows import lint
from muster.workflows.artifacts.locations import CREDENTIALS, is_local, location_problem
from muster.workflows.kinds import WORKFLOW

_POD = ("serviceAccountName", "hostNetwork", "securityContext", "imagePullSecrets", "priorityClassName")
_STORES = ("s3", "gcs", "oss", "azure", "hdfs", "artifactory", "plugin")
_OWN_KEYS: Final = ("{{workflow.name}}/", "{{workflow.uid}}/")
_REMOTE = re.compile(r"(https?|ssh|git)://|[\w.-]+@[\w.-]+:")
_ARGO_FIELDS = ("source", "dependencies", "mirrorVolumeMounts")
"""What containers of templates have besides Kubernetes' fields."""
_QUEUE_FIELDS = (QUEUE, KUEUE_QUEUE)
_FREE = ("labels", "annotations", "nodeSelector", "synchronization")
"""Where names are the author's own, or harmless."""


def check_workflow_policy(workflow: Object, allowed: PodGrants, closed_queues: Iterable[str] = ()) -> list[FieldError]:
    """Returns errors with paths in the Workflow. `closed_queues` belong to virtual clusters that the author may not
    use."""
    spec = spec_of(workflow)
    found = [*find_forbidden_metadata(meta(workflow), "metadata")]
    found += _workflow(spec, allowed)
    for path, template in _templates(spec):
        found += _template(template, path, spec, allowed)
    found += _references(spec, "spec", allowed)
    found += _queues(spec, "spec", frozenset(closed_queues))
    return list({each.field: each for each in reversed(found)}.values())[::-1]


def _workflow(spec: Mapping[str, Any], allowed: PodGrants) -> Iterator[FieldError]:
    pod = {name: spec[name] for name in _POD if name in spec}
    yield from find_forbidden(pod, "spec", allowed)
    for name in ("podMetadata", "workflowMetadata"):
        yield from find_forbidden_metadata(spec.get(name), f"spec.{name}")
    from_expressions = _mapping(_mapping(spec.get("workflowMetadata")).get("labelsFrom"))
    yield from find_forbidden_metadata({"labels": from_expressions}, "spec.workflowMetadata")
    yield from _patches(spec, "spec")
    yield from _accounts(spec, "spec")
    yield from _patches(_mapping(spec.get("artifactGC")), "spec.artifactGC")
    yield from _accounts({"executor": spec.get("artifactGC")}, "spec")
    if spec.get("artifactRepositoryRef"):
        yield field_error("spec.artifactRepositoryRef", "confined.repository")


def _template(
    template: Mapping[str, Any], path: str, spec: Mapping[str, Any], allowed: PodGrants
) -> Iterator[FieldError]:
    volumes = [*_items(spec.get("volumes"), "spec.volumes"), *_items(template.get("volumes"), f"{path}.volumes")]
    containers = [
        *((f"{path}.{kind}", template[kind]) for kind in ("container", "script") if template.get(kind)),
        *_items(template.get("initContainers"), f"{path}.initContainers"),
        *_items(template.get("sidecars"), f"{path}.sidecars"),
        *_items(_mapping(template.get("containerSet")).get("containers"), f"{path}.containerSet.containers"),
    ]
    pod = {name: template[name] for name in _POD if name in template}
    pod["volumes"] = [volume for _, volume in volumes]
    pod["containers"] = [
        {name: value for name, value in container.items() if name not in _ARGO_FIELDS} for _, container in containers
    ]
    for error in find_forbidden(pod, path, allowed):
        yield _relocate(error, path, {"volumes": volumes, "containers": containers})
    yield from find_forbidden_metadata(template.get("metadata"), f"{path}.metadata")
    yield from _patches(template, path)
    yield from _accounts(template, path)
    if template.get("resource"):
        yield field_error(f"{path}.resource", "confined.resource")
    if template.get("plugin"):
        yield field_error(f"{path}.plugin", "confined.setting", field="plugin")


def _relocate(error: FieldError, path: str, parts: Mapping[str, list[tuple[str, Any]]]) -> FieldError:
    """The error with its path in the template, not in the Pod that was made from it."""
    found = re.match(re.escape(path) + r"\.(volumes|containers)\[(\d+)\]", error.field)
    if found is None:
        return error
    where = parts[found[1]][int(found[2])][0] + error.field[found.end() :]
    return FieldError(where, error.message, error.code, error.arguments)


def _templates(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all templates with their paths, including inline templates of steps and tasks."""
    todo = [("spec.templateDefaults", _mapping(spec.get("templateDefaults")))]
    todo += _items(spec.get("templates"), "spec.templates")
    while todo:
        path, template = todo.pop(0)
        yield path, template
        tasks = _items(_mapping(template.get("dag")).get("tasks"), f"{path}.dag.tasks")
        for at, group in enumerate(template.get("steps") or ()):
            steps = group.get("steps") if isinstance(group, Mapping) else group
            tasks += _items(steps, f"{path}.steps[{at}]")
        todo += [(f"{where}.inline", _mapping(task["inline"])) for where, task in tasks if task.get("inline")]


def _patches(part: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if part.get("podSpecPatch"):
        yield field_error(f"{path}.podSpecPatch", "confined.setting", field="podSpecPatch")


def _accounts(part: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name = _mapping(part.get("executor")).get("serviceAccountName")
    if name not in (None, "", "default"):
        yield field_error(
            f"{path}.executor.serviceAccountName", "confined.account", name=str(name), field="serviceAccountName"
        )
    if part.get("automountServiceAccountToken"):
        yield field_error(f"{path}.automountServiceAccountToken", "confined.token")


def _references(value: Any, path: str, allowed: PodGrants) -> Iterator[FieldError]:
    """Checks Secrets, ConfigMaps and artifact stores wherever they are named."""
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _references(item, f"{path}[{at}]", allowed)
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        where = f"{path}.{name}"
        if name in _FREE or not isinstance(inner, (Mapping, list)):
            continue
        if isinstance(inner, Mapping):
            yield from _reference(name, inner, where, allowed)
        yield from _references(inner, where, allowed)


def _reference(name: str, inner: Mapping[str, Any], path: str, allowed: PodGrants) -> Iterator[FieldError]:
    named = str(inner.get("name") or "")
    if (name.endswith("Secret") or name in ("secretKeyRef", "secretRef")) and named not in allowed.secrets:
        yield field_error(f"{path}.name", "confined.secret", name=named, label=SHARED, value=EVERYBODY)
    elif name in ("configMapKeyRef", "configMapRef") and named not in allowed.config_maps:
        yield field_error(f"{path}.name", "confined.config map", name=named, label=SHARED, value=EVERYBODY)
    elif name in _STORES and not _is_own_store(name, inner):
        # It is in the platform's repository, so only what the run itself stored is allowed.
        others = [key for key in inner if key not in ("key", "blob", "createBucketIfNotPresent")]
        key = str(inner.get("key") or inner.get("blob") or "")
        if others or (key and not key.startswith(_OWN_KEYS)):
            yield field_error(path, "confined.store", prefix=_OWN_KEYS[0])
    elif name == "git" and inner.get("repo") and not _REMOTE.match(str(inner["repo"])):
        yield field_error(f"{path}.repo", "confined.repo", repo=str(inner["repo"]))


def _is_own_store(kind: str, settings: Mapping[str, Any]) -> bool:
    """Whether it has credentials of its own: fields that name Secrets, not fields that are merely there."""
    return not location_problem({kind: settings}) and kind in CREDENTIALS and not is_local({kind: settings})


def _queues(value: Any, path: str, closed: frozenset[str]) -> Iterator[FieldError]:
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from _queues(item, f"{path}[{at}]", closed)
    if not isinstance(value, Mapping):
        return
    for name, inner in value.items():
        if name in _QUEUE_FIELDS and inner in closed:
            yield field_error(f"{path}[{name}]", "confined.queue", name=str(inner))
        yield from _queues(inner, f"{path}.{name}", closed)


def _items(value: Any, path: str) -> list[tuple[str, Mapping[str, Any]]]:
    found = value if isinstance(value, list) else ()
    return [(f"{path}[{at}]", _mapping(item)) for at, item in enumerate(found)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


_SOURCE = "manifest"
_MOST_PROBLEMS = 101
"""How many are reported: finding the line of each takes time."""


def validate_manifest(manifest: str, context: Context) -> list[Finding]:
    """Checks that it is one Workflow that Argo would run and that the author may run. What it refers to is not looked
    up."""
    if not manifest.strip():
        return [make_finding("manifest", "manifest.missing")]
    try:
        documents = _load(manifest)
    except ManifestError as error:
        return [make_finding("manifest", "manifest.unreadable", detail=str(error))]
    if len(documents) != 1:
        return [make_finding("manifest", "manifest.kind", kind=f"list of {len(documents)} objects")]
    found = documents[0].object
    if found.get("kind") != WORKFLOW.kind or found.get("apiVersion") != WORKFLOW.api_version:
        return [make_finding("manifest", "manifest.kind", kind=f"{found.get('apiVersion')} {found.get('kind')}")]
    causes = (validate(found, WORKFLOW.schema) or lint.find_problems(found))[:_MOST_PROBLEMS]
    wrong = [(c.field, c.message, "manifest.invalid") for c in causes]
    if not wrong and context.allowed is not None:
        closed = [cluster.queue for cluster in context.clusters.values() if cluster.queue and not cluster.usable]
        wrong = [
            (e.field, e.message, "manifest.confined") for e in check_workflow_policy(found, context.allowed, closed)
        ]
    where = documents[0].where
    wrong = wrong[:_MOST_PROBLEMS]
    return [make_finding("manifest", code, detail=f"{where(path)}: {path}: {told}") for path, told, code in wrong]


def workflow_in(manifest: str) -> Object:
    """Returns the Workflow of a valid manifest."""
    return _load(manifest)[0].object


@lru_cache(maxsize=2)
def _load(manifest: str) -> list[Document]:
    """A new version is checked in several ways, and a large one takes half a second to parse. Raises ManifestError."""
    return load_manifests(manifest, _SOURCE)


def manifest_parameters(manifest: str) -> tuple[Parameter, ...]:
    """Returns its arguments, which a run may set."""
    found = []
    for parameter in (spec_of(workflow_in(manifest)).get("arguments") or {}).get("parameters") or ():
        value = parameter.get("value", parameter.get("default"))
        needed = value is None and not parameter.get("valueFrom")
        shown = None if value is None else str(value)
        found.append(Parameter(parameter["name"], str(parameter.get("description") or ""), shown, needed))
    return tuple(found)
