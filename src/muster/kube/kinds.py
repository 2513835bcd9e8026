"""What a kind is (names, schema, columns, rules) and the catalogue that finds one by any of its names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any, TypeAlias

from muster.kube.errors import Cause, NotFound
from muster.kube.objects import Object, join_api_version

Schema: TypeAlias = dict[str, Any]
"""An OpenAPI v3 structural schema, as a CustomResourceDefinition carries it."""

Defaulter: TypeAlias = Callable[[Object], Object]
"""Fills in what the user left out. Pure: answers a new object, or the same one if nothing was missing."""

Rule: TypeAlias = Callable[[Object, Object | None], list[Cause]]
"""What a schema cannot say: (new object, old object or None) -> what is wrong."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `get`, as in a CRD's additionalPrinterColumns. Priority 1 is shown with `-o wide` only."""

    name: str
    json_path: str = ""
    type: str = "string"  # string | integer | number | boolean | date
    priority: int = 0
    description: str = ""
    cell: Callable[[Object, datetime], Any] | None = None
    """Computes the cell where a path cannot, as for a Pod's READY."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Where `kubectl scale` finds its numbers."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """Everything a cluster has to know of a kind of object."""

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

    @property
    def api_version(self) -> str:
        return join_api_version(self.group, self.version)

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def resource(self) -> str:
        """The name that is unique in a cluster: `pods`, `pytorchjobs.kubeflow.org`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def __str__(self) -> str:
        return f"{self.api_version} {self.kind}"

    def __repr__(self) -> str:
        return f"Kind({self})"


class Catalogue:
    """The kinds a cluster knows. Packages register theirs; clients find them by any name they are known under."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._by_gvk: dict[tuple[str, str], Kind] = {}
        self._by_word: dict[str, Kind] = {}
        self._by_name: dict[str, Kind] = {}
        self._by_resource: dict[tuple[str, str, str], Kind] = {}
        self._by_group: dict[tuple[str, str], Kind] = {}
        for kind in kinds:
            self.register(kind)

    def register(self, kind: Kind) -> Kind:
        """Adds a kind, or replaces the one of the same apiVersion and kind. Of two that share a short name, the first
        one registered keeps it, as in Kubernetes."""
        self._by_gvk[kind.api_version, kind.kind] = kind
        self._by_resource[kind.group, kind.version, kind.plural] = kind
        self._by_name[kind.resource] = kind
        self._by_group[kind.group, kind.kind] = kind
        for word in (kind.plural, kind.singular, *kind.short_names):
            known = self._by_word.get(word)
            if known is None or (known.api_version, known.kind) == (kind.api_version, kind.kind):
                self._by_word[word] = kind
            for suffix in (kind.group, f"{kind.version}.{kind.group}" if kind.group else ""):
                if suffix:
                    self._by_word.setdefault(f"{word}.{suffix}", kind)
                    if self._by_word[f"{word}.{suffix}"].kind == kind.kind and suffix != kind.group:
                        self._by_word[f"{word}.{suffix}"] = kind
        return kind

    def unregister(self, kind: Kind) -> None:
        self._by_gvk.pop((kind.api_version, kind.kind), None)
        self._by_resource.pop((kind.group, kind.version, kind.plural), None)
        self._by_word = {word: k for word, k in self._by_word.items() if k is not kind}
        self._by_name = {k.resource: k for k in self._by_gvk.values()}
        self._by_group = {(k.group, k.kind): k for k in self._by_gvk.values()}

    def of(self, api_version: str, kind: str) -> Kind:
        found = self._by_gvk.get((api_version, kind))
        if found is not None:
            return found
        versions = sorted(v for v, k in self._by_gvk if k == kind)
        if versions:
            raise NotFound(f'no kind "{kind}" in "{api_version}"; this cluster has it in {", ".join(versions)}')
        near = get_close_matches(kind, [k for _, k in self._by_gvk], n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise NotFound(f'this cluster has no kind "{kind}" ("{api_version}"){hint}')

    def of_object(self, obj: Mapping[str, Any]) -> Kind:
        return self.of(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))

    def find(self, word: str) -> Kind:
        """Any name a user may type: `po`, `pods`, `Pod`, `pytorchjobs.kubeflow.org`."""
        found = self._by_word.get(word.lower())
        if found is not None:
            return found
        near = get_close_matches(word.lower(), self._by_word, n=1)
        hint = f' (did you mean "{near[0]}"?)' if near else ""
        raise NotFound(f'the server doesn\'t have a resource type "{word}"{hint}')

    def find_resource(self, group: str, version: str, plural: str) -> Kind:
        """By what stands in a URL."""
        found = self._by_resource.get((group, version, plural))
        if found is None:
            raise NotFound("the server could not find the requested resource")
        return found

    def of_resource(self, resource: str) -> Kind | None:
        """By `Kind.resource`, in whichever version."""
        return self._by_name.get(resource)

    def in_group(self, group: str, kind: str) -> Kind | None:
        """In whichever version: an owner reference may name an older one."""
        return self._by_group.get((group, kind))

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._by_gvk.values()))
