"""Warns about fields that are accepted but have no effect here, and about likely mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from muster.kube.errors import Cause, closest_word
from muster.kube.objects import Object
from muster.kube.pod_validation import ignored_fields
from muster.workflows.artifacts.locations import kind_of
from muster.workflows.lang.environment import find_unknown_functions
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.tags import Tag, find_tags
from muster.workflows.lint.field_rules import CHECKED, tagged_strings
from muster.workflows.model import PIPELINE_ARGUMENT

_ROOTS = tuple(prefix.removesuffix(".") for prefix in CHECKED)
_ONE_MACHINE = "has no effect: everything runs on this machine"
_NO_PLUGINS = "will fail: it needs an executor plugin of Argo, which is not available here"
_OF_THE_SPEC = {
    "dnsConfig": "has no effect: names are resolved by this machine",
    "executor": "has no effect: there is no executor container",
    "imagePullSecrets": "has no effect unless images are run by podman or docker",
    "podDisruptionBudget": _ONE_MACHINE,
}


def find_warnings(obj: Object) -> list[Cause]:
    """Returns warnings for the author; nothing is rejected because of them."""
    spec = obj.get("spec") or {}
    if obj.get("kind") != "CronWorkflow":
        return list(_of_spec(spec, "spec", runs=obj.get("kind") == "Workflow"))
    return [*_old_schedule(spec), *_of_spec(spec.get("workflowSpec") or {}, "spec.workflowSpec", runs=True)]


def _of_spec(spec: Mapping[str, Any], path: str, *, runs: bool) -> Iterator[Cause]:
    """`runs`: the object runs as it is, so it has all its volumes; a template may get some from its user."""
    for field, message in _OF_THE_SPEC.items():
        if spec.get(field):
            yield Cause(f"{path}.{field}", message)
    yield from _of_both(spec, path)
    yield from _of_both(spec.get("templateDefaults") or {}, f"{path}.templateDefaults")
    by_name = {template.get("name"): template for template in spec.get("templates") or ()}
    volumes = {v.get("name") for v in spec.get("volumes") or ()}
    volumes |= {(c.get("metadata") or {}).get("name") for c in spec.get("volumeClaimTemplates") or ()}
    own_volumes = volumes if runs and not spec.get("podSpecPatch") else None
    resolved = _has_pipeline(spec)
    for where, template in _templates(spec, path):
        if template.get("plugin") is not None and not resolved:
            yield Cause(f"{where}.plugin", _NO_PLUGINS)
        yield from _of_template(template, where, own_volumes)
        for step_path, step in _steps(template, where):
            yield from _unused_arguments(step, by_name, step_path)
    yield from _of_tags(spec, path)


def _has_pipeline(spec: Mapping[str, Any]) -> bool:
    """Whether a Kubeflow pipeline decides what the tasks do; its importers are `plugin` templates."""
    parameters = (spec.get("arguments") or {}).get("parameters") or ()
    return any(parameter.get("name") == PIPELINE_ARGUMENT for parameter in parameters)


def _of_both(holder: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Checks what a spec and a template have in common."""
    if (holder.get("retryStrategy") or {}).get("affinity"):
        yield Cause(f"{path}.retryStrategy.affinity", _ONE_MACHINE)
    for old, new in (("mutex", "mutexes"), ("semaphore", "semaphores")):
        if (holder.get("synchronization") or {}).get(old) is not None:
            yield Cause(f"{path}.synchronization.{old}", f"Argo v4.0 no longer supports it; write {new}: [...]")


def _old_schedule(spec: Mapping[str, Any]) -> Iterator[Cause]:
    if spec.get("schedule"):
        yield Cause("spec.schedule", 'Argo v4.0 no longer supports it; write schedules: ["..."]')


def _templates(spec: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields all templates, including those inline in steps."""
    waiting = [(f"{path}.templates[{i}]", template) for i, template in enumerate(spec.get("templates") or ())]
    while waiting:
        where, template = waiting.pop(0)
        yield where, template
        waiting += [(f"{p}.inline", s["inline"]) for p, s in _steps(template, where) if s.get("inline") is not None]


def _steps(template: Mapping[str, Any], path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, group in enumerate(template.get("steps") or ()):
        for index, step in enumerate(group):
            yield f"{path}.steps[{number}][{index}]", step
    for index, task in enumerate((template.get("dag") or {}).get("tasks") or ()):
        yield f"{path}.dag.tasks[{index}]", task


def _of_template(template: Mapping[str, Any], path: str, volumes: set[Any] | None) -> Iterator[Cause]:
    yield from _of_both(template, path)
    if template.get("executor"):
        yield Cause(f"{path}.executor", _OF_THE_SPEC["executor"])
    for group in ("inputs", "outputs"):
        for index, artifact in enumerate((template.get(group) or {}).get("artifacts") or ()):
            kind = kind_of(artifact)
            if kind in ("hdfs", "plugin"):
                where = f"{path}.{group}.artifacts[{index}].{kind}"
                yield Cause(where, f"will fail: {kind} artifacts are not supported here; use s3, http or git")
    for field, container in _containers(template):
        where = f"{path}.{field}"
        yield from _ignored(container, where)
        if volumes is not None and not template.get("podSpecPatch"):
            known = volumes | {v.get("name") for v in template.get("volumes") or ()}
            yield from _unknown_volumes(container, known, where)


def _containers(template: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for field in ("container", "script"):
        if template.get(field) is not None:
            yield field, template[field]
    lists: list[tuple[str, Iterable[Mapping[str, Any]]]] = [
        ("containerSet.containers", (template.get("containerSet") or {}).get("containers") or ()),
        ("initContainers", template.get("initContainers") or ()),
        ("sidecars", template.get("sidecars") or ()),
    ]
    for field, containers in lists:
        for number, container in enumerate(containers):
            yield f"{field}[{number}]", container


def _ignored(container: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for field in ignored_fields({"spec": {"containers": [container]}}):
        rest = field.removeprefix("spec.containers[0]")
        yield Cause(f"{path}{rest}", "has no effect on processes on this machine")


def _unknown_volumes(container: Mapping[str, Any], known: set[Any], path: str) -> Iterator[Cause]:
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        name = mount.get("name") or ""
        if name not in known and "{{" not in name:
            near = closest_word(name, [str(k) for k in known])
            meant = f'; did you mean "{near}"?' if near else "; declare it under volumes"
            yield Cause(f"{path}.volumeMounts[{index}].name", f"there is no volume '{name}'{meant}")


def _unused_arguments(step: Mapping[str, Any], by_name: Mapping[Any, Mapping[str, Any]], path: str) -> Iterator[Cause]:
    template = step.get("inline") or by_name.get(step.get("template"))
    if template is None:
        return
    for group in ("parameters", "artifacts"):
        known = [str(p.get("name")) for p in (template.get("inputs") or {}).get(group) or ()]
        for index, argument in enumerate((step.get("arguments") or {}).get(group) or ()):
            name = argument.get("name") or ""
            if name and name not in known:
                near = closest_word(name, known)
                meant = f'; did you mean "{near}"?' if near else ""
                what = f"the template has no inputs.{group}.{name}"
                yield Cause(f"{path}.arguments.{group}[{index}].name", f"has no effect: {what}{meant}")


def _of_tags(spec: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for where, text in tagged_strings(spec, path):
        found = list(find_tags(text, allow_open=True))
        for tag in found:
            if tag.is_expression:
                yield from _of_expression(tag, where)
            elif near := _find_misspelled(tag.path):
                yield Cause(where, f"{{{{{tag.text}}}}} is not substituted; did you mean {{{{{near}}}}}?")
        after = text[found[-1].at :].partition("}}")[2] if found else text
        if "{{" in after:
            yield Cause(where, "these braces are never closed, so they are left as they are")


def _of_expression(tag: Tag, where: str) -> Iterator[Cause]:
    with suppress(ExpressionError):  # reported as a problem elsewhere
        for name, near in find_unknown_functions(tag.text).items():
            hint = f"; did you mean {near}?" if near else ""
            yield Cause(where, f"{{{{={tag.text}}}}} is not substituted: there is no function {name}{hint}")


def _find_misspelled(name: str) -> str:
    """`input.parameters.x`, `parameters.x`: close to a known name."""
    root, dot, rest = name.partition(".")
    if not dot or root in _ROOTS:
        return ""
    if root in ("parameters", "artifacts"):
        return f"inputs.{name}"
    near = closest_word(root, _ROOTS)
    return f"{near}.{rest}" if near else ""
