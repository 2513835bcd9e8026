"""Memoization: results of templates, cached in ConfigMaps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from muster.workflows.engine.clock import format_timestamp, parse_duration_field, parse_timestamp
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.templates import ConfigMaps
from muster.workflows.model import Memo, Node, Outputs

_KEY = re.compile(r"^[a-zA-Z0-9][-a-zA-Z0-9]*$")


def find_memo(
    memoize: Mapping[str, Any],
    config_maps: ConfigMaps,
    now: datetime,
    recent: Mapping[tuple[str, str], Memo],
) -> tuple[dict[str, Any], Outputs | None]:
    """Returns the node's memoizationStatus, and the outputs if they are cached. `recent` holds memos of the same run by
    cache and key. Raises WorkflowError."""
    key = str(memoize.get("key") or "")
    name = str(((memoize.get("cache") or {}).get("configMap") or {}).get("name") or "")
    if not name:
        raise WorkflowError("memoize needs cache.configMap.name: the ConfigMap that stores the results")
    if not _KEY.match(key):
        raise WorkflowError(f"invalid cache key: {key} (use letters, digits and dashes; the first is no dash)")
    longest = parse_duration_field(memoize["maxAge"], "memoize.maxAge") if memoize.get("maxAge") else None
    if (name, key) in recent:
        return {"hit": True, "key": key, "cacheName": name}, recent[name, key].outputs
    entry = _entry(config_maps(name), key)
    hit = entry is not None and bool(entry.get("nodeID"))
    if hit and entry is not None and longest is not None:
        hit = now - parse_timestamp(str(entry.get("creationTimestamp") or "1970-01-01T00:00:00Z")) <= longest
    status = {"hit": hit, "key": key, "cacheName": name}
    return status, _checked_outputs(entry.get("outputs") or {}, key) if hit and entry is not None else None


def memo_from_node(node: Node) -> Memo | None:
    """Returns the memo of a node that has succeeded."""
    status = node.get("memoizationStatus")
    if not status or status.get("hit"):
        return None
    return Memo(status["cacheName"], status["key"], node["id"], node.get("outputs") or Outputs())


def entry_text(memo: Memo, now: datetime) -> str:
    """Returns the value to store under the memo's key."""
    entry = {
        "nodeID": memo.node,
        "outputs": memo.outputs,
        "creationTimestamp": format_timestamp(now),
        "lastHitTimestamp": format_timestamp(now),
    }
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def _checked_outputs(outputs: Any, key: str) -> Outputs:
    """Anybody who may write ConfigMaps can write an entry. Raises WorkflowError if these cannot be a node's outputs."""
    valid = isinstance(outputs, dict) and outputs.keys() <= Outputs.__annotations__.keys()
    valid = valid and all(isinstance(outputs.get(field, ""), str) for field in ("result", "exitCode"))
    for field in ("parameters", "artifacts"):
        entries = outputs.get(field, []) if valid else []
        valid = valid and isinstance(entries, list) and all(_is_named(entry) for entry in entries)
    if valid and all(isinstance(p.get("value", ""), str) for p in outputs.get("parameters", ())):
        return cast(Outputs, outputs)
    raise WorkflowError(f"malformed cache entry '{key}': its outputs are not those of a node")


def _is_named(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("name"), str)


def _entry(data: Mapping[str, str] | None, key: str) -> dict[str, Any] | None:
    text = (data or {}).get(key)
    if not text:
        return None
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise WorkflowError(
            f"malformed cache entry '{key}': could not unmarshal JSON; unable to parse: {error}"
        ) from None
    return entry if isinstance(entry, dict) else None
