"""An Argo Workflow as a version: a graph where it says nothing that a graph cannot, else the manifest as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from muster.kube.objects import Object, spec_of
from muster.platform.graphs.context import Context
from muster.platform.graphs.importing_steps import Step, Unmapped, only, read_step
from muster.platform.graphs.manifest import manifest_problems, workflow_in
from muster.platform.graphs.messages import Problem, problem
from muster.platform.graphs.model import FORMAT, Document
from muster.platform.graphs.problems import errors, problems
from muster.platform.graphs.verbatim import escape_tags

_SPEC = ("entrypoint", "arguments", "templates", "volumes")
_TASK = ("name", "template", "depends", "dependencies", "arguments")


class Imported(NamedTuple):
    document: Document | None
    """None if the manifest is no Workflow that could run."""
    problems: list[Problem]
    """Errors without a document; else what a graph could not say, or says differently."""


def from_manifest(manifest: str, context: Context) -> Imported:
    wrong = manifest_problems(manifest, replace(context, allowed=None))
    if wrong:
        return Imported(None, wrong)
    try:
        document, notes = _graph(workflow_in(manifest), context)
    except Unmapped as reason:
        return _kept(manifest, context, str(reason))
    wrong = errors(problems(document, context))
    return _kept(manifest, context, str(wrong[0])) if wrong else Imported(document, notes)


def _kept(manifest: str, context: Context, reason: str) -> Imported:
    """As it is, if the author may have it run as it is."""
    wrong = manifest_problems(manifest, context)
    if wrong:
        return Imported(None, wrong)
    kept: Document = {"format": FORMAT, "type": "yaml", "manifest": manifest}
    return Imported(kept, [problem("manifest", "import.unmapped", detail=reason)])


def _graph(workflow: Object, context: Context) -> tuple[Document, list[Problem]]:
    spec = spec_of(workflow)
    only(spec, _SPEC, "spec")
    templates = {template.get("name"): template for template in spec.get("templates") or ()}
    entry = templates.get(spec.get("entrypoint"))
    if entry is None:
        raise Unmapped(f'spec.entrypoint: there is no template "{spec.get("entrypoint")}"')
    tasks = _tasks(entry)
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    steps: dict[str, Step] = {}
    for task in tasks:
        only(task, _TASK, f"task {task.get('name')}")
        template = templates.get(task.get("template"))
        if template is None:
            raise Unmapped(f'task {task.get("name")}: there is no template "{task.get("template")}"')
        alone = sum(other.get("template") == task.get("template") for other in tasks) == 1
        steps[task["name"]] = read_step(template, task, volumes, context, names_itself=alone)
    names = {task: step.node["name"] for task, step in steps.items()}
    document: Document = {"format": FORMAT, "parameters": _parameters(spec), "nodes": [], "edges": []}
    for task in tasks:
        step = steps[task["name"]]
        step.connect(task.get("arguments") or {}, steps)
        document["nodes"].append(step.node)
        document["edges"] += [{"from": names[parent], "to": step.node["name"]} for parent in _parents(task, names)]
    notes = [problem("", "import.changed", step=s.node["name"], detail=n) for s in steps.values() for n in s.notes]
    return {name: value for name, value in document.items() if value != []}, notes


def _tasks(entry: Mapping[str, Any]) -> list[Object]:
    if "dag" not in entry:
        if "steps" in entry:
            raise Unmapped(f"template {entry['name']}: steps have no place in a graph")
        return [{"name": entry["name"], "template": entry["name"]}]
    only(entry, ("name", "dag"), f"template {entry['name']}")
    only(entry["dag"], ("tasks",), f"template {entry['name']}.dag")
    return list(entry["dag"].get("tasks") or ())


def _parents(task: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Those that have to succeed, all of them: an edge says no more."""
    if not task.get("depends"):
        return list(task.get("dependencies") or ())
    parents = [word.strip() for word in str(task["depends"]).split("&&")]
    if not set(parents) <= set(names):
        raise Unmapped(f'task {task["name"]}: depends "{task["depends"]}" says more than an edge can')
    return parents


def _parameters(spec: Mapping[str, Any]) -> list[Object]:
    arguments = spec.get("arguments") or {}
    only(arguments, ("parameters",), "spec.arguments")
    found = []
    for parameter in arguments.get("parameters") or ():
        only(parameter, ("name", "value", "description", "default"), f"spec.arguments.parameters {parameter['name']}")
        made: Object = {"name": parameter["name"]}
        if parameter.get("description"):
            made["description"] = str(parameter["description"])
        value = parameter.get("value", parameter.get("default"))
        if value is None:
            made["required"] = True
        elif value != "":
            made["default"] = str(value).replace(escape_tags("{{"), "{{")
        found.append(made)
    return found
