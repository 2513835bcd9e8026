"""The patches of an API server: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch.

A strategic merge patch is a merge patch that learns from the schema how to match the items of a list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import orjson

from muster.kube.errors import BadRequest, Cause, Invalid, TooLarge, join_path
from muster.kube.kinds import Schema

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The maximum total size of the `copy` operations of one patch. A few dozen could double a document into terabytes."""

MAX_MOVED_ITEMS = 100_000_000
"""The maximum number of list items that one patch moves. An insertion at the start of a list moves all others."""


def merge_patch(target: Any, patch: Any) -> Any:
    """Returns `target` with `patch` merged in: null removes, objects merge, everything else replaces. Neither is
    changed; the result shares unchanged parts."""
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
    """Returns the smallest merge patch that turns `old` into `new`. A merge patch cannot set a field to null, so a null
    in `new` means that the field is absent."""
    if not isinstance(new, dict) or not isinstance(old, dict):
        return new
    patch: dict[str, Any] = {name: None for name in old if new.get(name) is None and old[name] is not None}
    for name, value in new.items():
        if value is None or (name in old and json_equal(old[name], value)):
            continue
        patch[name] = diff_merge(old.get(name), value)
    return patch


def json_patch(target: Any, operations: Sequence[Any]) -> Any:
    """Returns `target` after all `operations`. Raises BadRequest for an invalid patch, and Invalid (422) for one that
    does not fit the target. `target` is not changed."""
    if not isinstance(operations, Sequence) or isinstance(operations, str | bytes):
        raise BadRequest(f"a JSON patch is a list of operations, not {_name_of_type(operations)}")
    if len(operations) > MAX_OPERATIONS:
        raise TooLarge(f"a JSON patch may have {MAX_OPERATIONS} operations; this one has {len(operations)}")
    run = _JsonPatch(target)
    for number, operation in enumerate(operations):
        run.apply(number, operation)
    return run.document


def json_equal(a: Any, b: Any) -> bool:
    """JSON equality: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(json_equal(v, b[k]) for k, v in a.items())
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(json_equal, a, b))
    return isinstance(a, bool) is isinstance(b, bool) and bool(a == b)


class _JsonPatch:
    """One patch being applied to a private copy of the target."""

    def __init__(self, target: Any) -> None:
        self.document = _copy(target)
        self._copied = self._moved = 0
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
            place = len(parent) if last == "-" else self._index(last, len(parent), path)
            self._count_moves(len(parent) - place)
            parent.insert(place, value)
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
        if isinstance(parent, dict):
            del parent[path[-1]]
        else:
            self._count_moves(len(parent) - int(path[-1]))
            del parent[int(path[-1])]

    def _count_moves(self, items: int) -> None:
        self._moved += items
        if self._moved > MAX_MOVED_ITEMS:
            raise TooLarge(f"{self._where} of the JSON patch: it moves more than {MAX_MOVED_ITEMS:,} items of lists")

    def _transfer(self, op: str, source: list[str], path: list[str]) -> None:
        value = self._get(source)
        if op == "copy":
            try:
                packed = orjson.dumps(value)
            except orjson.JSONEncodeError:
                self._fail(path, "the document would nest too deeply")
            self._copied += len(packed)
            if self._copied > MAX_COPIED_BYTES:
                raise TooLarge(f"{self._where} of the JSON patch: its copies exceed {MAX_COPIED_BYTES} bytes")
            self._add(path, orjson.loads(packed))
        elif source != path:
            if path[: len(source)] == source:
                self._fail(path, f"{_pointer_text(source)} cannot move into itself")
            self._remove(source)
            self._add(path, value)

    def _test(self, path: list[str], expected: Any) -> None:
        found = self._get(path)
        if not json_equal(found, expected):
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


# Strategic merge patch. A list is merged where its schema has `x-kubernetes-patch-strategy: merge`. Its items are
# objects that share the field `x-kubernetes-patch-merge-key`, or plain values. Every other list is replaced.


_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: Any, schema: Schema) -> Any:
    """Returns `target` with `patch` merged in. Neither is changed; the result shares unchanged parts. The patch may
    contain the directives `$patch: replace|delete|merge`, `$retainKeys`, `$setElementOrder/<list>` and
    `$deleteFromPrimitiveList/<list>`."""
    if not isinstance(patch, dict):
        _raise_invalid_patch("", "a strategic merge patch must be an object")
    return _merge_object(target if isinstance(target, dict) else {}, patch, schema, "")


def _merge_object(target: dict[str, Any], patch: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive not in ("merge", "replace"):
        _raise_invalid_patch(path, f'"$patch: {directive}" is unknown; it may be replace, delete or merge')
    merged = {} if directive == "replace" else dict(target)
    if _RETAIN in patch:
        kept = _apply_retain_keys(patch, path)
        merged = {name: value for name, value in merged.items() if name in kept}
    orders = _directive_lists(_ORDER, patch, path)
    deletions = _directive_lists(_DELETE, patch, path)
    plain = [name for name in patch if name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_ORDER, _DELETE))]
    for name in dict.fromkeys([*plain, *orders, *deletions]):
        at = join_path(path, name)
        child = _child(schema, name)
        old = merged.get(name)
        if name in patch and not isinstance(patch[name], list):
            if name in orders or name in deletions:
                _raise_invalid_patch(at, "the patch orders or deletes items of this field, so its value must be a list")
            _set(merged, name, _merge_value(old, patch[name], child, at))
        elif name not in patch and not isinstance(old, list):
            continue  # directives for a list that does not exist
        else:
            live = old if isinstance(old, list) else []
            merged[name] = _merge_list(live, patch.get(name), child, at, orders.get(name), deletions.get(name))
    return merged


def _merge_value(old: Any, new: Any, schema: Schema, path: str) -> Any:
    """Returns None if the field is removed."""
    if not isinstance(new, dict):
        return new
    if not isinstance(old, dict):
        return None if new.get(_DIRECTIVE) == "delete" else _merge_object({}, new, schema, path)
    return _merge_object({} if "replace" in _strategies(schema) else old, new, schema, path)


def _merge_list(
    live: list[Any], patch: list[Any] | None, schema: Schema, path: str, order: list[Any] | None, gone: list[Any] | None
) -> list[Any]:
    if "merge" not in _strategies(schema):
        if order is not None or gone is not None:
            _raise_invalid_patch(
                path, "this list is replaced as a whole: it can neither be ordered nor can items be deleted from it"
            )
        return list(patch or [])
    key = schema.get("x-kubernetes-patch-merge-key", "")
    if key:
        if gone is not None:
            _raise_invalid_patch(path, f"items of this list are deleted with $patch: delete and their {key}")
        merged, present = _merge_items(live, patch or [], schema.get("items") or {}, key, path)
    else:
        present = patch or []
        deleted = _index_items(gone or [], key)
        united = {_identity(item, key): item for item in reversed([*live, *present])}
        merged = [item for identity, item in reversed(united.items()) if identity not in deleted]
    if order is not None:
        _check_order(present, order, key, path)
        present = order
    return _sort_items(merged, present, live, key)


def _merge_items(
    live: list[Any], patch: list[Any], items: Schema, key: str, path: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    """Returns the merged items, and the patch's items that must be present."""
    wanted: list[dict[str, Any]] = []
    deleted: set[bytes] = set()
    replace = False
    for number, item in enumerate(patch):
        at = f"{path}[{number}]"
        if not isinstance(item, dict):
            _raise_invalid_patch(at, "the items of this list are objects")
        directive = item.get(_DIRECTIVE, "merge")
        if directive == "replace":
            if len(item) > 1:
                _raise_invalid_patch(
                    at, "$patch: replace replaces the whole list; write it as an item of its own, all alone"
                )
            replace = True
        elif directive not in ("merge", "delete"):
            _raise_invalid_patch(at, f'"$patch: {directive}" is unknown; it may be replace, delete or merge')
        elif item.get(key) is None:
            _raise_invalid_patch(join_path(at, key), f"required: the items of this list are identified by their {key}")
        elif directive == "delete":
            deleted.add(_identity(item, key))
        else:
            wanted.append(item)
    merged = [] if replace else [old for old in live if _identity(old, key) not in deleted]
    places = _index_items(merged, key)
    for item in wanted:
        place = places.setdefault(_identity(item, key), len(merged))
        at = f"{path}[{key}={item[key]}]"
        if place == len(merged):
            merged.append(_merge_object({}, item, items, at))
        else:
            merged[place] = _merge_object(merged[place], item, items, at)
    return merged, wanted


def _sort_items(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items named in `order` come in its order, others in the order of the live list. Between the two, the live order
    applies if it has both, otherwise named items come first."""
    wanted, known = _index_items(order, key), _index_items(live, key)
    named = [item for item in merged if _identity(item, key) in wanted]
    named.sort(key=lambda item: wanted[_identity(item, key)])
    others = [item for item in merged if _identity(item, key) not in wanted]
    result: list[Any] = []
    taken = 0
    for item in named:
        place = known.get(_identity(item, key), -1)
        while taken < len(others) and known.get(_identity(others[taken], key), place) < place:
            result.append(others[taken])
            taken += 1
        result.append(item)
    return result + others[taken:]


def _check_order(patch: list[Any], order: list[Any], key: str, path: str) -> None:
    wanted = _index_items(order, key)
    places = [wanted.get(_identity(item, key), -1) for item in patch]
    if -1 in places:
        missing = patch[places.index(-1)]
        _raise_invalid_patch(
            path, f"$setElementOrder does not name {missing[key] if key else missing}, which the patch has"
        )
    if places != sorted(places):
        _raise_invalid_patch(path, "$setElementOrder has another order than the patch's own list")


def _apply_retain_keys(patch: dict[str, Any], path: str) -> list[str]:
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        _raise_invalid_patch(join_path(path, _RETAIN), "must be a list of field names")
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in kept:
            _raise_invalid_patch(
                join_path(path, name), "the patch sets this field, but its $retainKeys does not name it"
            )
    return kept


def _directive_lists(prefix: str, patch: dict[str, Any], path: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in patch.items():
        if name.startswith(prefix):
            if not isinstance(value, list):
                _raise_invalid_patch(join_path(path, name), "must be a list")
            found[name.removeprefix(prefix)] = value
    return found


def _set(merged: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        merged.pop(name, None)
    else:
        merged[name] = value


def _identity(item: Any, key: str) -> bytes:
    """Identifies an item of a list, for lookups in long lists."""
    if key:
        item = item.get(key) if isinstance(item, dict) else [item]
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


def _index_items(items: list[Any], key: str) -> dict[bytes, int]:
    """Returns the first position of each item."""
    return {_identity(items[place], key): place for place in reversed(range(len(items)))}


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _child(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _raise_invalid_patch(path: str, why: str) -> NoReturn:
    message = f"strategic merge patch: {path}: {why}" if path else why
    raise BadRequest(message, causes=[Cause(path, why)])
