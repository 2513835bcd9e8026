"""Strategic merge patch: a merge patch that knows from the schema how to tell the items of a list apart.

A list is merged where its schema has `x-kubernetes-patch-strategy: merge`; its items are objects with the field
`x-kubernetes-patch-merge-key` in common, or plain values. Every other list is replaced.
"""

from __future__ import annotations

from typing import Any, NoReturn

import orjson

from muster.kube.errors import BadRequest, Cause
from muster.kube.kinds import Schema
from muster.kube.paths import join_path

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: Any, schema: Schema) -> Any:
    """`target` with `patch` merged in; neither is changed, and the answer shares what the patch left alone. The patch
    may carry the directives `$patch: replace|delete|merge`, `$retainKeys`, `$setElementOrder/<list>` and
    `$deleteFromPrimitiveList/<list>`."""
    if not isinstance(patch, dict):
        _refuse("", "a strategic merge patch must be an object")
    return _merge_object(target if isinstance(target, dict) else {}, patch, schema, "")


def _merge_object(target: dict[str, Any], patch: dict[str, Any], schema: Schema, path: str) -> dict[str, Any]:
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "delete":
        return {}
    if directive not in ("merge", "replace"):
        _refuse(path, f'"$patch: {directive}" is unknown; it may be replace, delete or merge')
    merged = {} if directive == "replace" else dict(target)
    if _RETAIN in patch:
        kept = _retained(patch, path)
        merged = {name: value for name, value in merged.items() if name in kept}
    orders = _lists_for(_ORDER, patch, path)
    deletions = _lists_for(_DELETE, patch, path)
    plain = [name for name in patch if name not in (_DIRECTIVE, _RETAIN) and not name.startswith((_ORDER, _DELETE))]
    for name in dict.fromkeys([*plain, *orders, *deletions]):
        at = join_path(path, name)
        child = _child(schema, name)
        old = merged.get(name)
        if name in patch and not isinstance(patch[name], list):
            if name in orders or name in deletions:
                _refuse(at, "the patch orders or deletes items of this field, so its value must be a list")
            _set(merged, name, _merged_value(old, patch[name], child, at))
        elif name not in patch and not isinstance(old, list):
            continue  # directives for a list that is not there
        else:
            live = old if isinstance(old, list) else []
            merged[name] = _merge_list(live, patch.get(name), child, at, orders.get(name), deletions.get(name))
    return merged


def _merged_value(old: Any, new: Any, schema: Schema, path: str) -> Any:
    """None where the field goes."""
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
            _refuse(
                path, "this list is replaced as a whole: it can neither be ordered nor can items be deleted from it"
            )
        return list(patch or [])
    key = schema.get("x-kubernetes-patch-merge-key", "")
    if key:
        if gone is not None:
            _refuse(path, f"items of this list are deleted with $patch: delete and their {key}")
        merged, present = _merge_items(live, patch or [], schema.get("items") or {}, key, path)
    else:
        present = patch or []
        deleted = _places(gone or [], key)
        united = {_identity(item, key): item for item in reversed([*live, *present])}
        merged = [item for identity, item in reversed(united.items()) if identity not in deleted]
    if order is not None:
        _check_order(present, order, key, path)
        present = order
    return _in_order(merged, present, live, key)


def _merge_items(
    live: list[Any], patch: list[Any], items: Schema, key: str, path: str
) -> tuple[list[Any], list[dict[str, Any]]]:
    """The merged items, and those of the patch that are to be there."""
    wanted: list[dict[str, Any]] = []
    deleted: set[bytes] = set()
    replace = False
    for number, item in enumerate(patch):
        at = f"{path}[{number}]"
        if not isinstance(item, dict):
            _refuse(at, "the items of this list are objects")
        directive = item.get(_DIRECTIVE, "merge")
        if directive == "replace":
            if len(item) > 1:
                _refuse(at, "$patch: replace replaces the whole list; write it as an item of its own, all alone")
            replace = True
        elif directive not in ("merge", "delete"):
            _refuse(at, f'"$patch: {directive}" is unknown; it may be replace, delete or merge')
        elif item.get(key) is None:
            _refuse(join_path(at, key), f"required: the items of this list are told apart by their {key}")
        elif directive == "delete":
            deleted.add(_identity(item, key))
        else:
            wanted.append(item)
    merged = [] if replace else [old for old in live if _identity(old, key) not in deleted]
    places = _places(merged, key)
    for item in wanted:
        place = places.setdefault(_identity(item, key), len(merged))
        at = f"{path}[{key}={item[key]}]"
        if place == len(merged):
            merged.append(_merge_object({}, item, items, at))
        else:
            merged[place] = _merge_object(merged[place], item, items, at)
    return merged, wanted


def _in_order(merged: list[Any], order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Items that `order` names come in its order, the others in that of the live list. Between the two, the live order
    counts where it knows both, and else those that are named come first."""
    wanted, known = _places(order, key), _places(live, key)
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
    wanted = _places(order, key)
    places = [wanted.get(_identity(item, key), -1) for item in patch]
    if -1 in places:
        missing = patch[places.index(-1)]
        _refuse(path, f"$setElementOrder does not name {missing[key] if key else missing}, which the patch has")
    if places != sorted(places):
        _refuse(path, "$setElementOrder has another order than the patch's own list")


def _retained(patch: dict[str, Any], path: str) -> list[str]:
    kept = patch[_RETAIN]
    if not isinstance(kept, list):
        _refuse(join_path(path, _RETAIN), "must be a list of field names")
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in kept:
            _refuse(join_path(path, name), "the patch sets this field, but its $retainKeys does not name it")
    return kept


def _lists_for(prefix: str, patch: dict[str, Any], path: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in patch.items():
        if name.startswith(prefix):
            if not isinstance(value, list):
                _refuse(join_path(path, name), "must be a list")
            found[name.removeprefix(prefix)] = value
    return found


def _set(merged: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        merged.pop(name, None)
    else:
        merged[name] = value


def _identity(item: Any, key: str) -> bytes:
    """What tells the items of a list apart, so that long lists can be looked up."""
    if key:
        item = item.get(key) if isinstance(item, dict) else [item]
    return orjson.dumps(item, option=orjson.OPT_SORT_KEYS)


def _places(items: list[Any], key: str) -> dict[bytes, int]:
    """Where each item is first found."""
    return {_identity(items[place], key): place for place in reversed(range(len(items)))}


def _strategies(schema: Schema) -> list[str]:
    return str(schema.get("x-kubernetes-patch-strategy", "")).split(",")


def _child(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or {}).get(name, schema.get("additionalProperties"))
    return found if isinstance(found, dict) else {}


def _refuse(path: str, why: str) -> NoReturn:
    message = f"strategic merge patch: {path}: {why}" if path else why
    raise BadRequest(message, causes=[Cause(path, why)])
