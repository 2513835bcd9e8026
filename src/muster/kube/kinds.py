"""`Kind` (names, schema, columns, rules) and the `Catalogue` that finds a kind by any of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias

from muster.kube.errors import Cause, Invalid, NotFound
from muster.kube.objects import Object, join_api_version
from muster.kube.selectors import SelectableField

Schema: TypeAlias = dict[str, Any]
"""An OpenAPI v3 structural schema, as in a CustomResourceDefinition."""

Defaulter: TypeAlias = Callable[[Object], Object]
"""Fills in defaults. Pure: returns a new object, or the same one if nothing was missing."""

Warnings: TypeAlias = Callable[[Object], list[Cause]]
"""Returns what is accepted but has no effect, or hardly the intended one."""

Rule: TypeAlias = Callable[[Object, Object | None], list[Cause]]
"""Validates beyond the schema: (new object, old object or None) -> what is wrong."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `get`, as in a CRD's additionalPrinterColumns. Priority 1 is shown with `-o wide` only."""

    name: str
    json_path: str = ""
    type: str = "string"  # string | integer | number | boolean | date
    priority: int = 0
    description: str = ""
    cell: Callable[[Object, datetime], Any] | None = None
    """Computes the cell where a path cannot, such as a Pod's READY."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths of the scale subresource."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True)
class Conversion:
    """Objects of a kind are stored as those of another one, which serves them, too. Both functions are pure."""

    stored: Kind
    to_stored: Callable[[Object], Object]
    from_stored: Callable[[Object], Object]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Everything a cluster needs to know about a kind of object."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    schema: Schema = field(default_factory=dict)
    columns: tuple[Column, ...] = ()
    has_status: bool = True
    scale: Scale | None = None
    default: Defaulter | None = None
    validate: Rule | None = None
    warnings: Warnings | None = None
    selectable_fields: Mapping[str, SelectableField] = field(default_factory=dict)
    """What field selectors may name besides metadata.name and metadata.namespace. The paths are those of the stored
    object."""
    stored_as_rows: tuple[str, str] | None = None
    """A map, such as ("status", "nodes"), that grows too large to be written with the rest of the object. The embedded
    cluster stores its entries as rows."""
    conversion: Conversion | None = None
    is_defined: bool = False
    """By a CustomResourceDefinition. Its schema may change while there are objects."""

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)

    @property
    def is_builtin(self) -> bool:
        """Whether Kubernetes itself has it, and thus no definition of it."""
        return "." not in self.group or self.group.endswith(".k8s.io")

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """The name that is unique in a cluster: `pods`, `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def stored_resource(self) -> str:
        """The `resource` under which the embedded cluster stores its objects."""
        return self.resource if self.conversion is None else self.conversion.stored.resource

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"

    def __repr__(self) -> str:
        return f"Kind({self})"


_LONGEST_NAME = 80
"""What is compared with known names to guess which one was meant."""


class Catalogue:
    """The kinds of a cluster. Packages register theirs; clients find them by any of their names."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[tuple[str, str], Kind] = {(kind.api_version, kind.kind): kind for kind in kinds}
        self._names: _KindIndex | None = None

    def register(self, kind: Kind) -> Kind:
        """Adds a kind, or replaces the one of the same apiVersion and kind. If two kinds share a name, the first one
        registered keeps it, as in Kubernetes; the other is found by its name with the group."""
        self._kinds[kind.api_version, kind.kind] = kind
        self._names = None
        return kind

    def unregister(self, kind: Kind) -> None:
        self._kinds.pop((kind.api_version, kind.kind), None)
        self._names = None

    def of(self, api_version: str, kind: str) -> Kind:
        found = self._kinds.get((api_version, kind))
        if found is not None:
            return found
        versions = sorted(v for v, k in self._kinds if k == kind)
        if versions:
            raise NotFound(f'no kind "{kind}" in "{api_version}"; this cluster has it in {", ".join(versions)}')
        known = {k.lower(): k for _, k in self._kinds}
        near = get_close_matches(kind[:_LONGEST_NAME].lower(), sorted(known), n=1, cutoff=0.7)
        hint = f'; did you mean "{known[near[0]]}"?' if near else ""
        raise NotFound(f'this cluster has no kind "{kind}" ("{api_version}"){hint}')

    def of_object(self, obj: Mapping[str, Any]) -> Kind:
        return self.of(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))

    def find(self, word: str) -> Kind:
        """Finds a kind by any name a user may type: `po`, `pods`, `Pod`, `pytorchjobs.kubeflow.org`,
        `jobs.v1.batch`."""
        words = self._index().words
        found = words.get(word.lower())
        if found is not None:
            return found
        near = get_close_matches(word[:_LONGEST_NAME].lower(), words, n=1)
        hint = f' (did you mean "{near[0]}"?)' if near else ""
        raise NotFound(f'the server doesn\'t have a resource type "{word}"{hint}')

    def find_resource(self, group: str, version: str, plural: str) -> Kind:
        """Finds a kind by its URL."""
        found = self._index().urls.get((group, version, plural))
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    def of_resource(self, resource: str) -> Kind | None:
        """Finds a kind by `Kind.resource`, in any version."""
        return self._index().resources.get(resource)

    def in_group(self, group: str, kind: str) -> Kind | None:
        """Finds a kind in any version: an owner reference may name an older one."""
        return self._index().groups.get((group, kind))

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._kinds.values()))

    def _index(self) -> _KindIndex:
        if self._names is None:
            self._names = _build_index(list(self._kinds.values()))
        return self._names


class _KindIndex(NamedTuple):
    """Indexes of kinds by other names than apiVersion and kind."""

    words: dict[str, Kind]
    urls: dict[tuple[str, str, str], Kind]
    resources: dict[str, Kind]
    groups: dict[tuple[str, str], Kind]


def _build_index(kinds: list[Kind]) -> _KindIndex:
    """Full names take precedence over short ones, then the kind registered first."""
    words: dict[str, Kind] = {}
    full = [(word, kind) for kind in kinds for word in (kind.plural, kind.singular)]
    short = [(word, kind) for kind in kinds for word in kind.short_names]
    for word, kind in full + short:
        words.setdefault(word, kind)
        words.setdefault(f"{word}.{kind.version}.{kind.group}", kind)
        if kind.group:
            words.setdefault(f"{word}.{kind.group}", kind)
    return _KindIndex(
        words,
        {(kind.group, kind.version, kind.plural): kind for kind in kinds},
        {kind.resource: kind for kind in kinds},
        {(kind.group, kind.kind): kind for kind in kinds},
    )


MOST_CAUSES = 101
"""How many problems of an object are reported."""


def invalid_object(kind: Kind, obj: Object, causes: list[Cause]) -> Invalid:
    """Returns the error of an object that breaks rules, in the words of Kubernetes."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    title = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    if len(causes) > MOST_CAUSES:
        more = Cause("", f"and {len(causes) - MOST_CAUSES} more problems", causes[MOST_CAUSES].reason)
        causes = [*causes[:MOST_CAUSES], more]
    wrong = [f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes]
    text = wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]"
    return Invalid(f'{title} "{name}" is invalid: {text}', causes=causes)
