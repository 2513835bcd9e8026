"""YAML as Kubernetes reads and writes it.

Scalars follow YAML 1.1 with three exceptions that Kubernetes makes: times stay strings, there are no base-60 numbers,
and `y` and `n` are booleans. What comes out is what JSON can hold.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from muster.kube.objects import Object

_WORDS: dict[str, Any] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NOT_A_NUMBER = frozenset(
    sign + word for sign in ("", "+", "-") for word in (".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF")
)
_MAY_BE_SPECIAL = frozenset("+-.0123456789yYnNtTfFoO~")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_OCTAL = re.compile(r"[-+]?0[0-7]+")
_TIME = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([Tt ].*)?")
_LARGEST = 2**64 - 1


class NotJson(ValueError):
    """A value that YAML can write and JSON cannot."""


def scalar(text: str) -> Any:
    """The value of an unquoted scalar."""
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    word = _WORDS.get(text, text)
    if word is not text:
        return word
    if text in _NOT_A_NUMBER:
        raise NotJson(f"{text} cannot be stored: JSON has no such number")
    if text[0].isdigit() or text[0] in "+-.":
        return _number(text)
    return text


def key(value: Any) -> str:
    """A key of a mapping: Kubernetes turns numbers and booleans into the text that JSON has for them."""
    if isinstance(value, str):
        return value
    if value is True or value is False:
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _number(text: str) -> Any:
    plain = text.replace("_", "")
    if text[0] != ".":
        try:
            number = int(plain, 8 if _OCTAL.fullmatch(plain) else 0)
        except ValueError:
            pass
        else:
            return number if -(2**63) <= number <= _LARGEST else _whole(float(number))
    return _whole(float(plain)) if _FLOAT.fullmatch(plain) else text


def _whole(number: float) -> int | float:
    """JSON does not tell 3.0 from 3."""
    if number in (float("inf"), float("-inf")):
        raise NotJson("this number is too large")
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def dump(obj: Object) -> str:
    """The object as `kubectl get -o yaml` prints it: keys in alphabetical order, lists not indented."""
    text: str = yaml.dump(obj, Dumper=_Dumper, default_flow_style=False, width=10**6, allow_unicode=True)
    return text


def _represent_string(dumper: Any, text: str) -> Any:
    style = None
    if "\n" in text:
        style = "|"
    elif _reads_otherwise(text):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _reads_otherwise(text: str) -> bool:
    try:
        return not isinstance(scalar(text), str) or _TIME.fullmatch(text) is not None or text in ("=", "<<")
    except NotJson:
        return True


_Dumper: Any = type(
    "_Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {"ignore_aliases": lambda self, data: True}
)
_Dumper.add_representer(str, _represent_string)
