"""Parses the types and names on a command line: `pods`, `pod x y`, `po,svc`, `job/train pod/x`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muster.cli.errors import CommandError
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind


class Target(NamedTuple):
    """Objects of one kind: those with these names, or all if there are no names."""

    kind: Kind
    names: tuple[str, ...] = ()


def parse_targets(words: Sequence[str], catalogue: Catalogue) -> list[Target]:
    """Parses TYPE[,TYPE...] [NAME...] or TYPE/NAME... as kubectl does. Adjacent words of one kind become one target."""
    words = [word for word in words if word]
    if not words:
        raise CommandError("specify what to show: a type (`pods`), a type and a name (`pod x`), or TYPE/NAME (`pod/x`)")
    if any("/" in word for word in words):
        return _merge_adjacent([_parse_slashed(word, catalogue) for word in words])
    kinds = [kind for word in words[0].split(",") if word for kind in find_kinds(word, catalogue)]
    return [Target(kind, tuple(words[1:])) for kind in kinds]


def parse_target(word: str, catalogue: Catalogue, default: str = "pods") -> tuple[Kind, str]:
    """Parses TYPE/NAME, or a NAME of the `default` type."""
    type_word, slash, name = word.rpartition("/")
    if slash and not (type_word and name):
        raise CommandError(f'"{word}" is not valid; use TYPE/NAME, as in pod/x')
    return catalogue.find(type_word or default), name


def type_words(words: Sequence[str]) -> list[str]:
    """Returns the words, or parts of words, that are types."""
    if any("/" in word for word in words):
        return [word.partition("/")[0] for word in words]
    return [word for word in words[0].split(",") if word] if words else []


def find_kinds(word: str, catalogue: Catalogue) -> list[Kind]:
    """Returns the kind with that name, or all kinds of that category (`all`)."""
    try:
        return [catalogue.find(word)]
    except NotFound:
        members = [kind for kind in catalogue if word.lower() in kind.categories]
        if members:
            return members
        raise


def resource_name(kind: Kind, name: str) -> str:
    """Returns the name of an object in messages: `pod/x`, `job.batch/train`."""
    return f"{type_name(kind)}/{name}"


def type_name(kind: Kind) -> str:
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def _parse_slashed(word: str, catalogue: Catalogue) -> Target:
    if "/" not in word:
        raise CommandError(f'"{word}" has no type; if one argument is TYPE/NAME, all must be, as in pod/{word}')
    type_word, _, name = word.partition("/")
    if not type_word or not name or "/" in name:
        raise CommandError(f'"{word}" is not valid; use TYPE/NAME, as in pod/x')
    return Target(catalogue.find(type_word), (name,))


def _merge_adjacent(targets: Sequence[Target]) -> list[Target]:
    merged: list[Target] = []
    for target in targets:
        if merged and merged[-1].kind is target.kind:
            merged[-1] = Target(target.kind, merged[-1].names + target.names)
        else:
            merged.append(target)
    return merged
