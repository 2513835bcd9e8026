"""What Pods of a namespace may do.

A namespace with the label `muster.dev/isolation: restricted` belongs to people who are not admins. Its Pods are
checked when they are stored and confined when they run, wherever they came from.

The policy is an allow-list: every field of a Pod is harmless, checked, or refused by name. It looks at the Pod that
will run. The platform uses the same tables for early errors about graphs and manifests.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from muster.kube.node_files import CONTAINERS_ANNOTATION, KEEP_FILES_ANNOTATION, STOP_ANNOTATION
from muster.kube.objects import Object, annotations_of, labels_of, name_of

ISOLATION_LABEL: Final = "muster.dev/isolation"
RESTRICTED: Final = "restricted"
PREFIX: Final = "muster.dev/"
"""Labels and annotations with this prefix belong to the platform and its controllers."""
RUN_LABEL: Final = f"{PREFIX}run"
TASK_LABEL: Final = f"{PREFIX}task"
"""On Workflows and jobs of a run, and their Pods: the id of the run, and the task that made them."""
GRANTS_ANNOTATION: Final = f"{PREFIX}grants"
"""On a Namespace: what its Pods may use of what is outside of it, as JSON. Only the platform writes it."""
MOUNTS_ANNOTATION: Final = f"{PREFIX}read-only-paths"
"""On the Workflow of a run: host paths that its Pods may read, such as the code of modules, as a JSON list."""
MEMBER_ROLE: Final = "muster-member"
"""The ClusterRole of the users of a restricted namespace."""
WORKFLOW_LABEL: Final = "workflows.argoproj.io/workflow"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE: Final = "default"

_RUN_OBJECT = re.compile(r"run-([0-9a-z]{26})")
_RUN_PART = re.compile(r"run-([0-9a-z]{26})(-.*)?", re.DOTALL)


def is_restricted(namespace: Object | None) -> bool:
    """Whether the Namespace object belongs to people who are not admins."""
    return namespace is not None and labels_of(namespace).get(ISOLATION_LABEL) == RESTRICTED


def is_run_secret(name: str) -> bool:
    """Whether the platform keeps the token and the secret variables of a run in a Secret of this name."""
    return _RUN_OBJECT.fullmatch(name) is not None


def run_in_name(name: str) -> str:
    """Returns the id of the run whose objects have such names: its Workflow, Secret, Pods, claims and scripts; or ''.
    Users must not take them, because controllers use an object that exists already."""
    found = _RUN_PART.fullmatch(name)
    return found[1] if found is not None else ""


def belongs_to_run(obj: Object) -> bool:
    """Whether an object belongs to a run of the platform, which manages it. It may hold or use secrets of the run."""
    labels = labels_of(obj)
    return RUN_LABEL in labels or any(map(is_run_secret, (name_of(obj), labels.get(WORKFLOW_LABEL, ""))))


RULES: Final[Mapping[str, tuple[str, str]]] = {
    "unknown": ("{field} is not known to the policy of this namespace", "leave it out"),
    "host": ("{field} gives Pods access to the host", "leave it out"),
    "privileged": ("a privileged container has full access to the host", "leave privileged out"),
    "capabilities": ("the capabilities {names} give access to the host", "leave add out"),
    "setting": ("{field} affects more than the Pod", "leave it out"),
    "value": ("the value of {field} is not allowed", "leave it out"),
    "account": ('Pods run as the service account "default", not as "{name}"', "leave {field} out"),
    "token": ("service account tokens cannot be mounted", "leave it out"),
    "node": ("nodeName bypasses the scheduler", "use a nodeSelector instead"),
    "priority": ('the priority class "{name}" is reserved for the cluster', "leave it out or use another"),
    "port": ("hostPort uses a port of the host", "leave it out; containerPort is enough"),
    "probe": ("host sends the probe to another machine", "leave it out to probe the Pod itself"),
    "path": (
        '"{path}" is not a storage root that you may use; you may use {known}',
        "to mount a folder below one of them, set subPath of the volumeMount; an admin can add storage roots",
    ),
    "no path": ('"{path}" is not a storage root that you may use', "ask an admin to add it"),
    "read only": ('"{name}" is read-only', "set readOnly: true"),
    "mount path": ('"{path}" cannot be a mount path', "use an absolute path outside of /proc, /sys and /dev"),
    "sub path": ('the subPath "{path}" leaves the volume', "use a path inside the volume"),
    "output path": ('"{path}" belongs to the kernel and cannot be an output', "write the output to another path"),
    "claim": (
        'the claim "{name}" is neither in your namespace nor shared with you',
        "create it, use a storage root, or ask an admin to share it",
    ),
    "volume name": (
        'the volume "{name}" is not reserved for this claim',
        "leave volumeName out, or ask an admin to set claimRef of the volume",
    ),
    "secret": (
        'the Secret "{name}" is neither in your namespace nor shared with you',
        "create it, or ask an admin to label one {label}={value}",
    ),
    "run secret": ('the Secret "{name}" belongs to another run', "use a Secret of your own"),
    "config map": (
        'the ConfigMap "{name}" is neither in your namespace nor shared with you',
        "create it, or ask an admin to label one {label}={value}",
    ),
    "volume": ("a {type} volume gives access beyond the Pod", "use emptyDir or a storage root"),
    "label": ("the label {name} is set by the platform", "leave it out"),
    "annotation": ("the annotation {name} is set by the platform", "leave it out"),
    "owner": ("{field} is set by the platform", "leave it out"),
    "queue": ('the queue "{name}" belongs to a virtual cluster that you may not use', "use another one"),
    "namespaces": ("{field} refers to Pods of other namespaces", "leave it out"),
    "service": ("{field} sends traffic beyond the namespace", "leave it out"),
}
"""The message of each rule, and what to do about it."""


class Violation(NamedTuple):
    field: str
    """As in `spec.volumes[0].hostPath.path`."""
    rule: str
    arguments: Mapping[str, str]

    def __str__(self) -> str:
        message, fix = RULES[self.rule]
        return f"{self.field}: {f'{message}; {fix}'.format_map(self.arguments)}"


@dataclass(frozen=True, slots=True)
class PodGrants:
    """What Pods may use."""

    paths: Mapping[str, bool] = field(default_factory=dict)
    """Host paths, exactly these; true for read-only ones."""
    claims: Mapping[str, bool] = field(default_factory=dict)
    """PersistentVolumeClaims with other than the usual rights: true for read-only ones."""
    secrets: frozenset[str] = frozenset()
    config_maps: frozenset[str] = frozenset()
    only_listed: bool = False
    """Whether claims, Secrets and ConfigMaps that are not listed are refused. Otherwise the namespace confines them."""
    queues: frozenset[str] | None = None
    """Queues besides the default one; None for all."""
    run: str = ""
    """The id of the run that the Pod belongs to."""
    accounts: frozenset[str] = frozenset({"", "default"})
    """Service accounts."""

    def to_annotation(self) -> str:
        """Returns the value of GRANTS_ANNOTATION."""
        granted = {"paths": self.paths, "claims": self.claims, "queues": sorted(self.queues or ())}
        return orjson.dumps(granted, option=orjson.OPT_SORT_KEYS).decode()


def read_grants(namespace: Object) -> PodGrants:
    """Returns what Pods of a restricted namespace may use. Without the annotation: nothing from outside."""
    return _parse_grants(annotations_of(namespace).get(GRANTS_ANNOTATION) or "")


def grants_for(
    namespace: Object, *, run: str = "", read_only: Iterable[str] = (), staged: str = "", account: str = ""
) -> PodGrants:
    """Returns what one Pod may use: what its namespace grants; its own run; host paths that the platform lets the run
    read; the folder with its own input artifacts; the service account that its controller made for it."""
    grants = read_grants(namespace)
    paths = {**dict.fromkeys(read_only, True), **grants.paths}
    if staged:
        paths[staged] = False
    accounts = grants.accounts | {account} if account else grants.accounts
    return replace(grants, run=run, paths=paths, accounts=accounts)


@lru_cache(maxsize=1000)
def _parse_grants(text: str) -> PodGrants:
    try:
        granted = orjson.loads(text) if text else {}
        return PodGrants(
            paths={str(path): bool(read_only) for path, read_only in (granted.get("paths") or {}).items()},
            claims={str(name): bool(read_only) for name, read_only in (granted.get("claims") or {}).items()},
            queues=frozenset(map(str, granted.get("queues") or ())),
        )
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return PodGrants(queues=frozenset())


def find_pod_violations(pod: Object, grants: PodGrants) -> list[Violation]:
    """Returns everything that a Pod of a restricted namespace must not have."""
    return [
        *find_metadata_violations(pod.get("metadata"), "metadata", grants),
        *find_spec_violations(pod.get("spec"), "spec", grants),
    ]


def find_spec_violations(spec: Any, path: str, grants: PodGrants) -> list[Violation]:
    """The same for the spec alone, which may also be invalid: the platform looks at templates before tags are
    replaced."""
    given = _mapping(spec)
    scope = _Scope(grants, _read_only_volumes(given, grants))
    return list(_walk(POD_FIELDS, given, path, scope))


def find_metadata_violations(metadata: Any, path: str, grants: PodGrants) -> list[Violation]:
    """The same for labels and annotations."""
    given = _mapping(metadata)
    found = []
    for name, value in _mapping(given.get("labels")).items():
        if str(name).startswith(PREFIX) and not (
            (name == RUN_LABEL and grants.run and value == grants.run) or (name == TASK_LABEL and grants.run)
        ):
            found.append(_violation(f"{path}.labels[{name}]", "label", name=str(name)))
    for name, value in _mapping(given.get("annotations")).items():
        found += _annotation(str(name), value, f"{path}.annotations[{name}]", grants)
    strange = [each for each in given.get("finalizers") or () if each not in _FINALIZERS]
    if strange:
        found.append(_violation(f"{path}.finalizers", "owner", field="finalizers"))
    return found


def find_claim_violations(claim: Object, holder: Mapping[str, Any]) -> list[Violation]:
    """Checks a PersistentVolumeClaim. `holder` is the claimRef of the volume that it names."""
    metadata = claim["metadata"]
    mine = (holder.get("namespace"), holder.get("name")) == (metadata.get("namespace"), metadata.get("name"))
    mine = mine and holder.get("uid") in (None, "", metadata.get("uid"))
    return list(_claim_spec(claim.get("spec"), "spec", reserved=mine))


def find_service_violations(service: Object) -> list[Violation]:
    spec = _mapping(service.get("spec"))
    found = [
        _violation(f"spec.{name}", "service", field=name)
        for name in ("externalIPs", "externalName", "loadBalancerIP", "loadBalancerClass", "healthCheckNodePort")
        if spec.get(name)
    ]
    if spec.get("type") not in (None, "ClusterIP"):
        found.append(_violation("spec.type", "service", field=f"type {spec.get('type')}"))
    return found


def find_pod_group_violations(group: Object, grants: PodGrants) -> list[Violation]:
    spec = _mapping(group.get("spec"))
    found = list(_queue(spec.get("queue"), "spec.queue", grants))
    found += _queue(annotations_of(group).get(QUEUE_ANNOTATION), f"metadata.annotations[{QUEUE_ANNOTATION}]", grants)
    found += _priority_class(spec.get("priorityClassName"), "spec.priorityClassName", _Scope(grants, {}))
    return found


def find_changed_run(old: Object, new: Object) -> list[Violation]:
    """What the platform wrote into a Workflow about its run cannot change later, as by `workflowMetadata`."""
    found = []
    if labels_of(old).get(RUN_LABEL) != labels_of(new).get(RUN_LABEL):
        found.append(_violation(f"metadata.labels[{RUN_LABEL}]", "label", name=RUN_LABEL))
    if annotations_of(old).get(MOUNTS_ANNOTATION) != annotations_of(new).get(MOUNTS_ANNOTATION):
        found.append(_violation(f"metadata.annotations[{MOUNTS_ANNOTATION}]", "annotation", name=MOUNTS_ANNOTATION))
    return found


def find_foreign_metadata(old: Object | None, new: Object, *, run: str = "") -> list[Violation]:
    """What users, and templates of their workflows, must not write into any object of a restricted namespace: labels
    and annotations of the platform, owners and finalizers. `run` is the run that writes, which may say so."""
    before, found = old or {}, []
    for part, rule, read in (("labels", "label", labels_of), ("annotations", "annotation", annotations_of)):
        was, now = read(before), read(new)
        for name in sorted({*was, *now}):
            if not name.startswith(PREFIX) or was.get(name) == now.get(name) or name in _USERS_OWN:
                continue
            if (run and (name, now.get(name)) == (RUN_LABEL, run)) or (run and name == TASK_LABEL):
                continue
            found.append(_violation(f"metadata.{part}[{name}]", rule, name=name))
    for name in ("ownerReferences", "finalizers"):
        added = [each for each in _list(new, name) if each not in _list(before, name)]
        if added and not (name == "finalizers" and set(map(str, added)) <= set(_FINALIZERS)):
            found.append(_violation(f"metadata.{name}", "owner", field=name))
    return found


def _list(obj: Object, name: str) -> list[Any]:
    value = _mapping(obj.get("metadata")).get(name)
    return value if isinstance(value, list) else []


class _Scope(NamedTuple):
    grants: PodGrants
    read_only: Mapping[str, str]
    """Volumes of the Pod that have to be mounted read-only, with the path or claim."""


Check: TypeAlias = Callable[[Any, str, _Scope], Iterator[Violation]]
Fields: TypeAlias = Mapping[str, Check | None]
"""Every field of a part of a Pod: a check, or None if it is harmless. A field that is not listed is refused."""


def _walk(fields: Fields, given: Mapping[str, Any], path: str, scope: _Scope) -> Iterator[Violation]:
    for name, value in given.items():
        check = fields.get(name, _unknown)
        if check is not None and value is not None:
            yield from check(value, f"{path}.{name}", scope)


def _unknown(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield _violation(path, "unknown", field=path.rpartition(".")[2])


def _within(fields: Fields) -> Check:
    """A check of the fields of a nested object."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        yield from _walk(fields, _mapping(value), path, scope)

    return check


def _each(fields: Fields) -> Check:
    """A check of the fields of every item of a list."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        for at, item in enumerate(value if isinstance(value, list) else ()):
            yield from _walk(fields, _mapping(item), f"{path}[{at}]", scope)

    return check


def _refused(rule: str) -> Check:
    """Refuses a field that is set."""

    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        if value not in (False, 0, "", [], {}):
            yield _violation(path, rule, field=path.rpartition(".")[2])

    return check


def _one_of(*allowed: str) -> Check:
    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        if value not in allowed:
            yield _violation(path, "setting", field=path.rpartition(".")[2])

    return check


def _account(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value not in scope.grants.accounts:
        yield _violation(path, "account", name=str(value), field=path.rpartition(".")[2])


def _node(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value:
        yield _violation(path, "node")


def _priority_class(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if str(value or "").startswith("system-"):
        yield _violation(path, "priority", name=str(value))


def _named(name: Any, path: str, kind: str, scope: _Scope) -> Iterator[Violation]:
    """A Secret or ConfigMap of the namespace. The Secret of a run is for its own Pods."""
    grants = scope.grants
    text = str(name or "")
    if grants.only_listed and text not in (grants.secrets if kind == "secret" else grants.config_maps):
        yield _violation(path, kind, name=text, label=f"{PREFIX}shared", value="everybody")
    elif kind == "secret" and is_run_secret(text) and text != f"run-{grants.run}":
        yield _violation(path, "run secret", name=text)


def _reference(kind: str, key: str = "name") -> Check:
    def check(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
        yield from _named(_mapping(value).get(key), f"{path}.{key}", kind, scope)

    return check


def _pull_secrets(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, secret in _items(value):
        yield from _named(secret.get("name"), f"{path}[{at}].name", "secret", scope)


def _profile(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    """A seccomp or AppArmor profile."""
    if _mapping(value).get("type") not in (None, "RuntimeDefault"):
        yield _violation(f"{path}.type", "setting", field=path.rpartition(".")[2])


def _capabilities(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    added = _mapping(value).get("add")
    if added:
        names = ", ".join(map(str, added)) if isinstance(added, list) else str(added)
        yield _violation(f"{path}.add", "capabilities", names=names)


def _privileged(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if value:
        yield _violation(path, "privileged")


def _affinity(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    """A rule about Pods of other namespaces keeps these away, too."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for when, terms in _mapping(_mapping(value).get(kind)).items():
            for at, term in _items(terms):
                where = f"{path}.{kind}.{when}[{at}]"
                inner = _mapping(term.get("podAffinityTerm"))
                for place, each in ((where, term), (f"{where}.podAffinityTerm", inner)):
                    for name in ("namespaces", "namespaceSelector"):
                        if each.get(name) is not None and each.get(name) != []:
                            yield _violation(f"{place}.{name}", "namespaces", field=name)


def _host_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    written, paths = str(_mapping(value).get("path") or ""), scope.grants.paths
    if written not in paths:
        known = ", ".join(sorted(paths))
        if known:
            yield _violation(f"{path}.path", "path", path=written, known=known)
        else:
            yield _violation(f"{path}.path", "no path", path=written)


def _claim(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    name = str(_mapping(value).get("claimName") or "")
    if scope.grants.only_listed and name not in scope.grants.claims:
        yield _violation(f"{path}.claimName", "claim", name=name)


def _ephemeral(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    template = _mapping(_mapping(value).get("volumeClaimTemplate"))
    where = f"{path}.volumeClaimTemplate"
    yield from find_metadata_violations(template.get("metadata"), f"{where}.metadata", scope.grants)
    yield from _claim_spec(template.get("spec"), f"{where}.spec", reserved=False)


def _claim_spec(spec: Any, path: str, *, reserved: bool) -> Iterator[Violation]:
    for name, value in _mapping(spec).items():
        if name == "volumeName" and value and not reserved:
            yield _violation(f"{path}.volumeName", "volume name", name=str(value))
        elif name in ("dataSource", "dataSourceRef", "volumeAttributesClassName") and value:
            yield _violation(f"{path}.{name}", "setting", field=name)
        elif name not in CLAIM_FIELDS:
            yield _violation(f"{path}.{name}", "unknown", field=name)


def _token(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield _violation(path, "token")


def _volume_type(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    yield _violation(path, "volume", type=path.rpartition(".")[2])


def _mounts(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, mount in _items(value):
        where = f"{path}[{at}]"
        yield from _walk(MOUNT_FIELDS, mount, where, scope)
        if mount.get("name") in scope.read_only and mount.get("readOnly") is not True:
            yield _violation(where, "read only", name=scope.read_only[mount["name"]])


def _devices(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, device in _items(value):
        if device.get("name") in scope.read_only:
            yield _violation(f"{path}[{at}]", "read only", name=scope.read_only[device["name"]])


def _mount_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    written = str(value)
    place = posixpath.normpath(written)
    odd = not written.startswith("/") or ".." in written.split("/") or not _PLAIN_PATH.fullmatch(written)
    if place == "/" or odd or (_is_kernel_path(place) and not _is_below(place, "/dev/shm")):  # noqa: S108
        yield _violation(path, "mount path", path=written)


def _sub_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    if str(value).startswith("/") or ".." in str(value).split("/"):
        yield _violation(path, "sub path", path=str(value))


def _message_path(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    place = posixpath.normpath(str(value))
    if _is_kernel_path(place) and place != "/dev/termination-log":
        yield _violation(path, "value", field=path.rpartition(".")[2])


def _ports(value: Any, path: str, scope: _Scope) -> Iterator[Violation]:
    for at, port in _items(value):
        for name in port:
            if name in ("hostPort", "hostIP") and port[name]:
                yield _violation(f"{path}[{at}].{name}", "port")
            elif name not in PORT_FIELDS:
                yield _violation(f"{path}[{at}].{name}", "unknown", field=name)


def _queue(name: Any, path: str, grants: PodGrants) -> Iterator[Violation]:
    if name and name != DEFAULT_QUEUE and grants.queues is not None and name not in grants.queues:
        yield _violation(path, "queue", name=str(name))


def _annotation(name: str, value: Any, path: str, grants: PodGrants) -> Iterator[Violation]:
    if name.startswith(PREFIX):
        check = _OUR_ANNOTATIONS.get(name)
        if check is None:
            yield _violation(path, "annotation", name=name)
        elif name == KEEP_FILES_ANNOTATION and (kernel := _kernel_outputs(value)):
            yield _violation(path, "output path", path=kernel)
        elif not check(value):
            yield _violation(path, "value", field=name)
    elif name.startswith(_PROFILES) and value not in ("runtime/default", "docker/default"):
        yield _violation(path, "setting", field=name)
    elif name == QUEUE_ANNOTATION:
        yield from _queue(value, path, grants)


def _kernel_outputs(value: Any) -> str:
    """Returns the first output path of a Pod that belongs to the kernel, or ''."""
    return next((path for path in _output_paths(value) or () if _is_kernel_path(posixpath.normpath(path))), "")


def _output_paths(value: Any) -> list[str] | None:
    """Returns the paths of a keep-files annotation; None if it is not valid."""
    wanted = _json_object(value)
    if wanted is None or not all(isinstance(paths, list) for paths in wanted.values()):
        return None
    found = [path for paths in wanted.values() for path in paths]
    return found if all(isinstance(path, str) and path.startswith("/") for path in found) else None


def _json_object(value: Any) -> dict[str, Any] | None:
    try:
        found = orjson.loads(value)
    except (orjson.JSONDecodeError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value) is not None


def _is_kernel_path(path: str) -> bool:
    return any(_is_below(path, folder) for folder in ("/proc", "/sys", "/dev"))


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


_USERS_OWN = frozenset({f"{PREFIX}restart-scope", f"{PREFIX}longest-text", f"{PREFIX}node"})
"""Annotations with our prefix that users may write."""
_PLAIN_PATH = re.compile(r'[^\x00-\x1f\x7f",:\\]+')
_FINALIZERS = ("foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking", "kubernetes.io/pvc-protection")
_PROFILES = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
    "seccomp.security.alpha.kubernetes.io/",
)
_OUR_ANNOTATIONS: Final[Mapping[str, Callable[[Any], bool]]] = {
    KEEP_FILES_ANNOTATION: lambda value: _output_paths(value) is not None,
    CONTAINERS_ANNOTATION: lambda value: _json_object(value) is not None,
    STOP_ANNOTATION: _is_number,
    f"{PREFIX}script": lambda value: True,
    f"{PREFIX}attempt": _is_number,
    f"{PREFIX}restarts": lambda value: _json_object(value) is not None,
}
"""Annotations that controllers set on Pods, with the values that are safe from every user."""

_HTTP: Final[Fields] = {"host": _refused("probe"), "httpHeaders": None, "path": None, "port": None, "scheme": None}
_TCP: Final[Fields] = {"host": _refused("probe"), "port": None}
PROBE_FIELDS: Final[Fields] = {
    "exec": _within({"command": None}),
    "failureThreshold": None,
    "grpc": _within({"port": None, "service": None}),
    "httpGet": _within(_HTTP),
    "initialDelaySeconds": None,
    "periodSeconds": None,
    "successThreshold": None,
    "tcpSocket": _within(_TCP),
    "terminationGracePeriodSeconds": None,
    "timeoutSeconds": None,
}
HOOK_FIELDS: Final[Fields] = {
    "exec": _within({"command": None}),
    "httpGet": _within(_HTTP),
    "sleep": None,
    "tcpSocket": _within(_TCP),
}
ENV_SOURCES: Final[Fields] = {
    "configMapKeyRef": _reference("config map"),
    "fieldRef": None,
    "resourceFieldRef": None,
    "secretKeyRef": _reference("secret"),
}
MOUNT_FIELDS: Final[Fields] = {
    "mountPath": _mount_path,
    "mountPropagation": _one_of("None"),
    "name": None,
    "readOnly": None,
    "recursiveReadOnly": None,
    "subPath": _sub_path,
    "subPathExpr": _sub_path,
}
PORT_FIELDS: Final = frozenset({"containerPort", "hostIP", "hostPort", "name", "protocol"})
_SHARED_SECURITY: Final[Fields] = {
    "appArmorProfile": _profile,
    "runAsGroup": None,
    "runAsNonRoot": None,
    "runAsUser": None,
    "seLinuxOptions": _refused("setting"),
    "seccompProfile": _profile,
    "windowsOptions": _refused("setting"),
}
CONTAINER_SECURITY_FIELDS: Final[Fields] = {
    **_SHARED_SECURITY,
    "allowPrivilegeEscalation": None,
    "capabilities": _capabilities,
    "privileged": _privileged,
    "procMount": _one_of("", "Default"),
    "readOnlyRootFilesystem": None,
}
POD_SECURITY_FIELDS: Final[Fields] = {
    **_SHARED_SECURITY,
    "fsGroup": None,
    "fsGroupChangePolicy": None,
    "seLinuxChangePolicy": None,
    "supplementalGroups": _refused("setting"),
    "supplementalGroupsPolicy": None,
    "sysctls": _refused("setting"),
}
CONTAINER_FIELDS: Final[Fields] = {
    "args": None,
    "command": None,
    "env": _each({"name": None, "value": None, "valueFrom": _within(ENV_SOURCES)}),
    "envFrom": _each({"configMapRef": _reference("config map"), "prefix": None, "secretRef": _reference("secret")}),
    "image": None,
    "imagePullPolicy": None,
    "lifecycle": _within({"postStart": _within(HOOK_FIELDS), "preStop": _within(HOOK_FIELDS), "stopSignal": None}),
    "livenessProbe": _within(PROBE_FIELDS),
    "name": None,
    "ports": _ports,
    "readinessProbe": _within(PROBE_FIELDS),
    "resizePolicy": None,
    "resources": _within({"claims": _refused("setting"), "limits": None, "requests": None}),
    "restartPolicy": None,
    "restartPolicyRules": None,
    "securityContext": _within(CONTAINER_SECURITY_FIELDS),
    "startupProbe": _within(PROBE_FIELDS),
    "stdin": None,
    "stdinOnce": None,
    "targetContainerName": None,
    "terminationMessagePath": _message_path,
    "terminationMessagePolicy": None,
    "tty": None,
    "volumeDevices": _devices,
    "volumeMounts": _mounts,
    "workingDir": None,
}
PROJECTED_FIELDS: Final[Fields] = {
    "configMap": _reference("config map"),
    "downwardAPI": None,
    "secret": _reference("secret"),
    "serviceAccountToken": _token,
    "clusterTrustBundle": _volume_type,
    "podCertificate": _volume_type,
}
VOLUME_FIELDS: Final[Fields] = {
    "name": None,
    "configMap": _reference("config map"),
    "downwardAPI": None,
    "emptyDir": None,
    "ephemeral": _ephemeral,
    "hostPath": _host_path,
    "image": None,
    "persistentVolumeClaim": _claim,
    "projected": _within({"defaultMode": None, "sources": _each(PROJECTED_FIELDS)}),
    "secret": _reference("secret", "secretName"),
    **dict.fromkeys(
        (
            "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume", "flocker",
            "gcePersistentDisk", "gitRepo", "glusterfs", "iscsi", "nfs", "photonPersistentDisk", "portworxVolume",
            "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
        ),
        _volume_type,
    ),
}  # fmt: skip
CLAIM_FIELDS: Final = frozenset({
    "accessModes", "dataSource", "dataSourceRef", "resources", "selector", "storageClassName",
    "volumeAttributesClassName", "volumeMode", "volumeName",
})  # fmt: skip
POD_FIELDS: Final[Fields] = {
    "activeDeadlineSeconds": None,
    "affinity": _affinity,
    "automountServiceAccountToken": None,
    "containers": _each(CONTAINER_FIELDS),
    "dnsConfig": None,
    "dnsPolicy": None,
    "enableServiceLinks": None,
    "ephemeralContainers": _each(CONTAINER_FIELDS),
    "hostAliases": None,
    "hostIPC": _refused("host"),
    "hostNetwork": _refused("host"),
    "hostPID": _refused("host"),
    "hostUsers": None,
    "hostname": None,
    "hostnameOverride": None,
    "imagePullSecrets": _pull_secrets,
    "initContainers": _each(CONTAINER_FIELDS),
    "nodeName": _node,
    "nodeSelector": None,
    "os": None,
    "overhead": _refused("setting"),
    "preemptionPolicy": None,
    "priority": _refused("setting"),
    "priorityClassName": _priority_class,
    "readinessGates": None,
    "resourceClaims": _refused("setting"),
    "resources": _within({"claims": _refused("setting"), "limits": None, "requests": None}),
    "restartPolicy": None,
    "runtimeClassName": _refused("setting"),
    "schedulerName": None,
    "schedulingGates": None,
    "securityContext": _within(POD_SECURITY_FIELDS),
    "serviceAccount": _account,
    "serviceAccountName": _account,
    "setHostnameAsFQDN": None,
    "shareProcessNamespace": None,
    "subdomain": None,
    "terminationGracePeriodSeconds": None,
    "tolerations": None,
    "topologySpreadConstraints": None,
    "volumes": _each(VOLUME_FIELDS),
    "workloadRef": _refused("setting"),
}


def _read_only_volumes(spec: Mapping[str, Any], grants: PodGrants) -> Mapping[str, str]:
    found = {}
    for _, volume in _items(spec.get("volumes")):
        path = str(_mapping(volume.get("hostPath")).get("path") or "")
        claim = _mapping(volume.get("persistentVolumeClaim"))
        name = str(claim.get("claimName") or "")
        if grants.paths.get(path):
            found[str(volume.get("name"))] = path
        if grants.claims.get(name) and not claim.get("readOnly"):
            found[str(volume.get("name"))] = name
    return found


def _violation(where: str, rule: str, /, **arguments: str) -> Violation:
    return Violation(where, rule, arguments)


def _items(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for at, item in enumerate(value if isinstance(value, list) else ()):
        yield at, _mapping(item)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
