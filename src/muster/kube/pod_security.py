"""What Pods of a namespace may do.

A namespace with the label `muster.dev/isolation: restricted` belongs to people who are not admins. Its Pods are
checked when they are stored and confined when they run, wherever they came from.

Here are the rules with their messages, what a namespace grants, and what labels and annotations may say. The fields of
Pods and other objects are in `pod_fields.py`. The policy looks at the Pod that will run. The platform uses the same
tables for early errors about graphs and manifests.

Labels do not prove that a Pod belongs to a run of the platform: any Pod may have them. What counts are the objects that
own the Pod, in its own namespace and with the uids that it names, up to a Workflow that the platform made. Users cannot
write ownerReferences, or labels and annotations of the platform, into objects of restricted namespaces.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from muster.kube.cluster import (
    BUILD_ENVIRONMENT_ANNOTATION,
    CONTAINERS_ANNOTATION,
    KEEP_FILES_ANNOTATION,
    PIP_INSTALL_ANNOTATION,
    STOP_ANNOTATION,
)
from muster.kube.objects import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    owners_of,
    split_api_version,
    uid_of,
)

ISOLATION_LABEL: Final = "muster.dev/isolation"
RESTRICTED: Final = "restricted"
PREFIX: Final = "muster.dev/"
"""Labels and annotations with this prefix belong to the platform and its controllers."""
RUN_LABEL: Final = f"{PREFIX}run"
TASK_LABEL: Final = f"{PREFIX}task"
"""On Workflows and jobs of a run, and their Pods: the id of the run, and the task that made them."""
GRANTS_ANNOTATION: Final = f"{PREFIX}grants"
"""On a Namespace: what its Pods may use of what is outside of it, as JSON. Only the platform writes it."""
METRICS_PATTERN_ANNOTATION: Final = f"{PREFIX}metrics-pattern"
"""On a job or a Pod: how metrics are found in its log lines."""
MOUNTS_ANNOTATION: Final = f"{PREFIX}read-only-paths"
"""On the Workflow of a run: host paths that its Pods may read, such as the code of modules, as a JSON list."""
MEMBER_ROLE: Final = "muster-member"
"""The ClusterRole of the users of a restricted namespace."""
WORKFLOW_LABEL: Final = "workflows.argoproj.io/workflow"
QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
DEFAULT_QUEUE: Final = "default"

_RUN_OBJECT = re.compile(r"run-([0-9a-z]{26})")
_ENVIRONMENT_KEY = re.compile(r"[0-9a-f]{32}")
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

    @classmethod
    def of(cls, where: str, rule: str, /, **arguments: str) -> Violation:
        return cls(where, rule, arguments)

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


def find_metadata_violations(metadata: Any, path: str, grants: PodGrants) -> list[Violation]:
    """The same for labels and annotations."""
    given = as_mapping(metadata)
    found = []
    for name, value in as_mapping(given.get("labels")).items():
        if str(name).startswith(PREFIX) and not (
            (name == RUN_LABEL and grants.run and value == grants.run) or (name == TASK_LABEL and grants.run)
        ):
            found.append(Violation.of(f"{path}.labels[{name}]", "label", name=str(name)))
    for name, value in as_mapping(given.get("annotations")).items():
        found += _annotation(str(name), value, f"{path}.annotations[{name}]", grants)
    strange = [each for each in given.get("finalizers") or () if each not in _FINALIZERS]
    if strange:
        found.append(Violation.of(f"{path}.finalizers", "owner", field="finalizers"))
    return found


def find_changed_run(old: Object, new: Object) -> list[Violation]:
    """What the platform wrote into a Workflow about its run cannot change later, as by `workflowMetadata`."""
    found = []
    if labels_of(old).get(RUN_LABEL) != labels_of(new).get(RUN_LABEL):
        found.append(Violation.of(f"metadata.labels[{RUN_LABEL}]", "label", name=RUN_LABEL))
    if annotations_of(old).get(MOUNTS_ANNOTATION) != annotations_of(new).get(MOUNTS_ANNOTATION):
        found.append(Violation.of(f"metadata.annotations[{MOUNTS_ANNOTATION}]", "annotation", name=MOUNTS_ANNOTATION))
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
            found.append(Violation.of(f"metadata.{part}[{name}]", rule, name=name))
    for name in ("ownerReferences", "finalizers"):
        added = [each for each in _list(new, name) if each not in _list(before, name)]
        if added and not (name == "finalizers" and set(map(str, added)) <= set(_FINALIZERS)):
            found.append(Violation.of(f"metadata.{name}", "owner", field=name))
    return found


def _list(obj: Object, name: str) -> list[Any]:
    value = as_mapping(obj.get("metadata")).get(name)
    return value if isinstance(value, list) else []


def check_queue(name: Any, path: str, grants: PodGrants) -> Iterator[Violation]:
    """A queue of a virtual cluster that the namespace may not use is refused."""
    if name and name != DEFAULT_QUEUE and grants.queues is not None and name not in grants.queues:
        yield Violation.of(path, "queue", name=str(name))


def _annotation(name: str, value: Any, path: str, grants: PodGrants) -> Iterator[Violation]:
    if name.startswith(PREFIX):
        check = _OUR_ANNOTATIONS.get(name)
        if check is None:
            yield Violation.of(path, "annotation", name=name)
        elif name == KEEP_FILES_ANNOTATION and (kernel := _kernel_outputs(value)):
            yield Violation.of(path, "output path", path=kernel)
        elif not check(value):
            yield Violation.of(path, "value", field=name)
    elif name.startswith(_PROFILES) and value not in ("runtime/default", "docker/default"):
        yield Violation.of(path, "setting", field=name)
    elif name == QUEUE_ANNOTATION:
        yield from check_queue(value, path, grants)


def _kernel_outputs(value: Any) -> str:
    """Returns the first output path of a Pod that belongs to the kernel, or ''."""
    return next((path for path in _output_paths(value) or () if is_kernel_path(posixpath.normpath(path))), "")


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


def is_kernel_path(path: str) -> bool:
    """Whether a normalized path belongs to the kernel."""
    return any(is_below(path, folder) for folder in ("/proc", "/sys", "/dev"))


def is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


_USERS_OWN = frozenset(
    {
        PIP_INSTALL_ANNOTATION,
        METRICS_PATTERN_ANNOTATION,
        f"{PREFIX}restart-scope",
        f"{PREFIX}longest-text",
        f"{PREFIX}node",
    }
)
"""Annotations with our prefix that users may write."""
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
    PIP_INSTALL_ANNOTATION: lambda value: isinstance(value, str),
    METRICS_PATTERN_ANNOTATION: lambda value: isinstance(value, str),
    # An environment is for the Pods of its namespace only, so a member may also build one that is not what it seems.
    BUILD_ENVIRONMENT_ANNOTATION: lambda value: (
        isinstance(value, str) and _ENVIRONMENT_KEY.fullmatch(value) is not None
    ),
    f"{PREFIX}script": lambda value: True,
    f"{PREFIX}attempt": _is_number,
    f"{PREFIX}restarts": lambda value: _json_object(value) is not None,
}
"""Annotations that controllers set on Pods, with the values that are safe from every user."""


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Returns a value of an object that need not be valid."""
    return value if isinstance(value, Mapping) else {}


Lookup: TypeAlias = Callable[[str, str], Object | None]
"""(resource, name) -> the object in the Pod's namespace."""

_WORKFLOW: Final = ("argoproj.io", "Workflow")
_LAUNCHER: Final = ("kubeflow.org", "MPIJob")
_MOST_LEVELS = 4


class PodOrigin(NamedTuple):
    run: str = ""
    """The id of the run; '' if the Pod belongs to none."""
    read_only: tuple[str, ...] = ()
    """Host paths that the platform lets the run read."""
    account: str = ""
    """The service account that the Pod's controller made for it."""


def find_origin(pod: Object, lookup: Lookup) -> PodOrigin:
    controller = controller_of(pod) or {}
    group = split_api_version(str(controller.get("apiVersion") or ""))[0]
    account = f"{controller.get('name')}-launcher" if (group, controller.get("kind")) == _LAUNCHER else ""
    workflow = _find_workflow(pod, lookup)
    if workflow is None:
        return PodOrigin(account=account)
    run = labels_of(workflow).get(RUN_LABEL, "")
    if not run or name_of(workflow) != f"run-{run}":
        return PodOrigin(account=account)
    return PodOrigin(run, _paths(annotations_of(workflow).get(MOUNTS_ANNOTATION)), account)


def _find_workflow(obj: Object, lookup: Lookup) -> Object | None:
    for _ in range(_MOST_LEVELS):
        owner = _owner(obj, lookup)
        if owner is None:
            return None
        if (split_api_version(str(owner.get("apiVersion")))[0], owner.get("kind")) == _WORKFLOW:
            return owner
        obj = owner
    return None


def _owner(obj: Object, lookup: Lookup) -> Object | None:
    """Returns the first owner that exists."""
    for reference in owners_of(obj):
        group = split_api_version(str(reference.get("apiVersion") or ""))[0]
        plural = f"{str(reference.get('kind') or '').lower()}s"
        found = lookup(f"{plural}.{group}" if group else plural, str(reference.get("name") or ""))
        if found is not None and uid_of(found) == reference.get("uid"):
            return found
    return None


def _paths(text: str | None) -> tuple[str, ...]:
    try:
        found = orjson.loads(text) if text else ()
    except orjson.JSONDecodeError:
        return ()
    return tuple(str(path) for path in found) if isinstance(found, list) else ()
