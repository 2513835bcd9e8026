"""A version that is an Argo Workflow as somebody handed it in, word for word."""

from __future__ import annotations

from muster.kube.manifests import ManifestError, load
from muster.kube.objects import Object, spec_of
from muster.kube.schema import validate
from muster.platform.graphs.confining import confined
from muster.platform.graphs.context import Context
from muster.platform.graphs.messages import Problem, problem
from muster.platform.graphs.model import Parameter
from muster.workflows import lint
from muster.workflows.kinds import WORKFLOW

_SOURCE = "manifest"


def manifest_problems(manifest: str, context: Context) -> list[Problem]:
    """Whether it is one Workflow, one that Argo would run, and one that the author may have run. What it refers to is
    not looked up."""
    if not manifest.strip():
        return [problem("manifest", "manifest.missing")]
    try:
        documents = load(manifest, _SOURCE)
    except ManifestError as error:
        return [problem("manifest", "manifest.unreadable", detail=str(error))]
    if len(documents) != 1:
        return [problem("manifest", "manifest.kind", kind=f"list of {len(documents)} objects")]
    found = documents[0].object
    if found.get("kind") != WORKFLOW.kind or found.get("apiVersion") != WORKFLOW.api_version:
        return [problem("manifest", "manifest.kind", kind=f"{found.get('apiVersion')} {found.get('kind')}")]
    causes = validate(found, WORKFLOW.schema) or lint.problems(found)
    wrong = [(c.field, c.message, "manifest.invalid") for c in causes]
    if not wrong and context.allowed is not None:
        closed = [cluster.queue for cluster in context.clusters.values() if cluster.queue and not cluster.usable]
        wrong = [(e.field, e.message, "manifest.confined") for e in confined(found, context.allowed, closed)]
    where = documents[0].where
    return [problem("manifest", code, detail=f"{where(path)}: {path}: {told}") for path, told, code in wrong]


def workflow_in(manifest: str) -> Object:
    """The Workflow of a manifest without problems."""
    return load(manifest, _SOURCE)[0].object


def manifest_parameters(manifest: str) -> tuple[Parameter, ...]:
    """Its arguments, which a run may fill in."""
    found = []
    for parameter in (spec_of(workflow_in(manifest)).get("arguments") or {}).get("parameters") or ():
        value = parameter.get("value", parameter.get("default"))
        needed = value is None and not parameter.get("valueFrom")
        shown = None if value is None else str(value)
        found.append(Parameter(parameter["name"], str(parameter.get("description") or ""), shown, needed))
    return tuple(found)
