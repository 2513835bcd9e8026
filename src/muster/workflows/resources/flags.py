"""`resource.flags`: the options of kubectl that mean something here. Any other is refused by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from muster.kube.cluster import Propagation
from muster.workflows.resources.errors import ResourceError


@dataclass(frozen=True, slots=True)
class Flags:
    """What they ask for. `words` are those that are no options: a kind and names, `pod web` or `pod/web`."""

    words: tuple[str, ...] = ()
    namespace: str = ""
    selector: str = ""
    field_selector: str = ""
    all: bool = False
    ignore_not_found: bool = False
    wait: bool = True
    strict: bool = True
    """Unknown fields are an error; without, they are left out."""
    force: bool = False
    server_side: bool = False
    force_conflicts: bool = False
    grace_seconds: int | None = None
    propagation: Propagation = "Background"
    field_manager: str = "argo"
    dry_run: bool = False


class _Option(NamedTuple):
    """`read` answers what becomes of the Flags, and raises ValueError with what may be written."""

    actions: str
    """Empty: all of them."""
    read: Callable[[str], dict[str, Any]]
    alone: str | None = None
    """What it means without a value; None: it needs one, which may be the next word."""


def parse_flags(action: str, flags: Sequence[str]) -> Flags:
    """Raises ResourceError with the place of a flag that has no meaning here."""
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
            raise ResourceError(f'{where}: "{flag}" has no meaning here; these have: {_known(action)}')
        if option.actions and action not in option.actions.split():
            raise ResourceError(
                f'{where}: "{flag}" goes with {" and ".join(option.actions.split())}, not with {action}'
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


def _truth(field: str) -> Callable[[str], dict[str, Any]]:
    return _choice(field, {"true": True, "false": False})


def _seconds(value: str) -> dict[str, Any]:
    if not value.removeprefix("-").isdigit():
        raise ValueError("a number of seconds")
    return {"grace_seconds": int(value) if int(value) >= 0 else None}


def _nothing(value: str) -> dict[str, Any]:
    return {}


_OPTIONS = {
    "namespace": _Option("", _text("namespace")),
    "selector": _Option("get delete", _text("selector")),
    "field-selector": _Option("get delete", _text("field_selector")),
    "all": _Option("delete", _truth("all"), "true"),
    "ignore-not-found": _Option("get delete", _truth("ignore_not_found"), "true"),
    "wait": _Option("delete", _truth("wait"), "true"),
    "now": _Option("delete", _choice("grace_seconds", {"true": 1, "false": None}), "true"),
    "force": _Option("delete replace", _truth("force"), "true"),
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
    "server-side": _Option("apply", _truth("server_side"), "true"),
    "force-conflicts": _Option("apply", _truth("force_conflicts"), "true"),
    "field-manager": _Option("create apply replace patch", _text("field_manager")),
    "save-config": _Option("create replace patch", _nothing, "true"),  # a note for later applies, which need none here
    "record": _Option("", _nothing, "true"),
    "overwrite": _Option("apply", _nothing, "true"),
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
