"""What a command is about: words such as `pods`, `pod x y`, `po,svc`, `job/train pod/x`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from muster.cli.errors import CommandError
from muster.kube.errors import NotFound
from muster.kube.kinds import Catalogue, Kind


class Target(NamedTuple):
    """Objects of one kind: those named, or all of them when none is."""

    kind: Kind
    names: tuple[str, ...] = ()


def parse_targets(words: Sequence[str], catalogue: Catalogue) -> list[Target]:
    """TYPE[,TYPE...] [NAME...] or TYPE/NAME..., as kubectl reads them. Neighbours of one kind are one target."""
    words = [word for word in words if word]
    if not words:
        raise CommandError(
            "say what: a type, as in `pods`, a type and a name, as in `pod x`, or both in one word, as in `pod/x`"
        )
    if any("/" in word for word in words):
        return _merged([_slashed(word, catalogue) for word in words])
    kinds = [kind for word in words[0].split(",") if word for kind in find_kinds(word, catalogue)]
    return [Target(kind, tuple(words[1:])) for kind in kinds]


def parse_target(word: str, catalogue: Catalogue, default: str = "pods") -> tuple[Kind, str]:
    """One object: TYPE/NAME, or a NAME of the `default` type."""
    type_word, slash, name = word.rpartition("/")
    if slash and not (type_word and name):
        raise CommandError(f'"{word}": write TYPE/NAME, as in pod/x')
    return catalogue.find(type_word or default), name


def type_words(words: Sequence[str]) -> list[str]:
    """The words, or parts of words, that stand for types."""
    if any("/" in word for word in words):
        return [word.partition("/")[0] for word in words]
    return [word for word in words[0].split(",") if word] if words else []


def find_kinds(word: str, catalogue: Catalogue) -> list[Kind]:
    """The kind of that name, or all that belong to the category (`all`)."""
    try:
        return [catalogue.find(word)]
    except NotFound:
        members = [kind for kind in catalogue if word.lower() in kind.categories]
        if members:
            return members
        raise


def resource_name(kind: Kind, name: str) -> str:
    """How an object is called in a message: `pod/x`, `job.batch/train`."""
    return f"{type_name(kind)}/{name}"


def type_name(kind: Kind) -> str:
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def _slashed(word: str, catalogue: Catalogue) -> Target:
    if "/" not in word:
        raise CommandError(
            f'"{word}" has no type: where one word is written TYPE/NAME, all have to be, as in pod/{word}'
        )
    type_word, _, name = word.partition("/")
    if not type_word or not name or "/" in name:
        raise CommandError(f'"{word}": write TYPE/NAME, as in pod/x')
    return Target(catalogue.find(type_word), (name,))


def _merged(targets: Sequence[Target]) -> list[Target]:
    merged: list[Target] = []
    for target in targets:
        if merged and merged[-1].kind is target.kind:
            merged[-1] = Target(target.kind, merged[-1].names + target.names)
        else:
            merged.append(target)
    return merged
