"""The nodes of a graph as templates and tasks of a Workflow."""

from __future__ import annotations

from typing import Any

from muster.kube.objects import Object
from muster.platform.graphs.bindings import BoundInputs, CompileContext, bind_inputs, container_env
from muster.platform.graphs.model import WORKSPACE, Node
from muster.platform.graphs.resources import QUEUE, mounts_of, node_selector_of, queue_of, resources_of
from muster.platform.graphs.template_parts import declared, retry_strategy, shell_command, task
from muster.platform.graphs.training_templates import training_tasks

_CODE = "module"
_SPACE = "workspace"


def tasks_and_templates(setting: CompileContext) -> tuple[list[Object], list[Object]]:
    tasks: list[Object] = []
    templates: list[Object] = []
    for node in setting.graph.nodes:
        names, bound = setting.tasks[node.name], bind_inputs(setting, node)
        parents = [setting.tasks[parent].last for parent in setting.graph.parents(node.name)]
        if node.kind == "training":
            more = training_tasks(setting, node, bound, parents)
            tasks += more.tasks
            templates += more.templates
            continue
        tasks.append(task(names.main, parents, bound))
        templates.append(_template(setting, node, bound))
    return tasks, templates


def _template(setting: CompileContext, node: Node, bound: BoundInputs) -> Object:
    context = setting.context
    template = declared(node, setting.tasks[node.name].main, bound, node.outputs) | retry_strategy(node)
    selector = node_selector_of(node.task, context)
    if selector:
        template["nodeSelector"] = selector
    queue = queue_of(node.task, context)
    if queue:
        template["metadata"] = {"annotations": {QUEUE: queue}}
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
    """The image's own entrypoint, each input as `--name=value`. It works in the image's own folder, so the workspace
    has to be made for it."""
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
    arguments = [f"--{given.name}=$({given.name})" for given in node.inputs]
    return {"volumes": volumes, "container": {**container, "args": arguments, "volumeMounts": mounts}}
