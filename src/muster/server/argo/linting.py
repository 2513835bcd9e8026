"""Argo's own rules, before anything is stored."""

from __future__ import annotations

from muster.kube.errors import Invalid
from muster.kube.objects import Key, Object, name_of, namespace_of
from muster.kube.schema import validate
from muster.server.argo.access import OnBehalf
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW_TEMPLATE
from muster.workflows.lint import problems


async def require_sound(api: OnBehalf, obj: Object, *, strict: bool = False) -> None:
    """Raises Invalid, which names everything that is wrong. `strict` is for those who only ask: they may leave values
    out that have to be there to run, but no field is unknown."""
    kind = api.cluster.catalogue.of_object(obj)
    namespace = namespace_of(obj)
    store = api.cluster.store

    def lookup(name: str, cluster_scope: bool) -> Object | None:
        template = CLUSTER_WORKFLOW_TEMPLATE if cluster_scope else WORKFLOW_TEMPLATE
        return store.get(template.resource, Key("" if cluster_scope else namespace, name))

    causes = validate(obj, kind.schema) if strict else []
    causes += problems(obj, lookup, submitted=not strict)
    if causes:
        told = "; ".join(f"{cause.field}: {cause.message}" for cause in causes)
        raise Invalid(f'{kind.kind} "{name_of(obj)}" is invalid: {told}', causes=causes)
