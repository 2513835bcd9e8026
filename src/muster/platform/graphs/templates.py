"""The nodes of a graph as templates and tasks of an Argo Workflow.

A plain node is a script, a module node a container, a training node a resource template that creates a training job
and waits for it. The Pods of a training job do not belong to the Workflow, so files cannot be handed to them as
artifacts. If a training node has file inputs, a task before it unpacks them into a volume of the run, and the replicas
mount them at their paths. If it has outputs, all replicas share one /tmp/workflow_space in that volume, and a task
after it collects the outputs from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from shlex import quote
from typing import Any, Final, NamedTuple

from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.kube.pod_security import METRICS_PATTERN_ANNOTATION, RUN_LABEL, TASK_LABEL
from muster.kube.quantity import multiply_resources
from muster.kube.schema_validation import validate
from muster.kube.selectors import parse_toleration
from muster.platform.graphs.bindings import (
    BoundInputs,
    CompileContext,
    annotations_for,
    bind_inputs,
    container_env,
    escape_dollars,
    escape_tags,
    from_input_as_json,
    is_changed_on_the_way,
    own_variables,
    platform_variables,
)
from muster.platform.graphs.context import AvailableCluster, AvailableRoot, Context
from muster.platform.graphs.control_flow import bind_item, task_fields
from muster.platform.graphs.model import (
    MONITOR_TASK,
    WORKSPACE,
    Mount,
    Node,
    Output,
    Role,
    Task,
    Training,
    parse_timeout,
)
from muster.platform.records.resources import QueueSystem, VirtualCluster
from muster.platform.resources import kueue
from muster.training.kinds.base import JobKind, KubeflowJobKind
from muster.training.registry import JOB_KINDS
from muster.workflows.executors.pod_spec import LONGEST_TEXT

MONITOR: Final[Mapping[str, str]] = {"cpu": "100m", "memory": "1000M"}
QUEUE = "scheduling.volcano.sh/queue-name"
KUEUE_QUEUE = kueue.QUEUE_LABEL
VOLCANO = "volcano"
"""The schedulerName of Volcano."""

_PLAIN = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")


def resources_of(task: Task, context: Context) -> dict[str, Any]:
    """The `resources` of a container: limits equal requests."""
    amounts = dict(MONITOR)
    if task.type == "compute":
        amounts = multiply_resources(context.clusters[task.cluster].sku, task.skus)
    return {"requests": amounts, "limits": dict(amounts)}


def placement_of(task: Task, context: Context) -> Object:
    """Returns the fields, of a Pod or of a template, that put it on the nodes of its virtual cluster."""
    if task.type != "compute":
        return {}
    cluster = context.clusters[task.cluster]
    return placement_on(cluster, cluster.queue, cluster.system)


def placement_on(
    cluster: AvailableCluster | VirtualCluster, queue: str = "", system: QueueSystem = "embedded"
) -> Object:
    placement: Object = {}
    if cluster.node_selector:
        placement["nodeSelector"] = dict(cluster.node_selector)
    tolerations = [toleration for taint in cluster.tolerations if (toleration := parse_toleration(taint))]
    if tolerations:
        placement["tolerations"] = tolerations
    if queue and system == "volcano":
        placement["schedulerName"] = VOLCANO
    if queue and system == "quota":
        placement["priorityClassName"] = queue
    return placement


def queue_metadata(queue: str, system: QueueSystem) -> dict[str, dict[str, str]]:
    """Returns the labels and annotations of a Pod that put it into its queue."""
    if not queue or system == "quota":
        return {}
    return {"labels": {KUEUE_QUEUE: queue}} if system == "kueue" else {"annotations": {QUEUE: queue}}


def metrics_annotations(node: Node) -> dict[str, str]:
    return {METRICS_PATTERN_ANNOTATION: node.metrics_pattern} if node.metrics_pattern else {}


def queue_of(task: Task, context: Context) -> tuple[str, QueueSystem]:
    """The name of the queue, '' for none, and what it belongs to."""
    if task.type != "compute":
        return "", "embedded"
    cluster = context.clusters[task.cluster]
    return cluster.queue, cluster.system


def mounts_of(storage: Iterable[Mount], context: Context) -> list[dict[str, Any]]:
    found = []
    for mount in storage:
        root = context.roots[mount.root]
        made: dict[str, Any] = {"name": volume_name(mount.root), "mountPath": mount.path or root.path}
        if mount.read_only or root.read_only:
            made["readOnly"] = True
        found.append(made)
    return found


def volumes_of(roots: Iterable[str], context: Context) -> list[dict[str, Any]]:
    """The volumes of these roots, each once, in the order of first use."""
    return [{"name": volume_name(name), **_source(context.roots[name])} for name in dict.fromkeys(roots)]


def volume_name(root: str) -> str:
    """Valid whatever the root is called."""
    plain = root if _PLAIN.fullmatch(root) else sha256(root.encode()).hexdigest()[:12]
    return f"storage-{plain}"


def _source(root: AvailableRoot) -> dict[str, Any]:
    if root.claim:
        return {"persistentVolumeClaim": {"claimName": root.claim}}
    return {"hostPath": {"path": root.host_path or root.path, "type": "Directory"}}


MOST_CHARACTERS = 999
"""The longest text output. A longer one makes the node fail with a message that names the output."""

_COMMAND = "MUSTER_COMMAND"


def task(name: str, parents: list[str], bound: BoundInputs | None = None, flow: Object | None = None) -> Object:
    """`flow`: whether and how often it runs."""
    made: Object = {"name": name, "template": name}
    if parents:
        made["depends"] = " && ".join(parents)
    made |= flow or {}
    arguments: Object = {}
    if bound is not None and bound.arguments:
        arguments["parameters"] = bound.arguments
    if bound is not None and bound.file_arguments:
        arguments["artifacts"] = bound.file_arguments
    return {**made, "arguments": arguments} if arguments else made


def declared(
    node: Node, name: str, bound: BoundInputs, outputs: tuple[Output, ...] = (), *, is_main: bool = True
) -> Object:
    """The common part of a node's templates: name, inputs and outputs."""
    template: Object = {"name": name}
    annotations = annotations_for(node, name, is_main=is_main)
    if any(output.type == "text" for output in outputs):
        annotations[LONGEST_TEXT] = str(MOST_CHARACTERS)
    if annotations:
        template["annotations"] = annotations
    inputs: Object = {}
    if bound.parameters or bound.hidden:
        inputs["parameters"] = [{"name": each} for each in (*bound.parameters, *bound.hidden)]
    if bound.files:
        inputs["artifacts"] = [{"name": each, "path": path} for each, path in bound.files]
    if inputs:
        template["inputs"] = inputs
    texts = [{"name": o.name, "valueFrom": {"path": o.path}} for o in outputs if o.type == "text"]
    files = [{"name": o.name, "path": o.path} for o in outputs if o.type == "file"]
    if texts or files:
        template["outputs"] = {
            **({"parameters": texts} if texts else {}),
            **({"artifacts": files} if files else {}),
        }
    return template


def retry_strategy(node: Node) -> Object:
    return {"retryStrategy": {"limit": str(node.retries), "retryPolicy": "Always"}} if node.retries else {}


def deadline(node: Node) -> Object:
    """The timeout of a Pod. Each attempt has a Pod of its own."""
    seconds = parse_timeout(node.timeout)
    return {"activeDeadlineSeconds": seconds} if seconds else {}


def shell_command(setting: CompileContext, command: str) -> tuple[str, list[Object]]:
    """Returns the shell text and the variables it needs. A command that Argo or Kubernetes would change is passed as a
    variable."""
    if not is_changed_on_the_way(command):
        return command, []
    if setting.run is None:
        return escape_tags(command), []
    return command_from_variable(setting, command)


def command_from_variable(setting: CompileContext, command: str) -> tuple[str, list[Object]]:
    return f'eval "${_COMMAND}"', [setting.literals.stored_variable(_COMMAND, command)]


_CONDITIONS = 6
"""The largest number of conditions of a job: Created, Running, Restarting, Suspended, and Succeeded or Failed."""


class WaitConditions(NamedTuple):
    """The conditions that a resource template waits for."""

    success: str
    failure: str


def find_job_kind(training: Training) -> JobKind | None:
    """Returns the first job kind of this name and API version, or None."""
    for job_kind in JOB_KINDS:
        for kind in (job_kind.kind, *job_kind.other_versions):
            if kind.kind == training.kind and training.api_version in ("", kind.api_version):
                return job_kind
    return None


def job_kinds() -> list[str]:
    return list(dict.fromkeys(job_kind.kind.kind for job_kind in JOB_KINDS))


def role_names(job_kind: JobKind) -> tuple[str, ...]:
    if isinstance(job_kind, KubeflowJobKind):
        return job_kind.roles
    fields = job_kind.kind.schema["properties"]["spec"]["properties"]
    return tuple(name for name, field in fields.items() if "template" in (field.get("properties") or {}))


def training_kinds() -> list[dict[str, Any]]:
    """Lists every kind of training job that a node can use, in every API version, with its roles."""
    return [
        {"kind": kind.kind, "apiVersion": kind.api_version, "roles": list(role_names(job_kind))}
        for job_kind in JOB_KINDS
        for kind in (job_kind.kind, *job_kind.other_versions)
    ]


def active_roles(training: Training) -> tuple[Role, ...]:
    """The roles that have members."""
    return tuple(role for role in training.roles if role.replicas > 0)


def waits_for_launcher(job_kind: JobKind, role: str) -> bool:
    """An MPI worker runs what the launcher's mpirun starts, not the node's command."""
    return job_kind.kind.kind == "MPIJob" and role == "Worker"


def training_job(
    training: Training,
    job_kind: JobKind,
    pods: Mapping[str, Object],
    metadata: Object,
    queue: str = "",
    policy: Object | None = None,
) -> Object:
    """Returns the manifest. `policy` is added to its run policy, if it has one. `pods` has the Pod template of each
    role with members. A member that fails fails the job, because the node says how often it is retried. The gang
    starts as a whole or not at all."""
    api_version = training.api_version or job_kind.kind.api_version
    members = active_roles(training)
    scheduling: Object = {"minAvailable": sum(role.replicas for role in members)}
    if queue:
        scheduling["queue"] = queue
    spec: Object
    if isinstance(job_kind, KubeflowJobKind):
        replicas = {
            role.name: {"replicas": role.replicas, "restartPolicy": "Never", "template": pods[role.name]}
            for role in members
        }
        spec = {
            "runPolicy": {"cleanPodPolicy": "Running", "schedulingPolicy": scheduling, **(policy or {})},
            job_kind.replica_specs: replicas,
        }
    else:
        spec = {"cleanPodPolicy": "Never", "schedulingPolicy": scheduling}
        for role in members:
            template = {**pods[role.name], "spec": {**pods[role.name]["spec"], "restartPolicy": "Never"}}
            spec[role.name] = {"replicas": role.replicas, "template": template}
    return {"apiVersion": api_version, "kind": training.kind, "metadata": metadata, "spec": spec}


def wait_conditions(job_kind: JobKind) -> WaitConditions:
    """A failed job has a completion time, too, so failure is checked first."""
    if not isinstance(job_kind, KubeflowJobKind):
        return WaitConditions("status.phase == Completed", "status.phase in (Failed, Aborted, Terminated)")
    terms = (f"status.conditions.{number}.type == Failed" for number in range(_CONDITIONS))
    return WaitConditions("status.completionTime", ",".join(terms))


def check_roles(training: Training, job_kind: JobKind) -> list[tuple[str, str]]:
    """Returns (role or '', message) for every fault that the job kind finds in these roles."""
    container = {"name": job_kind.container, "image": "image", "command": ["true"]}
    pods: dict[str, Object] = {role.name: {"spec": {"containers": [container]}} for role in training.roles}
    obj = training_job(training, job_kind, pods, {"name": "job"})
    causes = validate(obj, job_kind.kind.schema) or job_kind.validate(obj)
    return [(_role_in(cause.field, training.roles), cause.message) for cause in causes]


def _role_in(field: str, roles: Sequence[Role]) -> str:
    words: list[Any] = field.replace("[", ".").replace("]", "").split(".")
    return next((role.name for role in roles if role.name in words), "")


CLAIM = "workspace"
"""The volume of a run that training jobs share with the tasks before and after them."""

_STAGE = "/muster/inputs"
_CLAIM_SIZE = "10Gi"


class TasksAndTemplates(NamedTuple):
    tasks: list[Object]
    templates: list[Object]


def has_run_policy(job_kind: JobKind) -> bool:
    """Whether jobs of the kind can have a timeout."""
    return isinstance(job_kind, KubeflowJobKind)


def training_tasks(setting: CompileContext, node: Node, bound: BoundInputs, parents: list[str]) -> TasksAndTemplates:
    names, flow = setting.tasks[node.name], task_fields(setting, node)
    made = TasksAndTemplates([], [])
    if names.inputs:
        files = BoundInputs(file_arguments=bound.file_arguments, files=bound.files)
        made.tasks.append(task(names.inputs, parents, files, flow))
        made.templates.append(_unpacking(setting, node, files))
        parents = [names.inputs]
    texts = replace(bound, file_arguments=[], files=[])
    made.tasks.append(task(names.main, parents, texts, flow))
    made.templates.append(_job(setting, node, bound, texts))
    if names.outputs:
        made.tasks.append(task(names.outputs, [names.main], None, flow))
        made.templates.append(_collecting(setting, node))
    return made


def uses_claim(setting: CompileContext) -> bool:
    return any(_has_files(setting, node) for node in setting.graph.nodes)


def volume_claim(setting: CompileContext) -> Object:
    """Returns the template of the run's volume. If every training job with files has one replica, one Pod uses it at a
    time, so that any storage class does."""
    spec: Object = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": _CLAIM_SIZE}}}
    if setting.context.claim_class:
        spec["storageClassName"] = setting.context.claim_class
    elif setting.context.claim_class is None:
        spec["accessModes"] = ["ReadWriteOnce"]
    return {"metadata": {"name": CLAIM}, "spec": spec}


def nodes_that_share_files(setting: CompileContext) -> list[Node]:
    """Returns the training nodes whose replicas use the run's volume at the same time."""
    return [node for node in setting.graph.nodes if _has_files(setting, node) and _replicas(node) > 1]


def _has_files(setting: CompileContext, node: Node) -> bool:
    names = setting.tasks[node.name]
    return bool(names.inputs or names.outputs)


def _replicas(node: Node) -> int:
    return sum(role.replicas for role in node.training.roles) if node.training is not None else 0


def _job(setting: CompileContext, node: Node, bound: BoundInputs, texts: BoundInputs) -> Object:
    assert node.training is not None
    job_kind = find_job_kind(node.training)
    assert job_kind is not None
    name = setting.tasks[node.name].main
    labels = {TASK_LABEL: _task_label(node, name, texts)}
    labels |= {RUN_LABEL: setting.run.id} if setting.run is not None else {}
    queue, system = queue_of(node.task, setting.context)
    own, of_pods = dict(labels), dict(labels)
    if queue and system == "kueue":
        api_version = node.training.api_version or job_kind.kind.api_version
        (own if (api_version, node.training.kind) in kueue.JOBS else of_pods)[KUEUE_QUEUE] = queue
    pods = {role.name: _pod(setting, node, bound, role, job_kind, of_pods) for role in active_roles(node.training)}
    metadata = {"generateName": f"{name}-", "labels": own}
    scheduled = queue if system in ("embedded", "volcano") else ""
    manifest = training_job(node.training, job_kind, pods, metadata, scheduled, deadline(node))
    waiting = wait_conditions(job_kind)
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
    command = role.command or node.command
    source, more = shell_command(setting, command)
    if setting.run is not None and escape_dollars(source) != source:
        # Kubernetes would restore it twice: in the variable that holds the template for Argo's executor, and here.
        source, more = command_from_variable(setting, command)
    own = own_variables(setting, node)
    late = [{"name": each, "value": _Late(from_input_as_json(each))} for each in bound.parameters]
    container: Object = {
        "name": job_kind.container,
        "image": role.image or node.image,
        "workingDir": WORKSPACE,
        "env": [*own, *bound.env, *late, *platform_variables(setting.run), *more],
        "resources": resources_of(resources, context),
    }
    if role.command or not waits_for_launcher(job_kind, role.name):
        container["command"] = ["sh", "-c", escape_dollars(source)]
    mounts = [*mounts_of(node.storage, context), *_claim_mounts(setting, node, bound)]
    volumes = volumes_of((mount.root for mount in node.storage), context)
    if any(mount["name"] == CLAIM for mount in mounts):
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": f"{{{{workflow.name}}}}-{CLAIM}"}})
    spec: Object = {"containers": [container]}
    if mounts:
        container["volumeMounts"] = mounts
        spec["volumes"] = volumes
    spec |= placement_of(resources, context)
    annotations = metrics_annotations(node)
    return {"metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})}, "spec": spec}


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
    """A script that only moves files, in an image that the node needs anyway."""
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


def item_label(task: str, item: str) -> str:
    """Returns the task label of the Pods of one item of a loop."""
    return f"{task}.{sha256(item.encode()).hexdigest()[:_DIGEST]}"


def _task_label(node: Node, name: str, texts: BoundInputs) -> str:
    """Tells the jobs of a node apart, too, if it is a loop: what `item_label` says, as an expression."""
    if node.loop is None:
        return name
    item = texts.hidden[0] if texts.hidden else node.loop.variable
    digest = f"sprig.trunc({_DIGEST}, sprig.sha256sum(inputs.parameters['{item}']))"
    return _Late(f"{{{{=toJson('{name}.' + {digest})}}}}")


class _Late(str):
    """A tag that Argo replaces by a quoted string."""

    __slots__ = ()


def _with_inputs(manifest: Object) -> str:
    """The manifest as text, in which Argo will put the inputs, each as a quoted string."""
    # The mark cannot occur in the manifest: it is a digest of the manifest itself.
    mark = f"input-{sha256(repr(manifest).encode()).hexdigest()[:32]}"
    tags: dict[str, int] = {}
    text = dump(_mark_tags(manifest, mark, tags))
    for tag, number in tags.items():
        text = text.replace(f"{mark}-{number}-", tag)
    return text


def _mark_tags(value: Any, mark: str, tags: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _mark_tags(item, mark, tags) for key, item in value.items()}
    if isinstance(value, list):
        return [_mark_tags(item, mark, tags) for item in value]
    if isinstance(value, _Late):
        return f"{mark}-{tags.setdefault(value, len(tags))}-"
    return value


_DIGEST: Final = 16
_CODE = "module"
_SPACE = "workspace"


def tasks_and_templates(setting: CompileContext) -> tuple[list[Object], list[Object]]:
    tasks: list[Object] = []
    templates: list[Object] = []
    for node in setting.graph.nodes:
        names, bound = setting.tasks[node.name], bind_inputs(setting, node)
        bind_item(setting, node, bound)
        parents = [setting.tasks[parent].last for parent in setting.graph.parents(node.name)]
        if node.kind == "training":
            more = training_tasks(setting, node, bound, parents)
            tasks += more.tasks
            templates += more.templates
            continue
        tasks.append(task(names.main, parents, bound, task_fields(setting, node)))
        templates.append(_template(setting, node, bound))
    return tasks, templates


def _template(setting: CompileContext, node: Node, bound: BoundInputs) -> Object:
    context = setting.context
    template = declared(node, setting.tasks[node.name].main, bound, node.outputs) | retry_strategy(node)
    template |= deadline(node)
    template |= placement_of(node.task, context)
    metadata = queue_metadata(*queue_of(node.task, context))
    annotations = metadata.get("annotations", {}) | metrics_annotations(node)
    if annotations:
        metadata["annotations"] = annotations
    if metadata:
        template["metadata"] = metadata
    container: Object = {
        "image": node.image,
        "env": container_env(setting, node, bound),
        "resources": resources_of(node.task, context),
    }
    mounts = mounts_of(node.storage, context)
    if node.kind == "module":
        return template | _module(setting, node, container, mounts)
    source, more = shell_command(setting, node.command)
    script = {"command": ["sh"], "source": source, "workingDir": WORKSPACE, **container}
    script["env"] = [*container["env"], *more]
    if mounts:
        script["volumeMounts"] = mounts
    return {**template, "script": script}


def _module(setting: CompileContext, node: Node, container: Object, mounts: list[dict[str, Any]]) -> Object:
    """Runs the image's entrypoint with each input as `--name=value`. It runs in the image's folder, so the workspace is
    mounted for it."""
    assert node.module is not None
    module = setting.context.modules[node.module]
    volumes: list[Object] = [{"name": _SPACE, "emptyDir": {}}]
    mounts = [{"name": _SPACE, "mountPath": WORKSPACE}, *mounts]
    if module.entrypoint:
        container = {**container, "command": list(module.entrypoint)}
    if module.folder:
        volumes.append({"name": _CODE, "hostPath": {"path": module.folder, "type": "Directory"}})
        mounts.append({"name": _CODE, "mountPath": module.working_dir, "readOnly": True})
        container = {**container, "workingDir": module.working_dir}
    names = [given.name for given in node.inputs]
    if node.loop is not None:
        names.append(node.loop.variable)
    arguments = [f"--{name}=$({name})" for name in names]
    return {"volumes": volumes, "container": {**container, "args": arguments, "volumeMounts": mounts}}
