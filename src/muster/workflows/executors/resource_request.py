"""Reads what a resource template asks for: its action, manifest and kubectl flags. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from muster.kube.cluster import PatchType, Propagation
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind
from muster.kube.manifests import ManifestError, parse_values
from muster.kube.objects import Object, meta, name_of, namespace_of, owner_reference, owners_of
from muster.kube.schema import prune
from muster.workflows.executors.resource_conditions import Conditions, ResourceError, parse_conditions
from muster.workflows.model import Template


@dataclass(frozen=True, slots=True)
class Flags:
    """The parsed flags. `words` are those that are not options: a kind and names, `pod web` or `pod/web`."""

    words: tuple[str, ...] = ()
    namespace: str = ""
    selector: str = ""
    field_selector: str = ""
    all: bool = False
    ignore_not_found: bool = False
    wait: bool = True
    strict: bool = True
    """Unknown fields are an error; otherwise they are dropped."""
    force: bool = False
    server_side: bool = False
    force_conflicts: bool = False
    grace_seconds: int | None = None
    propagation: Propagation = "Background"
    field_manager: str = "argo"
    dry_run: bool = False


class _Option(NamedTuple):
    """An option of kubectl. `read` returns the changes to the Flags, and raises ValueError with the allowed values."""

    actions: str
    """Empty: all actions."""
    read: Callable[[str], dict[str, Any]]
    alone: str | None = None
    """The value if none is given; None if it needs one, which may be the next word."""


def parse_flags(action: str, flags: Sequence[str]) -> Flags:
    """Parses `resource.flags`: the options of kubectl that make sense here. Raises ResourceError with the position of
    any other."""
    found = Flags()
    left = list(enumerate(flags))
    while left:
        number, flag = left.pop(0)
        where = f"resource.flags[{number}]"
        if not flag.startswith("-"):
            found = replace(found, words=(*found.words, flag))
            continue
        name, value = _split(flag)
        option = _OPTIONS.get(name)
        if option is None:
            raise ResourceError(f'{where}: "{flag}" is not supported; use one of {_known(action)}')
        if option.actions and action not in option.actions.split():
            raise ResourceError(
                f'{where}: "{flag}" can be used with {" and ".join(option.actions.split())}, not with {action}'
            )
        if value is None:
            value = option.alone
        if value is None:
            if not left:
                raise ResourceError(f'{where}: "{flag}" needs a value')
            value = left.pop(0)[1]
        try:
            found = replace(found, **option.read(value))
        except ValueError as error:
            raise ResourceError(f'{where}: "{flag}": {error}') from None
    return found


def _text(field: str) -> Callable[[str], dict[str, Any]]:
    return lambda value: {field: value}


def _choice(field: str, values: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    def read(value: str) -> dict[str, Any]:
        if value not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return {field: values[value]}

    return read


def _boolean(field: str) -> Callable[[str], dict[str, Any]]:
    return _choice(field, {"true": True, "false": False})


def _seconds(value: str) -> dict[str, Any]:
    if not value.removeprefix("-").isdigit():
        raise ValueError("a number of seconds")
    return {"grace_seconds": int(value) if int(value) >= 0 else None}


def _ignore(value: str) -> dict[str, Any]:
    return {}


_OPTIONS = {
    "namespace": _Option("", _text("namespace")),
    "selector": _Option("get delete", _text("selector")),
    "field-selector": _Option("get delete", _text("field_selector")),
    "all": _Option("delete", _boolean("all"), "true"),
    "ignore-not-found": _Option("get delete", _boolean("ignore_not_found"), "true"),
    "wait": _Option("delete", _boolean("wait"), "true"),
    "now": _Option("delete", _choice("grace_seconds", {"true": 1, "false": None}), "true"),
    "force": _Option("delete replace", _boolean("force"), "true"),
    "grace-period": _Option("delete replace", _seconds),
    "cascade": _Option(
        "delete replace",
        _choice("propagation", {"background": "Background", "foreground": "Foreground", "orphan": "Orphan"}),
        "background",
    ),
    "validate": _Option(
        "create apply replace",
        _choice("strict", {"true": True, "strict": True, "warn": False, "ignore": False, "false": False}),
        "true",
    ),
    "dry-run": _Option(
        "create apply replace patch", _choice("dry_run", {"none": False, "client": True, "server": True}), "client"
    ),
    "server-side": _Option("apply", _boolean("server_side"), "true"),
    "force-conflicts": _Option("apply", _boolean("force_conflicts"), "true"),
    "field-manager": _Option("create apply replace patch", _text("field_manager")),
    "save-config": _Option(
        "create replace patch", _ignore, "true"
    ),  # a note for later applies, which is not needed here
    "record": _Option("", _ignore, "true"),
    "overwrite": _Option("apply", _ignore, "true"),
}
_SHORT = {"-n": "namespace", "-l": "selector"}


def _split(flag: str) -> tuple[str, str | None]:
    if not flag.startswith("--"):
        value = flag[2:].removeprefix("=")
        return _SHORT.get(flag[:2], flag), value or None
    name, equals, value = flag[2:].partition("=")
    return name, value if equals else None


def _known(action: str) -> str:
    return ", ".join(
        f"--{name}" for name, option in _OPTIONS.items() if not option.actions or action in option.actions.split()
    )


Action: TypeAlias = Literal["get", "create", "apply", "delete", "replace", "patch"]
ACTIONS = ("get", "create", "apply", "delete", "replace", "patch")
_STRATEGIES = ("strategic", "merge", "json")


class Target(NamedTuple):
    """An object of the cluster, existing or not. Without a name, all that the selectors match."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.singular}{'.' * bool(self.kind.group)}{self.kind.group}/{self.name}"


@dataclass(frozen=True, slots=True)
class ResourceRequest:
    action: Action
    targets: tuple[Target, ...]
    """One, except for `delete`."""
    flags: Flags
    conditions: Conditions
    object: Object | None = None
    """To be created, applied or replaced."""
    patch: Any = None
    patch_type: PatchType = "strategic"


def read_resource_request(template: Template, manifest: str, workflow: Object, catalogue: Catalogue) -> ResourceRequest:
    """Raises ResourceError with the problem and its field. `manifest` is the template's, or that of the artifact it
    comes from."""
    resource = template.get("resource") or {}
    action = resource.get("action")
    if action not in ACTIONS:
        raise ResourceError(f'resource.action: "{action}" is not an action; use one of {", ".join(ACTIONS)}')
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

    def from_objects(self, documents: list[Any]) -> ResourceRequest:
        if self.flags.words:
            raise ResourceError(
                f'resource.flags: "{" ".join(self.flags.words)}" names an object, and so does resource.manifest; '
                "remove one of them"
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
            return ResourceRequest(self.action, targets, self.flags, self.conditions)
        wanted = self._with_owner(objects[0], targets[0])
        if not self.flags.strict:
            wanted = prune(wanted, targets[0].kind.schema)
        return ResourceRequest(self.action, targets, self.flags, self.conditions, object=wanted)

    def from_words(self) -> ResourceRequest:
        if self.action not in ("get", "delete"):
            raise ResourceError(f"resource.manifest is required for {self.action}")
        selected = bool(self.flags.selector or self.flags.field_selector or self.flags.all)
        targets = self._named(selected=selected)
        if self.action == "get" and len(targets) != 1:
            raise ResourceError("resource.flags: get expects one object; give a kind and a name")
        return ResourceRequest(self.action, targets, self.flags, self.conditions)

    def patch(self, documents: list[Any]) -> ResourceRequest:
        strategy = self.resource.get("mergeStrategy") or "strategic"
        if strategy not in _STRATEGIES:
            raise ResourceError(
                f'resource.mergeStrategy: "{strategy}" is not a merge strategy; use one of {", ".join(_STRATEGIES)}'
            )
        if not documents:
            raise ResourceError("resource.manifest is required for patch: it is the patch")
        self._check_count(documents)
        body = documents[0]
        if strategy == "json" and not isinstance(body, list):
            raise ResourceError("resource.manifest must be a list of operations with mergeStrategy json")
        if strategy != "json" and not isinstance(body, dict):
            raise ResourceError(f"resource.manifest must be a mapping of fields with mergeStrategy {strategy}")
        if self.flags.words:
            targets = self._named(selected=False)
            if len(targets) != 1:
                raise ResourceError("resource.flags: patch expects one object; give a kind and a name")
        elif strategy == "json":
            raise ResourceError(
                "resource.flags: a JSON patch does not name its object; name it, for example flags: [pod, web]"
            )
        else:
            obj = self._placed(_object(body))
            if not name_of(obj):
                raise ResourceError(
                    "Kind and name are both required but at least one of them is missing from the manifest: "
                    "metadata.name is"
                )
            targets = (Target(self._kind(obj), namespace_of(obj), name_of(obj)),)
            body = self._with_owner(obj, targets[0])
        return ResourceRequest(
            "patch", targets, self.flags, self.conditions, patch=body, patch_type=cast(PatchType, strategy)
        )

    def _check_count(self, documents: list[Any]) -> None:
        if len(documents) > 1 and self.action != "delete":
            raise ResourceError(
                f"resource.manifest has {len(documents)} documents; {self.action} expects one object, only delete "
                "accepts several"
            )

    def _kind(self, obj: Object) -> Kind:
        try:
            return self.catalogue.of_object(obj)
        except NotFound as error:
            raise ResourceError(f"resource.manifest: {error.message}") from None

    def _placed(self, obj: Object) -> Object:
        """In the namespace that the object or a flag names, else in the workflow's."""
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

    def _with_owner(self, obj: Object, target: Target) -> Object:
        if not self.resource.get("setOwnerReference"):
            return obj
        if not target.namespace or target.namespace != namespace_of(self.workflow):
            raise ResourceError(
                f"resource.setOwnerReference: {target} is not in the workflow's namespace "
                f'"{namespace_of(self.workflow)}", so it would be deleted as an orphan'
            )
        return {**obj, "metadata": meta(obj) | {"ownerReferences": [*owners_of(obj), owner_reference(self.workflow)]}}

    def _named(self, *, selected: bool) -> tuple[Target, ...]:
        """`pod web`, `pod web db`, `pod/web`, or with a selector just `pod`."""
        first, *names = self.flags.words
        if "/" in first:
            return tuple(self._target(*word.partition("/")[::2]) for word in self.flags.words)
        if not names and not selected:
            raise ResourceError(f'resource.flags: "{first}" must be followed by a name or a --selector')
        return tuple(self._target(first, name) for name in names or ("",))

    def _target(self, kind: str, name: str) -> Target:
        try:
            found = self.catalogue.find(kind)
        except NotFound as error:
            raise ResourceError(f"resource.flags: {error.message}") from None
        return Target(found, self._namespace() if found.namespaced else "", name)


def _documents(manifest: str) -> list[Any]:
    try:
        found = parse_values(manifest, "resource.manifest")
    except ManifestError as error:
        raise ResourceError(str(error)) from None
    return [item for value in found for item in _expand_lists(value)]


def _expand_lists(value: Any) -> list[Any]:
    if isinstance(value, dict) and value.get("kind") == "List" and isinstance(value.get("items"), list):
        return list(value["items"])
    return [value]


def _object(value: Any) -> Object:
    if not isinstance(value, dict):
        raise ResourceError("resource.manifest is not an object; it needs apiVersion, kind and metadata")
    for name in ("apiVersion", "kind"):
        if not isinstance(value.get(name), str) or not value[name]:
            raise ResourceError(f"resource.manifest: {name} is required")
    if not isinstance(value.get("metadata") or {}, dict):
        raise ResourceError("resource.manifest: metadata must be a mapping")
    return value
