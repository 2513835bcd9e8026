"""What a resource template asks for, read from its manifest and flags before anything is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from muster.kube.cluster import PatchType
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind
from muster.kube.manifests import ManifestError, values_in
from muster.kube.objects import Object, meta, name_of, namespace_of, owner_reference, owners_of
from muster.kube.schema import prune
from muster.workflows.model import Template
from muster.workflows.resources.conditions import Conditions, parse_conditions
from muster.workflows.resources.errors import ResourceError
from muster.workflows.resources.flags import Flags, parse_flags

Action: TypeAlias = Literal["get", "create", "apply", "delete", "replace", "patch"]
ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
_STRATEGIES = ("strategic", "merge", "json")


class Target(NamedTuple):
    """An object of the cluster, there or not. Without a name, all that the selectors find."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.singular}{'.' * bool(self.kind.group)}{self.kind.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class Order:
    action: Action
    targets: tuple[Target, ...]
    """One, but for what is deleted."""
    flags: Flags
    conditions: Conditions
    object: Object | None = None
    """To be created, applied or put in place of another."""
    patch: Any = None
    patch_type: PatchType = "strategic"


def read_order(template: Template, manifest: str, workflow: Object, catalogue: Catalogue) -> Order:
    """Raises ResourceError: what is wrong, and in which field. `manifest` is the template's, or the artifact's that it
    comes from."""
    resource = template.get("resource") or {}
    action = resource.get("action")
    if action not in ACTIONS:
        raise ResourceError(f'resource.action: "{action}" is none; one of {", ".join(ACTIONS)}')
    conditions = parse_conditions(resource.get("successCondition") or "", resource.get("failureCondition") or "")
    if action == "delete" and (conditions or (template.get("outputs") or {}).get("parameters")):
        raise ResourceError("successCondition, failureCondition and outputs are not supported for delete action")
    flags = parse_flags(action, [str(flag) for flag in resource.get("flags") or ()])
    documents = _documents(manifest)
    if not documents and not flags.words:
        raise ResourceError("Must provide at least one of flags or manifest.")
    reader = _Reader(resource, action, flags, workflow, catalogue, conditions)
    if action == "patch":
        return reader.patch(documents)
    return reader.from_objects(documents) if documents else reader.from_words()


@dataclass(frozen=True, slots=True)
class _Reader:
    resource: dict[str, Any]
    action: Action
    flags: Flags
    workflow: Object
    catalogue: Catalogue
    conditions: Conditions

    def from_objects(self, documents: list[Any]) -> Order:
        if self.flags.words:
            raise ResourceError(
                f'resource.flags: "{" ".join(self.flags.words)}" names an object, but resource.manifest does, too; '
                "leave one of them out"
            )
        self._check_count(documents)
        objects = [self._placed(_object(document)) for document in documents]
        targets = tuple(Target(self._kind(o), namespace_of(o), name_of(o)) for o in objects)
        for target, obj in zip(targets, objects, strict=True):
            if not target.name and not (self.action == "create" and meta(obj).get("generateName")):
                raise ResourceError(
                    "Kind and name are both required but at least one of them is missing from the manifest: "
                    "metadata.name is"
                )
        if self.action in ("get", "delete"):
            return Order(self.action, targets, self.flags, self.conditions)
        wanted = self._owned(objects[0], targets[0])
        if not self.flags.strict:
            wanted = prune(wanted, targets[0].kind.schema)
        return Order(self.action, targets, self.flags, self.conditions, object=wanted)

    def from_words(self) -> Order:
        if self.action not in ("get", "delete"):
            raise ResourceError(f"resource.manifest: {self.action} needs one")
        selected = bool(self.flags.selector or self.flags.field_selector or self.flags.all)
        targets = self._named(selected=selected)
        if self.action == "get" and len(targets) != 1:
            raise ResourceError("resource.flags: get takes one object; name a kind and a name")
        return Order(self.action, targets, self.flags, self.conditions)

    def patch(self, documents: list[Any]) -> Order:
        strategy = self.resource.get("mergeStrategy") or "strategic"
        if strategy not in _STRATEGIES:
            raise ResourceError(f'resource.mergeStrategy: "{strategy}" is none; one of {", ".join(_STRATEGIES)}')
        if not documents:
            raise ResourceError("resource.manifest: patch needs one, the patch")
        self._check_count(documents)
        body = documents[0]
        if strategy == "json" and not isinstance(body, list):
            raise ResourceError("resource.manifest: with mergeStrategy json it is a list of operations")
        if strategy != "json" and not isinstance(body, dict):
            raise ResourceError(f"resource.manifest: with mergeStrategy {strategy} it is a mapping of fields")
        if self.flags.words:
            targets = self._named(selected=False)
            if len(targets) != 1:
                raise ResourceError("resource.flags: patch takes one object; name a kind and a name")
        elif strategy == "json":
            raise ResourceError(
                "resource.flags: a JSON patch does not say what it is for; name it, as in flags: [pod, web]"
            )
        else:
            obj = self._placed(_object(body))
            if not name_of(obj):
                raise ResourceError(
                    "Kind and name are both required but at least one of them is missing from the manifest: "
                    "metadata.name is"
                )
            targets = (Target(self._kind(obj), namespace_of(obj), name_of(obj)),)
            body = self._owned(obj, targets[0])
        return Order("patch", targets, self.flags, self.conditions, patch=body, patch_type=cast(PatchType, strategy))

    def _check_count(self, documents: list[Any]) -> None:
        if len(documents) > 1 and self.action != "delete":
            raise ResourceError(
                f"resource.manifest: it has {len(documents)} documents; {self.action} takes one object, only delete "
                "takes several"
            )

    def _kind(self, obj: Object) -> Kind:
        try:
            return self.catalogue.of_object(obj)
        except NotFound as error:
            raise ResourceError(f"resource.manifest: {error.message}") from None

    def _placed(self, obj: Object) -> Object:
        """In the namespace that it, or a flag, names; else in the workflow's."""
        kind = self._kind(obj)
        given = namespace_of(obj)
        if self.flags.namespace and given and given != self.flags.namespace:
            raise ResourceError(
                f'the namespace from the provided object "{given}" does not match the namespace '
                f'"{self.flags.namespace}" of resource.flags'
            )
        namespace = (given or self._namespace()) if kind.namespaced else ""
        metadata = {name: value for name, value in meta(obj).items() if name != "namespace"}
        return {**obj, "metadata": metadata | ({"namespace": namespace} if namespace else {})}

    def _namespace(self) -> str:
        return self.flags.namespace or namespace_of(self.workflow)

    def _owned(self, obj: Object, target: Target) -> Object:
        if not self.resource.get("setOwnerReference"):
            return obj
        if not target.namespace or target.namespace != namespace_of(self.workflow):
            raise ResourceError(
                f"resource.setOwnerReference: {target} is not in the workflow's namespace "
                f'"{namespace_of(self.workflow)}", and such an owner counts as gone'
            )
        return {**obj, "metadata": meta(obj) | {"ownerReferences": [*owners_of(obj), owner_reference(self.workflow)]}}

    def _named(self, *, selected: bool) -> tuple[Target, ...]:
        """`pod web`, `pod web db`, `pod/web`, or with a selector just `pod`."""
        first, *names = self.flags.words
        if "/" in first:
            return tuple(self._target(*word.partition("/")[::2]) for word in self.flags.words)
        if not names and not selected:
            raise ResourceError(f'resource.flags: "{first}" needs a name behind it, or a --selector')
        return tuple(self._target(first, name) for name in names or ("",))

    def _target(self, kind: str, name: str) -> Target:
        try:
            found = self.catalogue.find(kind)
        except NotFound as error:
            raise ResourceError(f"resource.flags: {error.message}") from None
        return Target(found, self._namespace() if found.namespaced else "", name)


def _documents(manifest: str) -> list[Any]:
    try:
        found = values_in(manifest, "resource.manifest")
    except ManifestError as error:
        raise ResourceError(str(error)) from None
    return [item for value in found for item in _unrolled(value)]


def _unrolled(value: Any) -> list[Any]:
    if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        return list(value["items"])
    return [value]


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise ResourceError("resource.manifest: it is no object; it needs apiVersion, kind and metadata")
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str) or not value[name]:
            raise ResourceError(f"resource.manifest: {name} is required")
    if not isinstance(value.get("metadata") or {}, dict):
        raise ResourceError("resource.manifest: metadata must be a mapping")
    return value
