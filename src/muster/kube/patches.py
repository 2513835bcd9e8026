"""The two patches that need no schema: JSON merge patch (RFC 7386) and JSON patch (RFC 6902)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import orjson

from muster.kube.errors import BadRequest, Cause, Invalid, TooLarge

MOST_OPERATIONS = 10_000
MOST_COPIED_BYTES = 3 * 1024 * 1024
"""What the `copy` operations of one patch may add up to: a few dozen of them can double a document into terabytes."""


def merge_patch(target: Any, patch: Any) -> Any:
    """`target` with `patch` merged in: null removes, objects merge, everything else replaces. Neither is changed; the
    answer shares what both left alone."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = merge_patch(merged.get(name), value)
        else:
            merged[name] = value
    return merged


def diff_merge(old: Any, new: Any) -> Any:
    """The smallest merge patch that turns `old` into `new`. A merge patch cannot set a field to null, so a null in
    `new` means that the field is not there."""
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    patch: dict[str, Any] = {name: None for name in old if new.get(name) is None and old[name] is not None}
    for name, value in new.items():
        if value is None or (name in old and same_json(old[name], value)):
            continue
        patch[name] = diff_merge(old.get(name), value)
    return patch


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """`target` after all `operations`, or an error and nothing done: BadRequest for a patch that is none, Invalid (422)
    for one that does not fit the target. `target` is not changed."""
    if not isinstance(operations, Sequence) or isinstance(operations, str | bytes):
        raise BadRequest(f"a JSON patch is a list of operations, not {_name_of_type(operations)}")
    if len(operations) > MOST_OPERATIONS:
        raise TooLarge(f"a JSON patch may have {MOST_OPERATIONS} operations; this one has {len(operations)}")
    run = _Run(target)
    for number, operation in enumerate(operations):
        run.apply(number, operation)
    return run.document


def same_json(a: Any, b: Any) -> bool:
    """Equality as JSON has it: 1 and 1.0 are the same number, 1 and true are not the same thing."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same_json(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same_json, a, b))
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


class _Run:
    """One patch being applied to a private copy of the target."""

    def __init__(self, target: Any) -> None:
        self.document = _copy(target)
        self._copied = 0
        self._where = ""

    def apply(self, number: int, operation: Any) -> None:
        self._where = f"operation {number}"
        if not isinstance(operation, dict):
            raise BadRequest(f"{self._where} of the JSON patch is {_name_of_type(operation)}, not an object")
        op = operation.get("op")
        if op not in ("add", "remove", "replace", "move", "copy", "test"):
            raise BadRequest(
                f'{self._where} of the JSON patch: "op" is {op!r}; one of add, remove, replace, move, copy, test'
            )
        self._where = f"operation {number} ({op})"
        path = self._pointer(operation, "path")
        if op == "remove":
            self._remove(path)
        elif op == "add":
            self._add(path, _copy(self._value(operation)))
        elif op == "replace":
            self._get(path)
            self._put(path, _copy(self._value(operation)))
        elif op == "test":
            self._test(path, self._value(operation))
        else:
            self._transfer(op, self._pointer(operation, "from"), path)

    def _pointer(self, operation: dict[str, Any], member: str) -> list[str]:
        text = operation.get(member)
        if not isinstance(text, str):
            raise BadRequest(f'{self._where} of the JSON patch has no "{member}"')
        if text and not text.startswith("/"):
            raise BadRequest(f'{self._where} of the JSON patch: "{member}" is "{text}", which does not start with "/"')
        return [step.replace("~1", "/").replace("~0", "~") for step in text.split("/")[1:]]

    def _value(self, operation: dict[str, Any]) -> Any:
        if "value" not in operation:
            raise BadRequest(f'{self._where} of the JSON patch has no "value"')
        return operation["value"]

    def _get(self, path: list[str]) -> Any:
        found = self.document
        for depth, step in enumerate(path):
            found = self._child(found, step, path[: depth + 1])
        return found

    def _child(self, parent: Any, step: str, path: list[str]) -> Any:
        if isinstance(parent, dict):
            if step not in parent:
                self._fail(path, "there is no such field")
            return parent[step]
        if isinstance(parent, list):
            return parent[self._index(step, len(parent) - 1, path)]
        return self._fail(path, f"its parent is {_name_of_type(parent)}, which has no fields")

    def _add(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent, last = self._get(path[:-1]), path[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif isinstance(parent, list):
            parent.insert(len(parent) if last == "-" else self._index(last, len(parent), path), value)
        else:
            self._fail(path, f"its parent is {_name_of_type(parent)}, which takes no fields")

    def _put(self, path: list[str], value: Any) -> None:
        if not path:
            self.document = value
            return
        parent, last = self._get(path[:-1]), path[-1]
        parent[last if isinstance(parent, dict) else int(last)] = value

    def _remove(self, path: list[str]) -> None:
        if not path:
            self._fail(path, "the whole document cannot be removed")
        parent = self._get(path[:-1])
        self._child(parent, path[-1], path)
        del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]

    def _transfer(self, op: str, source: list[str], path: list[str]) -> None:
        value = self._get(source)
        if op == "copy":
            try:
                packed = orjson.dumps(value)
            except orjson.JSONEncodeError:
                self._fail(path, "the document would nest too deeply")
            self._copied += len(packed)
            if self._copied > MOST_COPIED_BYTES:
                raise TooLarge(f"{self._where} of the JSON patch: its copies exceed {MOST_COPIED_BYTES} bytes")
            self._add(path, orjson.loads(packed))
        elif source != path:
            if path[: len(source)] == source:
                self._fail(path, f"{_pointer_text(source)} cannot move into itself")
            self._remove(source)
            self._add(path, value)

    def _test(self, path: list[str], expected: Any) -> None:
        found = self._get(path)
        if not same_json(found, expected):
            self._fail(path, f"the test failed: expected {_short(expected)}, found {_short(found)}")

    def _index(self, step: str, largest: int, path: list[str]) -> int:
        if step == "-":
            self._fail(path, '"-" stands for the place after the last element, where only "add" can go')
        if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0"):
            self._fail(path, f'"{step}" is not an index of a list')
        if len(step) > 9 or int(step) > largest:
            self._fail(path, f"index {step} is beyond the end of the list")
        return int(step)

    def _fail(self, path: list[str], why: str) -> NoReturn:
        at = _pointer_text(path)
        message = f'{self._where} of the JSON patch cannot be applied at "{at}": {why}'
        raise Invalid(message, causes=[Cause(at, message)])


def _pointer_text(path: list[str]) -> str:
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in path)


def _copy(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value)) if isinstance(value, dict | list) else value


def _short(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}..."


def _name_of_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
