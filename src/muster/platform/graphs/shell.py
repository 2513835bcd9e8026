"""Which variables a shell text uses. A guess, good enough for a warning: nobody but the shell itself knows."""

from __future__ import annotations

import re
from typing import NamedTuple

_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*"|<<-?\s*(['"])(\w+)\1.*?^\t*\2$""", re.DOTALL | re.MULTILINE)
_USED = re.compile(r"\\.|\$(?:\{[#!]?)?([A-Za-z_]\w*)", re.DOTALL | re.ASCII)
_SET = re.compile(
    r"(?:^|[;&|({\s])(?:(?:export|local|readonly|declare)\s+)?([A-Za-z_]\w*)\+?=|\bfor\s+([A-Za-z_]\w*)\b"
    r"|\$\{([A-Za-z_]\w*):?=|\bread(?:\s+-\w+)*((?:\s+[A-Za-z_]\w*)+)",
    re.ASCII,
)


class Variables(NamedTuple):
    used: list[str]
    """As $name or ${name}, each once, in order; not in single quotes."""
    set: set[str]
    """By the text itself."""


def variables_in(text: str) -> Variables:
    bare = _QUOTED.sub(_unquoted, text)
    used = dict.fromkeys(found[1] for found in _USED.finditer(bare) if found[1])
    names: set[str] = set()
    for found in _SET.finditer(bare):
        names.update(name for group in found.groups() if group for name in group.split())
    return Variables(list(used), names)


def mentions(text: str, name: str) -> bool:
    """Whether the name stands anywhere in it: a Python program inside of it may ask for the variable by name."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _unquoted(found: re.Match[str]) -> str:
    whole = found[0]
    return "''" if whole.startswith("'") or found[1] else whole
