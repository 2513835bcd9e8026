"""What worker processes do with objects that users send to the Kubernetes and Argo APIs. Pure functions on plain data.

The store validates every object again when it writes it. So a large object is first checked here, only to learn how
long that takes: what takes too long never gets to the store.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from muster.embedded.store.admission import admit_new, private_copy
from muster.embedded.store.writes import apply_patch
from muster.kube.builtin import new_catalogue
from muster.kube.cluster import PatchType
from muster.kube.errors import ApiError, Cause, NotFound
from muster.kube.kinds import Catalogue, Kind, Schema
from muster.kube.manifests import ManifestError, load_manifests, parse_mapping
from muster.kube.objects import Object, name_of, namespace_of
from muster.kube.schema import prune
from muster.kube.schema_validation import validate
from muster.kube.server_side_apply import server_side_apply
from muster.training.registry import training_kinds
from muster.workflows.kinds import workflow_kinds
from muster.workflows.lint import find_problems

TemplateKey: TypeAlias = tuple[str, bool]
"""The name of a WorkflowTemplate, or (true) of a ClusterWorkflowTemplate."""


class ParsedYaml(NamedTuple):
    value: Any = None
    """None for an empty text."""
    problem: str = ""


def parse_yaml(text: str, source: str) -> ParsedYaml:
    try:
        found = parse_mapping(text, source)
    except ManifestError as error:
        return ParsedYaml(problem=str(error))
    return ParsedYaml(found.object if found is not None else None)


def rehearse_manifests(text: str) -> int:
    """Does what creating these objects does, and forgets the results. Returns how many there are."""
    try:
        documents = load_manifests(text, "manifest")
    except ManifestError:
        return 0
    for document in documents:
        obj = document.object
        rehearse_write(str(obj.get("apiVersion")), str(obj.get("kind")), {}, None, obj, None)
    return len(documents)


def rehearse_write(
    api_version: str, kind_name: str, schema: Schema, old: Object | None, body: Any, patch: PatchType | None
) -> None:
    """Does what a write of this object does, and forgets the result: the store reports the errors. `schema` is for
    kinds that a CustomResourceDefinition defines."""
    kind = _kind(api_version, kind_name, schema)
    with suppress(ApiError, TypeError, AttributeError, KeyError, IndexError, ValueError):
        if patch == "apply":
            body = server_side_apply(old, private_copy(kind, body, "Warn"), kind.schema, "rehearsal", True, "")
        elif patch is not None:
            body = apply_patch(old or {}, body, patch, kind.schema)
        given = private_copy(kind, body, "Warn")
        admit_new(kind, given, name_of(given), namespace_of(given), "2026-01-01T00:00:00Z")


class LintResult(NamedTuple):
    causes: list[Cause]
    missing: list[TemplateKey]
    """Templates that it refers to and that were not given. If there are any, lint again with them."""


def lint_workflow(
    api_version: str, kind_name: str, obj: Object, strict: bool, templates: dict[TemplateKey, Object | None]
) -> LintResult:
    """With `strict`, for lint requests, values that only a run needs may be missing, but unknown fields are errors."""
    kind = _kind(api_version, kind_name, {})
    known = obj if strict else prune(obj, kind.schema)
    causes = validate(known, kind.schema)  # lint relies on the types of fields
    if causes:
        return LintResult(causes, [])
    missing: dict[TemplateKey, None] = {}

    def lookup(name: str, cluster_scope: bool) -> Object | None:
        key = (name, cluster_scope)
        if key not in templates:
            missing[key] = None
        return templates.get(key)

    found = find_problems(known, lookup, submitted=not strict)
    return LintResult([] if missing else found, list(missing))


def is_known(kind: Kind) -> bool:
    """Whether workers know the kind, because it belongs to a package."""
    try:
        return _catalogue().of(kind.api_version, kind.kind).schema is kind.schema
    except NotFound:
        return False


def _kind(api_version: str, name: str, schema: Schema) -> Kind:
    try:
        return _catalogue().of(api_version, name)
    except NotFound:
        group, _, version = api_version.rpartition("/")
        return Kind(group, version, name, name.lower() + "s", schema=schema)


@cache
def _catalogue() -> Catalogue:
    catalogue = new_catalogue()
    for kind in (*training_kinds(), *workflow_kinds()):
        catalogue.register(kind)
    return catalogue
