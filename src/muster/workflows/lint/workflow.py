"""Validates a Workflow, WorkflowTemplate or CronWorkflow by Argo's rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from muster.kube.errors import ApiError, Cause
from muster.kube.objects import Object, meta
from muster.kube.selectors import label_selector_from
from muster.kube.validation import validate_metadata
from muster.workflows.cron.schedule import ScheduleError, parse_schedule
from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_time import load_zone
from muster.workflows.lint.field_rules import Findings, Globals, check_names, duration_problem, expression_problem
from muster.workflows.lint.inputs_outputs import as_text, check_arguments, check_supplied, is_tag
from muster.workflows.lint.steps_and_dag import check_hooks
from muster.workflows.lint.templates import check_metrics, check_retry_strategy, check_synchronization, visit
from muster.workflows.lint.walk import Frame, Holder, Lookup, TemplateWalk

_LONGEST_CRON_NAME = 52


def check_cron(findings: Findings, obj: Object) -> None:
    """Checks the fields of a CronWorkflow besides its workflow spec."""
    name, spec = meta(obj).get("name") or "", obj.get("spec") or {}
    if len(name) > _LONGEST_CRON_NAME:
        message = f'cron workflow name "{name}" must not be more than {_LONGEST_CRON_NAME} characters long'
        findings.add("metadata.name", f"{message} (currently {len(name)}): the scheduled time is appended to it")
    schedules = [(f"spec.schedules[{index}]", text) for index, text in enumerate(spec.get("schedules") or ())]
    if spec.get("schedule"):
        schedules.append(("spec.schedule", spec["schedule"]))
        if spec.get("schedules"):
            findings.add("spec.schedule", "schedule and schedules are both set; keep schedules")
    if not schedules:
        findings.add("spec.schedules", 'cron workflow must have at least one schedule, such as ["0 2 * * *"]')
    for field, text in schedules:
        wrong = schedule_problem(text)
        if wrong:
            findings.add(field, f"cron schedule {text} is malformed: {wrong}")
    zone = spec.get("timezone") or ""
    try:
        load_zone(zone)
    except ExpressionError as error:
        findings.add("spec.timezone", f'invalid timezone "{zone}": {error.message}; write a name like Europe/Zurich')
    for field, expression in (
        ("spec.when", spec.get("when") or ""),
        ("spec.stopStrategy.expression", (spec.get("stopStrategy") or {}).get("expression") or ""),
    ):
        wrong = expression_problem(expression.removeprefix("{{=").removesuffix("}}")) if expression else ""
        if wrong:
            findings.add(field, wrong)


def schedule_problem(text: str) -> str:
    """Returns '' if the schedule can be parsed."""
    try:
        parse_schedule(text)
    except ScheduleError as error:
        return str(error)
    return ""


_LONGEST_NAME = 63
_KINDS = {
    "Workflow": "workflow",
    "WorkflowTemplate": "workflow template",
    "ClusterWorkflowTemplate": "cluster workflow template",
}
_ALWAYS_KNOWN = (
    "name", "namespace", "mainEntrypoint", "serviceAccountName", "uid", "status", "annotations", "annotations.json",
    "labels", "labels.json",
)  # fmt: skip
_POD_GC = ("OnPodCompletion", "OnPodSuccess", "OnWorkflowCompletion", "OnWorkflowSuccess")
_ARTIFACT_GC = ("OnWorkflowCompletion", "OnWorkflowDeletion", "Never")
_CLAIM_GC = ("OnWorkflowCompletion", "OnWorkflowSuccess")


def find_problems(obj: Object, lookup: Lookup | None = None, *, submitted: bool = False) -> list[Cause]:
    """Returns the problems of an object with a workflow spec, in the order of Argo's validation.

    Without `lookup`, references to other objects are assumed to be valid. `submitted`: it is about to run, so every
    argument needs a value.
    """
    kind = obj.get("kind") or ""
    findings = Findings()
    if kind == "CronWorkflow":
        check_cron(findings, obj)
        spec = (obj.get("spec") or {}).get("workflowSpec") or {}
        _Check(obj, spec, "spec.workflowSpec", findings, lookup, is_template=False, submitted=True).run()
    elif kind in _KINDS:
        name = meta(obj).get("name") or ""
        if len(name) > _LONGEST_NAME:
            message = f'{_KINDS[kind]} name "{name}" must not be more than {_LONGEST_NAME} characters long'
            findings.add("metadata.name", f"{message} (currently {len(name)})")
        is_template = kind != "Workflow"
        spec = obj.get("spec") or {}
        _Check(
            obj, spec, "spec", findings, lookup, is_template=is_template, submitted=submitted and not is_template
        ).run()
    return _each_once(findings.causes)


class _Check:
    def __init__(
        self,
        obj: Object,
        spec: Mapping[str, Any],
        path: str,
        findings: Findings,
        lookup: Lookup | None,
        *,
        is_template: bool,
        submitted: bool,
    ) -> None:
        self.obj = obj
        self.spec = spec
        self.path = path
        self.findings = findings
        self.is_template = is_template
        self.may_lack = not submitted
        self.everywhere = Globals(any_parameter=is_template)
        self.walk = TemplateWalk(self.everywhere, lookup)
        self.own = Holder("", spec, path, findings, spec.get("templateDefaults") or {})

    def run(self) -> None:
        check_names(self.findings, self.spec.get("templates") or (), f"{self.path}.templates")
        self._check_fields()
        reference = self.spec.get("workflowTemplateRef")
        if reference is None:
            self._run(self.own, self.spec)
            return
        field = f"{self.path}.workflowTemplateRef"
        if self.spec.get("templates"):
            message = "Templates is invalid field in spec if workflow referred WorkflowTemplate reference"
            self.findings.add(f"{self.path}.templates", f"{message}; remove one of the two")
            return
        name, cluster_scope = reference.get("name") or "", bool(reference.get("clusterScope"))
        if not name:
            self.findings.add(f"{field}.name", "resource name is required")
        elif not self.walk.can_look_up:
            check_arguments(self.findings, self._merged({}), f"{self.path}.arguments", may_lack=True)
        else:
            holder = self.walk.holder(name, cluster_scope, self.findings, field)
            if holder is None:
                plural = "clusterworkflowtemplates" if cluster_scope else "workflowtemplates"
                self.findings.add(f"{field}.name", f'{plural}.argoproj.io "{name}" not found')
            else:
                own = {field: value for field, value in self.spec.items() if value}
                self._run(holder, {**holder.spec, **own, "arguments": self._merged(holder.spec)})

    def _run(self, holder: Holder, spec: Mapping[str, Any]) -> None:
        """`spec` includes what comes from the template it refers to."""
        arguments = spec.get("arguments") or {}
        check_arguments(self.findings, arguments, f"{self.path}.arguments", may_lack=self.may_lack)
        self._add_globals(holder, arguments)
        root = Frame({}, self.path, holder, self.everywhere.values)
        entrypoint = spec.get("entrypoint") or ""
        if entrypoint:
            self._enter(holder, entrypoint, f"{self.path}.entrypoint", {} if self.is_template else arguments)
        elif not self.is_template:
            self.findings.add(f"{self.path}.entrypoint", f"spec.entrypoint is required{_one_of(holder.templates)}")
        if spec.get("onExit"):
            self.everywhere.names.add("workflow.failures")
            self.everywhere.any_artifact_output = _has_tagged_global(spec.get("templates") or ())
            self._enter(holder, spec["onExit"], f"{self.path}.onExit", self._arguments())
        check_hooks(self.walk, root, self.spec, self.path)
        for path, template in holder.templates.values():
            self.walk.run(visit, Frame(template, path, holder, self.everywhere.values))

    def _enter(self, holder: Holder, name: str, field: str, arguments: Mapping[str, Any]) -> None:
        """Checks a template that the spec names: its inputs come from the workflow's arguments."""
        found = holder.templates.get(name)
        if found is None:
            self.findings.add(
                field, f"template name '{name}' undefined{self.findings.suggestion(name, holder.templates)}"
            )
            return
        path, template = found
        values = dict(self.everywhere.values)
        if not self.is_template:
            check_supplied(self.findings, template, arguments, field, name, told=not self.may_lack)
            values |= _inputs(template, arguments)
        self.walk.run(visit, Frame(template, path, holder, values, is_entrypoint=True))

    def _arguments(self) -> Mapping[str, Any]:
        return self.spec.get("arguments") or {}

    def _merged(self, other: Mapping[str, Any]) -> dict[str, Any]:
        """The first of a name counts: ours come before theirs."""
        theirs, merged = other.get("arguments") or {}, {}
        for field in ("parameters", "artifacts"):
            by_name: dict[Any, Any] = {}
            for item in (*(self._arguments().get(field) or ()), *(theirs.get(field) or ())):
                by_name.setdefault(item.get("name"), item)
            merged[field] = list(by_name.values())
        return merged

    def _add_globals(self, holder: Holder, arguments: Mapping[str, Any]) -> None:
        names, values = self.everywhere.names, self.everywhere.values
        names.update(f"workflow.{name}" for name in _ALWAYS_KNOWN)
        parameters = arguments.get("parameters") or ()
        if parameters:
            names.update(("workflow.parameters", "workflow.parameters.json"))
        for parameter in parameters:
            name = f"workflow.parameters.{parameter.get('name')}"
            names.add(name)
            if parameter.get("value") is not None:
                values[name] = as_text(parameter["value"])
        own = self.obj.get("kind") != "CronWorkflow"
        sources = [meta(self.obj) if own else (self.obj.get("spec") or {}).get("workflowMetadata") or {}]
        sources += [spec.get("workflowMetadata") or {} for spec in (self.spec, holder.spec)]
        for source in sources:
            names.update(f"workflow.annotations.{key}" for key in source.get("annotations") or ())
            for field in ("labels", "labelsFrom"):
                names.update(f"workflow.labels.{key}" for key in source.get(field) or ())
        if not own:
            names.add("workflow.annotations.workflows.argoproj.io/scheduled-time")
            names.add("workflow.labels.workflows.argoproj.io/cron-workflow")
        if self.spec.get("priority") is not None:
            names.add("workflow.priority")
            values["workflow.priority"] = str(self.spec["priority"])

    def _check_fields(self) -> None:
        spec, path, findings = self.spec, self.path, self.findings
        collection = spec.get("podGC") or {}
        for field, value, allowed in (
            ("podGC", collection.get("strategy"), _POD_GC),
            ("artifactGC", (spec.get("artifactGC") or {}).get("strategy"), _ARTIFACT_GC),
            ("volumeClaimGC", (spec.get("volumeClaimGC") or {}).get("strategy"), _CLAIM_GC),
        ):
            if value and value not in allowed:
                meant = findings.suggestion(value, allowed) or f"; use one of {', '.join(allowed)}"
                findings.add(f"{path}.{field}.strategy", f"{field}.strategy unknown strategy '{value}'{meant}")
        if collection.get("labelSelector"):
            try:
                label_selector_from(collection["labelSelector"])
            except ApiError as error:
                findings.add(f"{path}.podGC.labelSelector", f"podGC.labelSelector invalid: {error.message}")
        delay = collection.get("deleteDelayDuration") or ""
        wrong = duration_problem(delay) if delay else ""
        if wrong:
            findings.add(f"{path}.podGC.deleteDelayDuration", wrong)
        if spec.get("retryStrategy") is not None:
            check_retry_strategy(findings, spec["retryStrategy"], f"{path}.retryStrategy")
        if spec.get("synchronization") is not None:
            check_synchronization(findings, spec["synchronization"], f"{path}.synchronization")
        if spec.get("metrics") is not None:
            check_metrics(findings, spec["metrics"], f"{path}.metrics")
        for key, source in ((spec.get("workflowMetadata") or {}).get("labelsFrom") or {}).items():
            wrong = expression_problem(source.get("expression") or "")
            if wrong:
                findings.add(f"{path}.workflowMetadata.labelsFrom[{key}].expression", wrong)


def _inputs(template: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns the inputs whose value is known."""
    values = {p.get("name"): p.get("value") for p in arguments.get("parameters") or ()}
    found = {}
    for declared in (template.get("inputs") or {}).get("parameters") or ():
        name = declared.get("name")
        value = next(
            (v for v in (values.get(name), declared.get("value"), declared.get("default")) if v is not None), None
        )
        if value is not None:
            found[f"inputs.parameters.{name}"] = as_text(value)
    return found


def _has_tagged_global(templates: Iterable[Mapping[str, Any]]) -> bool:
    return any(
        is_tag(artifact.get("globalName") or "")
        for template in templates
        for artifact in (template.get("outputs") or {}).get("artifacts") or ()
    )


def _one_of(templates: Mapping[str, Any]) -> str:
    return f"; it names the first template: {', '.join(list(templates)[:5])}" if templates else ""


def _each_once(causes: list[Cause]) -> list[Cause]:
    return list(dict.fromkeys(causes))


_WHILE_RUNNING = frozenset(("activeDeadlineSeconds", "parallelism", "priority", "shutdown", "suspend"))
"""Fields of a spec that change while it runs. None of them makes a valid spec invalid."""

_MOST = 100
"""The maximum number of problems in a response."""


def workflow_rule(obj: Object, old: Object | None) -> list[Cause]:
    """Admission rule of every kind with a workflow spec, without looking at other objects. A spec that was accepted is
    not checked again."""
    causes = validate_metadata(obj, old)
    if old is not None and _same(obj.get("spec"), old.get("spec")):
        return causes
    return [*causes, *find_problems(obj, submitted=True)[:_MOST]]


def _same(new: Object | None, old: Object | None) -> bool:
    if new is old:
        return True
    if new is None or old is None:
        return False
    return all(new.get(field) == old.get(field) for field in new.keys() | old.keys() if field not in _WHILE_RUNNING)
