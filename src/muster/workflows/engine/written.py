"""Items of a JSON list as they were written: Argo hands on `1.50` as `1.50`, and what is nested in an item in its own
order. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from muster.workflows.expressions.gojson import to_json

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|[ \t\r\n]+')
_HTML = re.compile("[<>&\u2028\u2029]")


class Written(str):
    """JSON that is no text, such as a number, in the writer's own words, but without spaces."""

    __slots__ = ()


def items_as_written(text: str) -> list[Any]:
    """Of a text that is known to be a JSON list. Items are texts, booleans, None and Written, and lists and maps of
    these."""
    return [_item(part) for part in _parts(text, _past_space(text, 0) + 1)]


def json_of(item: Any) -> str:
    """An item in JSON again, the keys of a map sorted; nested ones are as they were."""
    if isinstance(item, Written):
        return _HTML.sub(lambda found: f"\\u{ord(found[0]):04x}", item)
    if isinstance(item, dict):
        return "{" + ",".join(f"{to_json(key)}:{json_of(item[key])}" for key in sorted(item)) + "}"
    if isinstance(item, list):
        return "[" + ",".join(json_of(inner) for inner in item) + "]"
    return to_json(item)


def _item(text: str) -> Any:
    if text.startswith("["):
        return [_leaf(part) for part in _parts(text, 1)]
    if text.startswith("{"):
        return dict(_pairs(text))
    return _leaf(text)


def _leaf(text: str) -> Any:
    if text.startswith('"') or text in ("true", "false", "null"):
        return json.loads(text)
    return Written(_TEXT_OR_SPACE.sub(lambda found: found[1] or "", text))


def _parts(text: str, at: int) -> Iterator[str]:
    """Those of a list, from behind its bracket."""
    at = _past_space(text, at)
    while text[at] != "]":
        start = _past_space(text, at + 1) if text[at] == "," else at
        _, at = _DECODER.raw_decode(text, start)
        yield text[start:at]
        at = _past_space(text, at)


def _pairs(text: str) -> Iterator[tuple[str, Any]]:
    at = _past_space(text, 1)
    while text[at] != "}":
        start = _past_space(text, at + 1) if text[at] == "," else at
        key, colon = _DECODER.raw_decode(text, start)
        start = _past_space(text, _past_space(text, colon) + 1)
        _, at = _DECODER.raw_decode(text, start)
        yield key, _leaf(text[start:at])
        at = _past_space(text, at)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
