"""The variables that the steps or tasks of a template see, and steps resolved with them."""

from __future__ import annotations

import json
import posixpath
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.loops import is_loop
from muster.workflows.engine.node_tree import NodeTree, is_ended
from muster.workflows.engine.templates import ABSENT, to_text
from muster.workflows.lang.clock import Clock
from muster.workflows.lang.environment import evaluate_in
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_encoding import from_json, to_json
from muster.workflows.lang.govaluate import evaluate_when
from muster.workflows.lang.tags import mark_value, substitute, without_marks
from muster.workflows.model import Node, Outputs, Template

_REFERENCE = re.compile(r"""\b(?:steps|tasks)\b(?:\s*\.\s*([\w-]+)|\s*\[\s*\\?["']([^"'\\\]]+)\\?["']\s*\])?""")
_RESULT = re.compile(r"""\s*(?:\.|\?\.)\s*outputs\b\s*(?:\??\.\s*result\b|\[\\?["']result)""")
_INDEX = re.compile(r"\((\d+):")


class Scope:
    """Parameters and artifacts are separate: only parameters can be substituted into text. A parameter that is None is
    an output that was never produced."""

    __slots__ = ("artifacts", "parameters")

    def __init__(self, template: Template | None = None) -> None:
        self.parameters: dict[str, str | None] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        inputs = (template or {}).get("inputs") or {}
        for parameter in inputs.get("parameters") or ():
            if parameter.get("value") is not None:
                self.parameters[f"inputs.parameters.{parameter['name']}"] = without_marks(to_text(parameter["value"]))
        for artifact in inputs.get("artifacts") or ():
            self.artifacts[f"inputs.artifacts.{artifact['name']}"] = without_marks(artifact)

    def texts(self, variables: MutableMapping[str, Any]) -> Mapping[str, Any]:
        """Returns what tags see: the scope on top of the workflow's variables."""
        return ChainMap(self.parameters, variables)

    def values(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what an expression sees that may evaluate to an artifact."""
        return {**variables, **self.parameters, **self.artifacts}

    def include(self, other: Scope) -> None:
        self.parameters.update(other.parameters)
        self.artifacts.update(other.artifacts)

    def add_node(self, prefix: str, node: Node, tree: NodeTree) -> None:
        """Adds the results of a step or task; with retries, those of its last attempt."""
        node = last_attempt(node, tree) or node
        found = self.parameters
        found[f"{prefix}.id"] = node["id"]
        found[f"{prefix}.name"] = node["name"]
        found[f"{prefix}.status"] = node["phase"]
        for field, name in (("startedAt", "startedAt"), ("finishedAt", "finishedAt"), ("podIP", "ip")):
            if node.get(field):
                found[f"{prefix}.{name}"] = str(node.get(field))
        if node.get("hostNodeName"):
            found[f"{prefix}.hostNodeName"] = node["hostNodeName"]
        self.add_outputs(prefix, node.get("outputs"))

    def add_outputs(self, prefix: str, outputs: Outputs | None) -> None:
        if not outputs:
            return
        if prefix != "workflow":
            if outputs.get("result") is not None:
                self.parameters[f"{prefix}.outputs.result"] = outputs["result"]
            if outputs.get("exitCode") is not None:
                self.parameters[f"{prefix}.exitCode"] = outputs["exitCode"]
        for parameter in outputs.get("parameters") or ():
            if parameter.get("value") is not None:
                self.parameters[f"{prefix}.outputs.parameters.{parameter['name']}"] = to_text(parameter["value"])
        for artifact in outputs.get("artifacts") or ():
            self.artifacts[f"{prefix}.outputs.artifacts.{artifact['name']}"] = artifact

    def add_skipped(self, prefix: str, template: Template, *, with_artifacts: bool) -> None:
        """Adds the declared outputs of a node that did not run: their defaults, or None."""
        outputs = template.get("outputs") or {}
        for parameter in outputs.get("parameters") or ():
            default = (parameter.get("valueFrom") or {}).get("default")
            name = f"{prefix}.outputs.parameters.{parameter['name']}"
            self.parameters[name] = None if default is None else to_text(default)
        if with_artifacts:
            for artifact in outputs.get("artifacts") or ():
                self.artifacts[f"{prefix}.outputs.artifacts.{artifact['name']}"] = {}
        if outputs.get("result") is not None:
            self.parameters[f"{prefix}.outputs.result"] = None

    def add_loop(self, prefix: str, items: Iterable[Node]) -> None:
        """Adds the results of a loop's items as JSON lists. Raises ExpressionError."""
        nodes = sorted((n for n in items if not _is_extra(n)), key=_loop_index)
        if not nodes:
            return
        maps: list[dict[str, str]] = []
        lists: dict[str, list[str]] = {}
        results: list[Any] = []
        for node in nodes:
            outputs = node.get("outputs")
            if not outputs or node["phase"] != "Succeeded":
                continue
            if outputs.get("parameters"):
                maps.append({p["name"]: to_text(p.get("value", "")) for p in outputs["parameters"]})
                for name, text in maps[-1].items():
                    lists.setdefault(name, []).append(text)
            if outputs.get("result") is not None:
                results.append(_result(outputs["result"], node))
        self.parameters[f"{prefix}.outputs.result"] = json.dumps(results, ensure_ascii=False, separators=(",", ":"))
        self.parameters[f"{prefix}.outputs.parameters"] = to_json(maps)
        for name, texts in lists.items():
            self.parameters[f"{prefix}.outputs.parameters.{name}"] = join_results(texts)


def last_attempt(node: Node, tree: NodeTree) -> Node | None:
    """Returns the attempt that counts, of a node with retries that ran."""
    if node["type"] != "Retry" or (node.get("memoizationStatus") or {}).get("hit"):
        return None
    last = None
    for child in tree.children(node["id"]):
        if not (child.get("nodeFlag") or {}).get("hooked") or (child.get("nodeFlag") or {}).get("retried"):
            last = child
    return last


def mentioned_steps(text: str) -> frozenset[str] | None:
    """Returns the steps and tasks that a text (JSON) refers to as `steps.x` or `tasks['x']`; None if it may be any."""
    found = set()
    for match in _REFERENCE.finditer(text):
        name = match[1] or match[2]
        if name is None:
            return None
        found.add(name)
        if "-" in name:
            found.add(name.partition("-")[0])  # in an expression, this is a minus
    return frozenset(found)


def steps_with_used_results(template: Template) -> frozenset[str]:
    """Returns the steps or tasks of a template whose `outputs.result` is used."""
    text = json.dumps(template, ensure_ascii=False)
    return frozenset(_results(text)) if "outputs" in text and "result" in text else frozenset()


def _results(text: str) -> Iterator[str]:
    for match in _REFERENCE.finditer(text):
        name = match[1] or match[2]
        if name and _RESULT.match(text, match.end()):
            yield name


def _is_extra(node: Node) -> bool:
    flag = node.get("nodeFlag") or {}
    return bool(flag.get("hooked") or flag.get("retried")) or (not is_ended(node) and not node.get("daemoned"))


def _loop_index(node: Node) -> int:
    found = _INDEX.findall(node["name"])
    return int(found[-1]) if found else 0


def _result(text: str, node: Node) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return from_json(text)
    except ExpressionError as error:
        name = node["displayName"]
        message = f"the result of '{name}' is not valid JSON, so the loop has no list of results: {error.message}"
        raise ExpressionError(message) from None


def join_results(texts: list[str]) -> str:
    """Returns values as a JSON list: of maps and lists if all are such, else of strings."""
    try:
        found = [from_json(text) for text in texts]
        if all(isinstance(value, dict | list) for value in found):
            return to_json(found)
    except ExpressionError:
        pass
    return to_json(texts)


def merge_global_outputs(known: Outputs, outputs: Mapping[str, Any] | None) -> Outputs:
    """Returns the workflow's outputs with a node's added; the same object if nothing changes."""
    for field in ("parameters", "artifacts"):
        for output in (outputs or {}).get(field) or ():
            if output.get("globalName"):
                known = _with(known, field, output)
    return known


def apply_global_names(outputs: Outputs, template: Template) -> Outputs:
    """Returns a node's outputs with the global names that its template declares."""
    declared = template.get("outputs") or {}
    out: dict[str, Any] = {**outputs}
    for field in ("parameters", "artifacts"):
        known = {o["name"]: o["globalName"] for o in declared.get(field) or () if o.get("globalName")}
        if known and out.get(field):
            out[field] = [_named(o, known) for o in _listed(out[field])]
    return cast(Outputs, out)


def _named(output: dict[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    name = known.get(output["name"])
    return {**output, "globalName": name} if name else output


def _listed(value: Any) -> list[dict[str, Any]]:
    return list(value)


def _with(known: Outputs, field: str, output: Mapping[str, Any]) -> Outputs:
    name = output["globalName"]
    if field == "parameters":
        if output.get("value") is None:
            return known
        entry: dict[str, Any] = {"name": name, "value": output["value"]}
    else:
        entry = {f: v for f, v in output.items() if f not in ("globalName", "path")} | {"name": name}
    entries = _listed(known.get(field) or ())
    for index, old in enumerate(entries):
        if old["name"] == name:
            if old == entry:
                return known
            entries[index] = entry
            break
    else:
        entries.append(entry)
    return cast(Outputs, {**known, field: entries})


# Resolves the references of a step or task to earlier steps and tasks.


_REQUIRED = ("steps", "tasks")
_LATER = ("hooks", "inline")
_LOCATIONS = {"azure": "blob", "http": "url", "artifactory": "url", "hdfs": "path"}


def resolve_step(step: Mapping[str, Any], scope: Scope, variables: dict[str, Any], clock: Clock) -> dict[str, Any]:
    """Returns the step with its references resolved; if it does not run, only its `when`. Raises WorkflowError,
    ExpressionError."""
    texts = scope.texts(variables)
    out = dict(step)
    if step.get("when"):
        out["when"] = substitute(str(step["when"]), texts, required=_REQUIRED, clock=clock, mark=True)
        if not _may_run(out):
            return out
    later = {field: out.pop(field) for field in _LATER if field in out}
    arguments = out.get("arguments")
    if arguments and arguments.get("parameters"):
        marked = [_mark_absent(p, scope) for p in arguments["parameters"]]
        out["arguments"] = {**arguments, "parameters": marked}
    out = substitute(out, texts, required=_REQUIRED, clock=clock, mark=True)
    if "inline" in later:
        known = {name: value for name, value in texts.items() if value is not None}
        later["inline"] = substitute(later["inline"], known, allow_unresolved=True, clock=clock, mark=True)
    return {**_with_artifacts(out, scope, variables, clock), **later}


def resolve_arguments(
    arguments: Mapping[str, Any], scope: Scope, variables: dict[str, Any], clock: Clock
) -> dict[str, Any]:
    """Resolves the arguments of a hook; references that are not known yet stay."""
    out = dict(arguments)
    if arguments.get("parameters"):
        out["parameters"] = [_mark_absent(p, scope) for p in arguments["parameters"]]
    out = substitute(out, scope.texts(variables), required=(), clock=clock, mark=True)
    holder = _with_artifacts({"arguments": out}, scope, variables, clock, keep_optional=True)
    found: dict[str, Any] = holder["arguments"]
    return found


def resolve_outputs(template: Template, scope: Scope, variables: dict[str, Any], clock: Clock) -> Outputs | None:
    """Returns the outputs of a steps or dag template. Raises WorkflowError and ExpressionError."""
    declared = template.get("outputs") or {}
    outputs = Outputs()
    if declared.get("parameters"):
        outputs["parameters"] = [_resolve_output(p, scope, variables, clock) for p in declared["parameters"]]
    if declared.get("artifacts"):
        outputs["artifacts"] = []
        for artifact in declared["artifacts"]:
            try:
                found = resolve_artifact(artifact, scope, variables, clock)
            except ExpressionError as error:
                if artifact.get("optional") and "Unable to resolve" in error.message:
                    continue
                raise ExpressionError(
                    f"unable to resolve outputs from scope: {error.message}", error.text, error.at, error.hint
                ) from None
            if found is not None:
                outputs["artifacts"].append({**found, "name": artifact["name"], **_global_name(artifact)})
    return outputs or None


def resolve_artifact(
    artifact: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock
) -> dict[str, Any] | None:
    """Returns the artifact that `from` or `fromExpression` refers to, or None without either. Raises WorkflowError and
    ExpressionError."""
    expression, source = artifact.get("fromExpression"), artifact.get("from")
    if expression:
        found = evaluate_in(str(expression), scope.values(variables), clock)
        shown = str(expression)
    elif source:
        shown = str(source).removeprefix("{{").removesuffix("}}").strip()
        if shown not in scope.artifacts:
            raise ExpressionError(f'Unable to resolve: "{shown}"', str(source), 0)
        found = scope.artifacts[shown]
    else:
        return None
    if not isinstance(found, dict):
        raise WorkflowError(f"Variable {{{{{shown}}}}} is not an artifact")
    out = dict(found)
    if artifact.get("subPath"):
        sub = substitute(str(artifact["subPath"]), scope.texts({}), allow_unresolved=True, clock=clock)
        out = _sub_path(out, sub)
    return out


def _may_run(step: Mapping[str, Any]) -> bool:
    try:
        return evaluate_when(without_marks(str(step["when"])))
    except ExpressionError:
        if is_loop(step):
            return True  # it may refer to the item
        raise


def _mark_absent(parameter: Mapping[str, Any], scope: Scope) -> Mapping[str, Any]:
    value = parameter.get("value")
    if not isinstance(value, str) or not (value.startswith("{{") and value.endswith("}}")):
        return parameter
    name = value[2:-2].strip()
    absent = name in scope.parameters and scope.parameters[name] is None
    return {**parameter, "value": ABSENT} if absent else parameter


def _with_artifacts(
    step: dict[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock, *, keep_optional: bool = False
) -> dict[str, Any]:
    arguments = step.get("arguments")
    if not arguments or not arguments.get("artifacts"):
        return step
    artifacts = []
    for artifact in arguments["artifacts"]:
        try:
            found = resolve_artifact(artifact, scope, variables, clock)
        except (WorkflowError, ExpressionError):
            if not artifact.get("optional"):
                raise
            if keep_optional:
                artifacts.append(artifact)
            continue
        artifacts.append(artifact if found is None else {**mark_value(found), "name": artifact["name"]})
    return {**step, "arguments": {**arguments, "artifacts": artifacts}}


def _resolve_output(
    declared: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock
) -> dict[str, Any]:
    source = declared.get("valueFrom")
    if not source:
        raise WorkflowError(f"output parameter '{declared.get('name')}' must have a valueFrom")
    default = source.get("default")
    try:
        value = _output_value(source, scope, variables, clock)
    except ExpressionError:
        if default is None:
            raise
        value = default
    if value is None:
        value = default
    if value is None:
        raise WorkflowError(
            f'output parameter "{declared.get("name")}": "{source.get("parameter")}" is an absent optional '
            "(skipped/omitted node output with no default)"
        )
    return {**{f: v for f, v in declared.items() if f != "valueFrom"}, "value": without_marks(to_text(value))}


def _output_value(source: Mapping[str, Any], scope: Scope, variables: Mapping[str, Any], clock: Clock) -> Any:
    if source.get("expression"):
        text = str(source["expression"])
        value = evaluate_in(text, scope.values(variables), clock)
        if value is None:
            raise ExpressionError(f'failed to evaluate expression "{text}"', text, 0)
        return value
    written = str(source.get("parameter") or "")
    if not written:
        return ""
    name = written.removeprefix("{{").removesuffix("}}").strip()
    if name.startswith("="):
        return evaluate_in(name[1:], scope.values(variables), clock)
    if name in scope.parameters:
        return scope.parameters[name]
    if name in variables:
        return variables[name]
    raise ExpressionError(f'Unable to resolve: "{name}"', written, 0)


def _global_name(artifact: Mapping[str, Any]) -> dict[str, Any]:
    return {"globalName": artifact["globalName"]} if artifact.get("globalName") else {}


def _sub_path(artifact: dict[str, Any], sub: str) -> dict[str, Any]:
    """Returns the part of an artifact below a path."""
    for name, location in artifact.items():
        field = _LOCATIONS.get(name, "key")
        if isinstance(location, dict) and isinstance(location.get(field), str):
            return {**artifact, name: {**location, field: posixpath.join(location[field], sub.lstrip("/"))}}
    if artifact.get("optional"):
        return artifact
    raise WorkflowError(f"a subPath needs an artifact with a key: '{artifact.get('name')}' has none")
