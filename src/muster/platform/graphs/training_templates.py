"""A training node: a task that makes a training job and waits for it.

The Pods of the job are not the workflow's, so files cannot be handed to them or taken from them. Where a training node
has file inputs, a task before it unpacks them into a volume of the run, and the replicas mount them at their paths.
Where it has outputs, all replicas share one /tmp/workflow_space, which is in that volume, too, and a task after it
collects the outputs from there.
"""

from __future__ import annotations

from hashlib import sha256
from shlex import quote
from typing import Any, NamedTuple

from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.platform.graphs import training
from muster.platform.graphs.bindings import (
    RUN_LABEL,
    TASK_LABEL,
    BoundInputs,
    CompileContext,
    escape_dollars,
    from_input_as_json,
    own_variables,
    platform_variables,
)
from muster.platform.graphs.model import MONITOR_TASK, WORKSPACE, Node, Role
from muster.platform.graphs.resources import mounts_of, node_selector_of, queue_of, resources_of, volumes_of
from muster.platform.graphs.template_parts import declared, retry_strategy, shell_command, task
from muster.training.kinds.base import JobKind

CLAIM = "workspace"
"""The volume of a run that training jobs and the tasks around them share."""

_STAGE = "/muster/inputs"


class TasksAndTemplates(NamedTuple):
    tasks: list[Object]
    templates: list[Object]


def training_tasks(setting: CompileContext, node: Node, bound: BoundInputs, parents: list[str]) -> TasksAndTemplates:
    names = setting.tasks[node.name]
    made = TasksAndTemplates([], [])
    if names.inputs:
        files = BoundInputs(file_arguments=bound.file_arguments, files=bound.files)
        made.tasks.append(task(names.inputs, parents, files))
        made.templates.append(_unpacking(setting, node, files))
        parents = [names.inputs]
    texts = BoundInputs(arguments=bound.arguments, parameters=bound.parameters, env=bound.env)
    made.tasks.append(task(names.main, parents, texts))
    made.templates.append(_job(setting, node, bound, texts))
    if names.outputs:
        made.tasks.append(task(names.outputs, [names.main]))
        made.templates.append(_collecting(setting, node))
    return made


def uses_claim(setting: CompileContext) -> bool:
    return any(names.inputs or names.outputs for names in setting.tasks.values())


def _job(setting: CompileContext, node: Node, bound: BoundInputs, texts: BoundInputs) -> Object:
    assert node.training is not None
    job_kind = training.job_kind_named(node.training)
    assert job_kind is not None
    name = setting.tasks[node.name].main
    labels = {TASK_LABEL: name} | ({RUN_LABEL: setting.run.id} if setting.run is not None else {})
    pods = {
        role.name: _pod(setting, node, bound, role, job_kind, labels) for role in training.members_of(node.training)
    }
    metadata = {"generateName": f"{name}-", "labels": labels}
    manifest = training.training_job(node.training, job_kind, pods, metadata, queue_of(node.task, setting.context))
    waiting = training.wait_conditions(job_kind)
    resource = {
        "action": "create",
        "setOwnerReference": True,
        "successCondition": waiting.success,
        "failureCondition": waiting.failure,
        "manifest": _with_inputs(manifest),
    }
    return declared(node, name, texts) | retry_strategy(node) | {"resource": resource}


def _pod(
    setting: CompileContext, node: Node, bound: BoundInputs, role: Role, job_kind: JobKind, labels: dict[str, str]
) -> Object:
    context, resources = setting.context, role.task or node.task
    source, more = shell_command(setting, role.command or node.command)
    own = own_variables(setting, node)
    late = [{"name": each, "value": _Late(each)} for each in bound.parameters]
    container: Object = {
        "name": job_kind.container,
        "image": role.image or node.image,
        "workingDir": WORKSPACE,
        "env": [*own, *bound.env, *late, *platform_variables(setting.run), *more],
        "resources": resources_of(resources, context),
    }
    if role.command or not training.waits_for_orders(job_kind, role.name):
        container["command"] = ["sh", "-c", escape_dollars(source)]
    mounts = [*mounts_of(node.storage, context), *_claim_mounts(setting, node, bound)]
    volumes = volumes_of((mount.root for mount in node.storage), context)
    if any(mount["name"] == CLAIM for mount in mounts):
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": f"{{{{workflow.name}}}}-{CLAIM}"}})
    spec: Object = {"containers": [container]}
    if mounts:
        container["volumeMounts"] = mounts
        spec["volumes"] = volumes
    selector = node_selector_of(resources, context)
    if selector:
        spec["nodeSelector"] = selector
    return {"metadata": {"labels": labels}, "spec": spec}


def _claim_mounts(setting: CompileContext, node: Node, bound: BoundInputs) -> list[dict[str, Any]]:
    folder = setting.tasks[node.name].main
    mounts: list[dict[str, Any]] = []
    if setting.tasks[node.name].outputs:
        mounts.append({"name": CLAIM, "mountPath": WORKSPACE, "subPath": f"{folder}/space"})
    return mounts + [
        {"name": CLAIM, "mountPath": path, "subPath": f"{folder}/inputs/{name}"} for name, path in bound.files
    ]


def _unpacking(setting: CompileContext, node: Node, files: BoundInputs) -> Object:
    names = setting.tasks[node.name]
    lines = []
    for name, path in files.files:
        lines += [f"rm -rf {_STAGE}/{name}", f"cp -a {quote(path)} {_STAGE}/{name}"]
    mount = {"name": CLAIM, "mountPath": _STAGE, "subPath": f"{names.main}/inputs"}
    return declared(node, names.inputs, files, is_main=False) | _script(setting, node, lines, mount)


def _collecting(setting: CompileContext, node: Node) -> Object:
    names = setting.tasks[node.name]
    lines = []
    for output in node.outputs:
        complaint = quote(f"the training job has not written {output.path}, the output {output.name}")
        lines.append(f"test -e {quote(output.path)} || {{ echo {complaint} >&2; exit 1; }}")
    mount = {"name": CLAIM, "mountPath": WORKSPACE, "subPath": f"{names.main}/space"}
    return declared(node, names.outputs, BoundInputs(), node.outputs, is_main=False) | _script(
        setting, node, lines, mount
    )


def _script(setting: CompileContext, node: Node, lines: list[str], mount: dict[str, Any]) -> Object:
    """One that only moves files, in the image that is there anyway."""
    assert node.training is not None
    image = node.image or next(role.image for role in node.training.roles if role.image)
    script = {
        "image": image,
        "command": ["sh", "-e"],
        "source": "\n".join(lines) + "\n",
        "resources": resources_of(MONITOR_TASK, setting.context),
        "volumeMounts": [mount],
    }
    return {"script": script}


class _Late(str):
    """The name of an input, in the place of its value."""


def _with_inputs(manifest: Object) -> str:
    """The manifest as text, in which Argo will put the inputs, each as a quoted string."""
    # A mark that stands nowhere in it: nobody can write the digest of what they are writing.
    mark = f"input-{sha256(repr(manifest).encode()).hexdigest()[:32]}"
    names: set[str] = set()
    text = dump(_marked(manifest, mark, names))
    for name in names:
        text = text.replace(f"{mark}-{name}-", from_input_as_json(name))
    return text


def _marked(value: Any, mark: str, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _marked(item, mark, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, mark, names) for item in value]
    if isinstance(value, _Late):
        names.add(value)
        return f"{mark}-{value}-"
    return value
