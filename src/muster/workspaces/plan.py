"""What becomes of a Notebook or a Tensorboard: pure functions from what is there to what has to be done.

A workspace has a Pod with a fixed name, a Service in front of it, and a Secret with the token that its server asks for.
All three belong to it and are deleted with it; its volumes do not.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import orjson

from muster.kube.objects import (
    Object,
    annotations_of,
    is_condition_true,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    timestamp,
)
from muster.kube.pod_security import is_below
from muster.workspaces.environments import EnvironmentStatus
from muster.workspaces.images import JUPYTER_PORT, TENSORBOARD_PORT
from muster.workspaces.kinds import (
    MANAGED_BY,
    NOTEBOOK,
    NOTEBOOK_LABEL,
    RESTART_ANNOTATION,
    TENSORBOARD_LABEL,
    LogSource,
    is_stopped,
    main_container,
    read_logs,
)

TOKEN_KEY: Final = "token"  # noqa: S105 (a name)
"""The key in the Secret of a workspace."""
HASH_ANNOTATION: Final = "notebooks.kubeflow.org/template-hash"
"""On the Pod: the template that it was made from. If it is another one now, the Pod is replaced."""
ENVIRONMENT_CONDITION: Final = "EnvironmentReady"
POD_CONDITION: Final = "PodCreated"

_OURS = ("muster.dev/", "kubectl.kubernetes.io/", "notebooks.kubeflow.org/", "notebooks.opendatahub.io/")
_FAILURES = frozenset({
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError", "StartError", "ImageNeedsCommand",
})  # fmt: skip

WorkspaceState: TypeAlias = Literal["starting", "running", "stopped", "failed", "deleting"]
Severity: TypeAlias = Literal["Normal", "Warning"]


class HostFolders(NamedTuple):
    """The folders of nodes that Pods of a namespace may mount."""

    is_restricted: bool = False
    roots: Mapping[str, bool] = {}
    """Only these, if the namespace is restricted; true for read-only ones."""


@dataclass(frozen=True, slots=True)
class Observed:
    pods: Sequence[Object]
    """Those that the workspace controls."""
    environment: EnvironmentStatus
    refused: str = ""
    """Why the cluster did not accept the Pod the last time; '' if it did."""


@dataclass(slots=True)
class Decision:
    status: Object
    create_pod: bool = False
    delete: list[Object] = field(default_factory=list)
    annotations: dict[str, str | None] = field(default_factory=dict)
    """Changes of the workspace's annotations."""
    events: list[tuple[Severity, str, str]] = field(default_factory=list)


def decide(workspace: Object, template_hash: str, seen: Observed, now: datetime) -> Decision:
    """Decides what to do about the Pod, and writes the status. The same for both kinds."""
    wanted = not is_stopped(workspace)
    decision = Decision({})
    restart = RESTART_ANNOTATION in annotations_of(workspace)
    current: Object | None = None
    for pod in seen.pods:
        outdated = annotations_of(pod).get(HASH_ANNOTATION) != template_hash
        ended = status_of(pod).get("phase") in ("Failed", "Succeeded")
        if is_deleting(pod):
            current = pod
        elif not wanted or outdated or ended or restart:
            decision.delete.append(pod)
            current = pod
            if ended:
                decision.events.append(("Warning", "PodEnded", f"The Pod ended and is replaced: {_ending(pod)}"))
        else:
            current = pod
    if restart:
        decision.annotations[RESTART_ANNOTATION] = None
    if wanted and current is None and seen.environment.state == "ready":
        decision.create_pod = True
    decision.status = write_status(workspace, current, seen, now)
    return decision


def write_status(workspace: Object, pod: Object | None, seen: Observed, now: datetime) -> Object:
    if workspace.get("kind") == NOTEBOOK.kind:
        return _notebook_status(workspace, pod, seen, now)
    return _tensorboard_status(workspace, pod, seen, now)


def _notebook_status(workspace: Object, pod: Object | None, seen: Observed, now: datetime) -> Object:
    """As Kubeflow's: the conditions of the Pod, and the state of its container."""
    before = status_of(workspace).get("conditions") or []
    conditions: list[Object] = []
    container: Object = {}
    if pod is not None:
        kept = ("type", "status", "reason", "message", "lastProbeTime", "lastTransitionTime")
        conditions = [
            {name: each[name] for name in kept if each.get(name)} for each in status_of(pod).get("conditions") or ()
        ]
        container = _container_status(workspace, pod).get("state") or {}
    elif not is_stopped(workspace):
        conditions = _waiting_conditions(before, seen, now)
    status: Object = {
        "conditions": conditions,
        "readyReplicas": int(is_ready(pod)),
        "containerState": container,
    }
    return _with_environment(status, seen.environment, is_stopped(workspace))


def _tensorboard_status(workspace: Object, pod: Object | None, seen: Observed, now: datetime) -> Object:
    """As Kubeflow's, which copies the conditions of a Deployment: Available or Progressing."""
    ready = is_ready(pod)
    state, reason, message = ("Available" if ready else "Progressing"), "", ""
    if is_stopped(workspace):
        state = "Stopped"
    elif seen.environment.state == "failed":
        state, reason, message = "ReplicaFailure", "EnvironmentFailed", seen.environment.message
    elif pod is None and seen.refused:
        state, reason, message = "ReplicaFailure", "FailedCreate", seen.refused
    before = (status_of(workspace).get("conditions") or [{}])[-1]
    same = (before.get("deploymentState"), before.get("message") or "") == (state, message)
    condition = {
        "deploymentState": state,
        "lastProbeTime": before.get("lastProbeTime") if same else timestamp(now),
        **({"reason": reason} if reason else {}),
        **({"message": message} if message else {}),
    }
    status: Object = {"conditions": [condition], "readyReplicas": int(ready)}
    return _with_environment(status, seen.environment, is_stopped(workspace))


def _waiting_conditions(before: Iterable[Object], seen: Observed, now: datetime) -> list[Object]:
    environment = seen.environment
    if environment.state != "ready":
        reason = {"failed": "EnvironmentFailed", "waiting": "Waiting"}.get(environment.state, "Installing")
        kind, message = ENVIRONMENT_CONDITION, environment.message
    elif seen.refused:
        kind, reason, message = POD_CONDITION, "FailedCreate", seen.refused
    else:
        return []
    known = next((each for each in before if each.get("type") == kind and each.get("reason") == reason), {})
    since = known.get("lastTransitionTime") or timestamp(now)
    return [{"type": kind, "status": "False", "reason": reason, "message": message, "lastTransitionTime": since}]


def _with_environment(status: Object, environment: EnvironmentStatus, stopped: bool) -> Object:
    if stopped or environment.state == "ready":
        return status
    shown = {
        "name": environment.name,
        "state": environment.state,
        "message": environment.message,
        "fraction": environment.fraction,
    }
    return {**status, "environment": shown}


def state_of(workspace: Object, pod: Object | None) -> tuple[WorkspaceState, str]:
    """Returns the state of a workspace, and why it is not running; '' if there is nothing to say."""
    if is_deleting(workspace):
        return "deleting", ""
    if is_stopped(workspace):
        return "stopped", "Stopping" if pod is not None else ""
    if pod is not None and not is_deleting(pod):
        if is_ready(pod):
            return "running", ""
        return _starting(workspace, pod)
    status = status_of(workspace)
    environment = status.get("environment") or {}
    if environment:
        return ("failed" if environment.get("state") == "failed" else "starting"), str(environment.get("message") or "")
    for condition in status.get("conditions") or ():
        if condition.get("reason") == "FailedCreate":
            return "failed", str(condition.get("message") or "")
    return "starting", ""


def _starting(workspace: Object, pod: Object) -> tuple[WorkspaceState, str]:
    container = _container_status(workspace, pod)
    waiting = (container.get("state") or {}).get("waiting") or {}
    ended = (container.get("lastState") or {}).get("terminated") or (container.get("state") or {}).get("terminated")
    if waiting.get("reason") in _FAILURES:
        told = str(waiting.get("message") or "")
        if ended:
            told = f"{told} (exit code {ended.get('exitCode')}) {ended.get('message') or ''}".strip()
        return "failed", f"{waiting['reason']}: {told}" if told else str(waiting["reason"])
    if ended and not (container.get("state") or {}).get("running"):
        return "failed", _ending(pod)
    for condition in status_of(pod).get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return "starting", str(condition.get("message") or "")
    return "starting", str(waiting.get("message") or waiting.get("reason") or "")


def is_ready(pod: Object | None) -> bool:
    return pod is not None and not is_deleting(pod) and is_condition_true(status_of(pod).get("conditions"), "Ready")


def _container_status(workspace: Object, pod: Object) -> Object:
    name = main_container(workspace).get("name") if workspace.get("kind") == NOTEBOOK.kind else None
    found = status_of(pod).get("containerStatuses") or []
    return next((each for each in found if each.get("name") == name), found[0] if found else {})


def _ending(pod: Object) -> str:
    status = status_of(pod)
    for container in status.get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return f"exit code {ended.get('exitCode')} {ended.get('message') or ended.get('reason') or ''}".strip()
    return str(status.get("message") or status.get("reason") or status.get("phase") or "")


def pod_name(workspace: Object) -> str:
    """A Notebook's Pod has the name that it has in Kubeflow, where a StatefulSet makes it."""
    if workspace.get("kind") == NOTEBOOK.kind:
        return f"{name_of(workspace)}-0"
    return f"{name_of(workspace)}-tensorboard-0"


def service_name(workspace: Object) -> str:
    name = name_of(workspace)
    return name if workspace.get("kind") == NOTEBOOK.kind else f"{name}-tensorboard"


def secret_name(workspace: Object) -> str:
    return f"{str(workspace['kind']).lower()}-{name_of(workspace)}-token"


def port_of(workspace: Object) -> int:
    """The port that the workspace's server listens on: the first that its container names, or the usual one."""
    if workspace.get("kind") != NOTEBOOK.kind:
        return TENSORBOARD_PORT
    ports = main_container(workspace).get("ports") or ()
    return int(ports[0]["containerPort"]) if ports else JUPYTER_PORT


def image_of(workspace: Object, tensorboard_image: str) -> str:
    if workspace.get("kind") != NOTEBOOK.kind:
        return tensorboard_image
    return str(main_container(workspace).get("image") or "")


def build_secret(workspace: Object, token: str) -> Object:
    metadata = _child(workspace, secret_name(workspace))
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {TOKEN_KEY: token}}


def build_service(workspace: Object) -> Object:
    """Kubeflow's port is 80, with a name that Istio understands."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _child(workspace, service_name(workspace)),
        "spec": {
            "selector": _selector(workspace),
            "ports": [{"name": f"http-{name_of(workspace)}"[:15].rstrip("-"), "port": 80,
                       "targetPort": port_of(workspace)}],
        },
    }  # fmt: skip


def template_hash(spec: Object) -> str:
    return sha256(orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


def build_pod(workspace: Object, spec: Object) -> Object:
    """`spec` comes from `notebook_pod_spec` or `tensorboard_pod_spec`."""
    metadata = _child(workspace, pod_name(workspace))
    template = (spec_of(workspace).get("template") or {}).get("metadata") or {}
    own = {**labels_of(workspace), **(template.get("labels") or {})}
    notes = {**annotations_of(workspace), **(template.get("annotations") or {})}
    metadata["labels"] = {**_passed_on(own), **metadata["labels"], **_selector(workspace)}
    metadata["annotations"] = {**_passed_on(notes), HASH_ANNOTATION: template_hash(spec)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def notebook_pod_spec(notebook: Object, fs_group: int | None = None) -> Object:
    """The template's spec, with what the server of the notebook needs to know. `fs_group` owns the files of its
    volumes, unless the template says otherwise: the user of Kubeflow's images is not root, and new volumes are."""
    spec: Object = dict((spec_of(notebook).get("template") or {}).get("spec") or {})
    chosen = main_container(notebook)
    containers = [
        _serving(each, notebook, "JUPYTER_TOKEN") if each is chosen else each for each in spec.get("containers") or ()
    ]
    spec["containers"] = containers
    spec["restartPolicy"] = "Always"
    if fs_group is not None and not spec.get("securityContext"):
        spec["securityContext"] = {"fsGroup": fs_group}
    return spec


def _serving(container: Object, notebook: Object, token_variable: str) -> Object:
    port = port_of(notebook)
    known = {each["name"] for each in container.get("env") or ()}
    added = [each for each in _variables(notebook, token_variable) if each["name"] not in known]
    served = {
        **container,
        "env": [*(container.get("env") or ()), *added],
        "ports": container.get("ports") or [{"name": "notebook-port", "containerPort": port, "protocol": "TCP"}],
    }
    if "readinessProbe" not in container:
        served["readinessProbe"] = _readiness(port)
    return served


def prefix_of(notebook: Object) -> str:
    """The path below which the notebook is served: `/`, or Kubeflow's NB_PREFIX if the container sets it."""
    if notebook.get("kind") != NOTEBOOK.kind:
        return "/"
    env = main_container(notebook).get("env") or ()
    prefix = next((str(each.get("value") or "") for each in env if each.get("name") == "NB_PREFIX"), "")
    return f"/{prefix.strip('/')}/" if prefix.strip("/") else "/"


def _variables(workspace: Object, token_variable: str) -> list[Object]:
    source = {"secretKeyRef": {"name": secret_name(workspace), "key": TOKEN_KEY}}
    return [
        {"name": token_variable, "valueFrom": source},
        {"name": "MUSTER_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def _readiness(port: int) -> Object:
    """An open port is all that servers of every kind have in common."""
    return {"tcpSocket": {"port": port}, "periodSeconds": 1, "failureThreshold": 3}


def tensorboard_pod_spec(tensorboard: Object, image: str, folders: HostFolders) -> Object:
    """Raises ValueError, with a message for the user, if a folder of its logs may not be mounted."""
    volumes: list[Object] = []
    mounts: list[Object] = []
    arguments: list[str] = []
    for number, source in enumerate(read_logs(tensorboard)):
        path = source.path
        if source.scheme in ("pvc", "path"):
            volume, inner = _volume(source, folders)
            name, where = f"logs-{number}", f"/logs/{number}"
            volumes.append({"name": name, **volume})
            mounts.append({"name": name, "mountPath": where, "readOnly": True})
            path = posixpath.join(where, inner) if inner else where
        arguments.append(f"{source.name}={path}")
    container: Object = {
        "name": "tensorboard",
        "image": image,
        "command": ["python3", "-c", files("muster.workspaces").joinpath("tensorboard_server.py").read_text()],
        "args": [str(TENSORBOARD_PORT), *arguments],
        "workingDir": "/tmp",  # noqa: S108 (the container's own)
        "env": [*_variables(tensorboard, "MUSTER_WORKSPACE_TOKEN"), {"name": "PYTHONUNBUFFERED", "value": "1"}],
        "ports": [{"name": "http", "containerPort": TENSORBOARD_PORT, "protocol": "TCP"}],
        "readinessProbe": _readiness(TENSORBOARD_PORT),
        "volumeMounts": mounts,
    }
    credentials = (spec_of(tensorboard).get("credentials") or {}).get("secretName")
    if credentials:
        container["envFrom"] = [{"secretRef": {"name": credentials}}]
    return {"containers": [container], "volumes": volumes, "restartPolicy": "Always"}


def _volume(source: LogSource, folders: HostFolders) -> tuple[Object, str]:
    """Returns the source of the volume, and the path in it."""
    if source.scheme == "pvc":
        return {"persistentVolumeClaim": {"claimName": source.root, "readOnly": True}}, source.path
    if not folders.is_restricted:
        return {"hostPath": {"path": source.path, "type": "Directory"}}, ""
    root = max((each for each in folders.roots if is_below(source.path, each)), key=len, default="")
    if not root:
        known = ", ".join(sorted(folders.roots)) or "none"
        raise ValueError(f'"{source.path}" is not below a storage root that you may use; you may use {known}')
    return {"hostPath": {"path": root, "type": "Directory"}}, source.path[len(root) :].strip("/")


def _child(workspace: Object, name: str) -> Object:
    return {
        "name": name,
        "namespace": namespace_of(workspace),
        "labels": {**MANAGED_BY, **_selector(workspace)},
        "ownerReferences": [owner_reference(workspace)],
    }


def _selector(workspace: Object) -> dict[str, str]:
    label = NOTEBOOK_LABEL if workspace.get("kind") == NOTEBOOK.kind else TENSORBOARD_LABEL
    return {label: name_of(workspace)}


def _passed_on(values: Mapping[str, Any]) -> dict[str, str]:
    """What a Pod inherits of its workspace: everything but what is about the workspace itself."""
    return {
        name: str(value)
        for name, value in values.items()
        if not name.startswith(_OURS) and not name.startswith("kubeflow-resource")
    }
