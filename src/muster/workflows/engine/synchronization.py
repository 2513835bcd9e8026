"""Mutexes and semaphores that a workflow or a template asks for, and how `status.synchronization` tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from muster.workflows.engine.arguments import ConfigMaps
from muster.workflows.engine.errors import Refused


class Lock(NamedTuple):
    name: str
    """`default/Mutex/gpu`, `default/ConfigMap/limits/gpu`"""
    kind: str
    """`mutex` or `semaphore`"""
    config_map: str = ""
    key: str = ""
    in_database: bool = False


def locks_of(written: Mapping[str, Any], namespace: str) -> list[Lock]:
    """All locks of a `synchronization`, in the spellings of v3.7 and v4.0. Raises Refused."""
    found = [_semaphore(s, namespace) for s in _both(written, "semaphores", "semaphore")]
    found += [_mutex(m, namespace) for m in _both(written, "mutexes", "mutex")]
    if len({lock.name for lock in found}) < len(found):
        raise Refused("requested configuration is invalid: duplicate synchronization item found")
    return found


def limit_of(lock: Lock, config_maps: ConfigMaps) -> int:
    """How many may hold it at a time. Raises Refused."""
    if lock.kind == "mutex":
        return 1
    data = config_maps(lock.config_map)
    problem = f"failed to initialize semaphore {lock.name} with limit"
    if data is None:
        raise Refused(f"{problem}: ConfigMap '{lock.config_map}' does not exist")
    text = data.get(lock.key)
    if text is None:
        raise Refused(f"{problem}: ConfigMap '{lock.config_map}' has no key '{lock.key}'")
    if not text.strip().isdecimal() or not int(text):
        raise Refused(f"{problem}: '{text}' is no whole number above 0")
    return int(text)


class Holdings:
    """Who of this workflow holds or awaits which lock, as `status.synchronization` has it."""

    def __init__(self, status: Mapping[str, Any] | None) -> None:
        self.holding: dict[str, dict[str, None]] = {}
        self.waiting: dict[str, dict[str, None]] = {}
        self.kinds: dict[str, str] = {}
        self.changed = False
        status = status or {}
        for kind in ("semaphore", "mutex"):
            for word, table in (("holding", self.holding), ("waiting", self.waiting)):
                for entry in (status.get(kind) or {}).get(word) or ():
                    holders = entry.get("holders") or ([entry["holder"]] if entry.get("holder") else [])
                    table[entry[kind]] = dict.fromkeys(holders)
                    self.kinds[entry[kind]] = kind

    def hold(self, lock: Lock, holder: str) -> None:
        self.kinds[lock.name] = lock.kind
        if holder not in self.holding.setdefault(lock.name, {}):
            self.holding[lock.name][holder] = None
            self.changed = True
        self._forget(self.waiting, lock.name, holder)

    def wait(self, lock: Lock, holder: str) -> None:
        self.kinds[lock.name] = lock.kind
        if holder not in self.waiting.setdefault(lock.name, {}):
            self.waiting[lock.name][holder] = None
            self.changed = True

    def release(self, lock: str, holder: str) -> None:
        self._forget(self.holding, lock, holder)
        self._forget(self.waiting, lock, holder)

    def of(self, holder: str) -> list[str]:
        """The locks that one holds or awaits."""
        return [
            name for name in self.kinds if holder in self.holding.get(name, {}) or holder in self.waiting.get(name, {})
        ]

    def status(self) -> dict[str, Any] | None:
        out: dict[str, Any] = {}
        for word, table in (("holding", self.holding), ("waiting", self.waiting)):
            for name, holders in table.items():
                kind = self.kinds[name]
                if kind == "semaphore":
                    entries = [{kind: name, "holders": list(holders)}]
                else:
                    entries = [{kind: name, "holder": holder} for holder in holders]
                out.setdefault(kind, {}).setdefault(word, []).extend(entries)
        return out or None

    def _forget(self, table: dict[str, dict[str, None]], lock: str, holder: str) -> None:
        holders = table.get(lock)
        if holders is not None and holder in holders:
            del holders[holder]
            self.changed = True
            if not holders:
                del table[lock]


def _both(written: Mapping[str, Any], many: str, one: str) -> list[Mapping[str, Any]]:
    single = written.get(one)
    return [*(written.get(many) or ()), *([single] if single else ())]


def _semaphore(written: Mapping[str, Any], namespace: str) -> Lock:
    where, ref = str(written.get("namespace") or namespace), written.get("configMapKeyRef")
    if written.get("database"):
        key = written["database"].get("key")
        raise Refused(
            f"semaphore '{where}/{key}' takes its limit from a database, and there is none here: "
            "use configMapKeyRef instead"
        )
    if not ref:
        raise Refused("cannot get LockName for a Semaphore without a configMapKeyRef")
    name, key = str(ref.get("name") or ""), str(ref.get("key") or "")
    return Lock(f"{where}/ConfigMap/{name}/{key}", "semaphore", name, key)


def _mutex(written: Mapping[str, Any], namespace: str) -> Lock:
    where, name = str(written.get("namespace") or namespace), str(written.get("name") or "")
    in_database = bool(written.get("database"))
    return Lock(f"{where}/{'Database' if in_database else 'Mutex'}/{name}", "mutex", in_database=in_database)
