"""What is wrong with one node by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from posixpath import normpath
from typing import Any

from muster.platform.graphs import training
from muster.platform.graphs.context import Context
from muster.platform.graphs.messages import Problem, problem
from muster.platform.graphs.model import RESERVED_PREFIX, WORKSPACE, Node, Task
from muster.platform.graphs.schema import MOST_RETRIES
from muster.platform.graphs.shell import mentions, variables_in

_FIELDS = {
    "plain": ("module", "training"),
    "module": ("training",),
    "training": ("module",),
}
"""Of which other kinds of nodes fields are."""
_IMAGE = re.compile(r"[\w.\-/:@+]+", re.ASCII)
_OF_THE_MODULE = ("command", "image", "outputs")


def node_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Problem]:
    for field in _FIELDS[node.kind]:
        if written.get(field):
            yield problem(f"{path}.{field}", "kind.field", field=field, kind=node.kind)
    if not 0 <= node.retries <= MOST_RETRIES:
        yield problem(f"{path}.retries", "retries.range", retries=node.retries, most=MOST_RETRIES)
    yield from _task_problems(node.task, written.get("task") or {}, f"{path}.task", context)
    if node.kind == "module":
        yield from _module_problems(node, written, path, context)
    else:
        if node.kind == "training":
            yield from _training_problems(node, written, path, context)
        yield from _program_problems(node, path)
        yield from _output_problems(node, path)
    yield from _storage_problems(node, path, context)


def is_clean_path(path: str) -> bool:
    """Absolute, below /, and nothing in it that anybody would fill in."""
    if not path.startswith("/") or normpath(path) in ("/", "//") or ".." in path.split("/"):
        return False
    return path.isprintable() and "{{" not in path and "$" not in path


def _program_problems(node: Node, path: str) -> Iterator[Problem]:
    own = [role for role in node.training.roles if role.command or role.image] if node.training else []
    members = len(node.training.roles) if node.training else 0
    if not node.command.strip() and not (members and sum(bool(role.command) for role in own) == members):
        yield problem(f"{path}.command", "command.missing", name=node.name)
    if not node.image.strip() and not (members and sum(bool(role.image) for role in own) == members):
        yield problem(f"{path}.image", "image.missing", name=node.name)
    for image in dict.fromkeys([node.image, *(role.image or "" for role in own)]):
        if image.strip() and _IMAGE.fullmatch(image) is None:
            yield problem(f"{path}.image", "image.name", image=image)
    texts = [node.command, *(role.command or "" for role in own)]
    declared = {given.name for given in node.inputs} | {variable.name for variable in node.env}
    warned: set[str] = set()
    for text in texts:
        used, known = variables_in(text)
        for name in used:
            # Names in capitals are those of images, shells and frameworks: MASTER_ADDR, CUDA_VISIBLE_DEVICES.
            expected = name in declared or name in known or name.isupper() or name.startswith(RESERVED_PREFIX)
            if not expected and name not in warned:
                warned.add(name)
                yield problem(f"{path}.command", "command.undeclared", name=name)
    for index, given in enumerate(node.inputs):
        if any(texts) and not any(mentions(text, given.name) for text in texts):
            yield problem(f"{path}.inputs[{index}]", "input.unused", name=given.name)


def _output_problems(node: Node, path: str) -> Iterator[Problem]:
    places: dict[str, str] = {}
    for index, output in enumerate(node.outputs):
        where = f"{path}.outputs[{index}].path"
        if not is_clean_path(output.path):
            yield problem(where, "output.path", name=output.name, path=output.path)
            continue
        if node.kind == "training" and not normpath(output.path).startswith(f"{WORKSPACE}/"):
            yield problem(where, "output.training", name=output.name, path=output.path)
        place = normpath(output.path)
        if place in places:
            yield problem(where, "output.same-path", name=output.name, other=places[place])
        places.setdefault(place, output.name)


def _task_problems(task: Task, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Problem]:
    if task.type == "monitor":
        if written.get("cluster") or written.get("skus") is not None:
            yield problem(path, "task.monitor")
        return
    if task.skus < 1:
        yield problem(f"{path}.skus", "task.sku", skus=task.skus)
    usable = sorted(cluster.name for cluster in context.clusters.values() if cluster.usable)
    cluster = context.clusters.get(task.cluster)
    if not task.cluster:
        yield problem(f"{path}.cluster", "task.no-cluster", clusters=usable)
    elif cluster is None:
        yield problem(f"{path}.cluster", "task.cluster", cluster=task.cluster, clusters=usable)
    elif not cluster.usable:
        yield problem(f"{path}.cluster", "task.forbidden", cluster=task.cluster, clusters=usable)


def _storage_problems(node: Node, path: str, context: Context) -> Iterator[Problem]:
    usable = sorted(root.name for root in context.roots.values() if root.usable)
    places: set[str] = set()
    for index, mount in enumerate(node.storage):
        where = f"{path}.storage[{index}]"
        root = context.roots.get(mount.root)
        if root is None:
            yield problem(f"{where}.root", "storage.root", root=mount.root, roots=usable)
            continue
        if not root.usable:
            yield problem(f"{where}.root", "storage.forbidden", root=mount.root, roots=usable)
        if root.read_only and not mount.read_only:
            yield problem(f"{where}.readOnly", "storage.read-only", root=mount.root)
        place = normpath(mount.path or root.path)
        if mount.path and not is_clean_path(mount.path):
            yield problem(f"{where}.path", "storage.path", path=mount.path)
        elif place in ("/tmp", WORKSPACE):  # noqa: S108  (a container's own)
            yield problem(f"{where}.path", "storage.covers", path=place)
        elif place in places:
            yield problem(f"{where}.path", "storage.same-path", path=place)
        places.add(place)


def _module_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Problem]:
    for field in _OF_THE_MODULE:
        if written.get(field):
            yield problem(f"{path}.{field}", "module.field", field=field)
    if node.module is None:
        yield problem(f"{path}.module", "module.missing", name=node.name)
        return
    name, version = node.module
    module = context.modules.get(node.module)
    if module is None:
        versions = sorted(v for n, v in context.modules if n == name)
        if versions:
            yield problem(f"{path}.module.version", "module.version", module=name, version=version, versions=versions)
            return
        names = sorted({n for (n, _), known in context.modules.items() if known.usable})
        yield problem(f"{path}.module.name", "module.unknown", module=name, modules=names)
        return
    if not module.usable:
        yield problem(f"{path}.module", "module.forbidden", module=name, version=version)
    elif module.retired:
        yield problem(f"{path}.module", "module.retired", module=name, version=version)
    elif module.deprecated:
        yield problem(f"{path}.module", "module.deprecated", module=name, version=version)
    given = [each.name for each in node.inputs]
    for index, each in enumerate(given):
        if each not in module.inputs:
            yield problem(
                f"{path}.inputs[{index}]", "module.no-input", module=name, input=each, inputs=list(module.inputs)
            )
    for each in module.inputs:
        if each not in given:
            yield problem(f"{path}.inputs", "module.input", module=name, input=each)


def _training_problems(node: Node, written: Mapping[str, Any], path: str, context: Context) -> Iterator[Problem]:
    wanted = node.training
    if wanted is None:
        yield problem(f"{path}.training", "training.missing", name=node.name)
        return
    dialect = training.dialect_of(wanted)
    if dialect is None:
        shown = f"{wanted.api_version} {wanted.kind}".strip()
        yield problem(f"{path}.training.kind", "training.kind", kind=shown, kinds=training.kinds())
        return
    roles = list(training.roles_of(dialect))
    sound, seen = True, set[str]()
    for index, role in enumerate(wanted.roles):
        where = f"{path}.training.roles[{index}]"
        if role.name not in roles:
            yield problem(f"{where}.name", "training.role", kind=wanted.kind, role=role.name, roles=roles)
            sound = False
        elif role.name in seen:
            yield problem(f"{where}.name", "training.duplicate", role=role.name)
            sound = False
        seen.add(role.name)
        if role.task is not None:
            raw = written["training"]["roles"][index].get("task") or {}
            yield from _task_problems(role.task, raw, f"{where}.task", context)
    if not training.members_of(wanted):
        yield problem(f"{path}.training.roles", "training.empty", roles=roles)
    elif sound:
        for name, detail in training.role_problems(wanted, dialect):
            place = next((f"[{i}]" for i, role in enumerate(wanted.roles) if role.name == name), "")
            yield problem(f"{path}.training.roles{place}", "training.invalid", detail=detail)
