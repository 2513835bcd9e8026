"""Mutexes and semaphores: what workflows and templates ask for, the locks of one run, and the table of all locks."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from muster.kube.objects import meta
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.templates import ConfigMaps

if TYPE_CHECKING:
    from muster.workflows.engine.call import Call
    from muster.workflows.engine.run import Run
    from muster.workflows.engine.work_queue import Position


class Lock(NamedTuple):
    name: str
    """`default/Mutex/gpu`, `default/ConfigMap/limits/gpu`"""
    kind: str
    """`mutex` or `semaphore`"""
    config_map: str = ""
    key: str = ""
    in_database: bool = False


def locks_of(written: Mapping[str, Any], namespace: str) -> list[Lock]:
    """Returns all locks of a `synchronization`, in the spellings of v3.7 and v4.0. Raises WorkflowError."""
    found = [_semaphore(s, namespace) for s in _both(written, "semaphores", "semaphore")]
    found += [_mutex(m, namespace) for m in _both(written, "mutexes", "mutex")]
    if len({lock.name for lock in found}) < len(found):
        raise WorkflowError("requested configuration is invalid: duplicate synchronization item found")
    return found


def limit_of(lock: Lock, config_maps: ConfigMaps) -> int:
    """Returns how many may hold the lock at a time. Raises WorkflowError."""
    if lock.kind == "mutex":
        return 1
    data = config_maps(lock.config_map)
    problem = f"failed to initialize semaphore {lock.name} with limit"
    if data is None:
        raise WorkflowError(f"{problem}: ConfigMap '{lock.config_map}' does not exist")
    text = data.get(lock.key)
    if text is None:
        raise WorkflowError(f"{problem}: ConfigMap '{lock.config_map}' has no key '{lock.key}'")
    if not text.strip().isdecimal() or not int(text):
        raise WorkflowError(f"{problem}: '{text}' is not a positive integer")
    return int(text)


class HeldLocks:
    """Which locks this workflow and its nodes hold or wait for, as in `status.synchronization`."""

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
        """Returns the locks that one holder holds or waits for."""
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
        raise WorkflowError(
            f"semaphore '{where}/{key}' takes its limit from a database, which is not available here: "
            "use configMapKeyRef instead"
        )
    if not ref:
        raise WorkflowError("cannot get LockName for a Semaphore without a configMapKeyRef")
    name, key = str(ref.get("name") or ""), str(ref.get("key") or "")
    return Lock(f"{where}/ConfigMap/{name}/{key}", "semaphore", name, key)


def _mutex(written: Mapping[str, Any], namespace: str) -> Lock:
    where, name = str(written.get("namespace") or namespace), str(written.get("name") or "")
    in_database = bool(written.get("database"))
    return Lock(f"{where}/{'Database' if in_database else 'Mutex'}/{name}", "mutex", in_database=in_database)


class RunLocks:
    def __init__(self, run: Run, holdings: HeldLocks) -> None:
        self.run = run
        self.holdings = holdings
        self._waiting: dict[str, list[tuple[Position, str, Call]]] = {}
        """By lock, a heap: nodes that come first in the workflow go first."""
        self._workflow_waits = False

    def acquire(self, node_id: str, locks: Sequence[Lock]) -> tuple[str, str] | None:
        """Acquires all of the locks or none. Returns None, or the lock to wait for and the message to show. Raises
        WorkflowError."""
        table, holder = self.run.view.locks, self._holder(node_id)
        foreign = [lock.name for lock in locks if not lock.name.startswith(f"{self.run.namespace}/")]
        if foreign and self.run.view.restricted:
            raise WorkflowError(f"the lock {foreign[0]} is in another namespace; leave synchronization.namespace out")
        limits = [limit_of(lock, self.run.config_map) for lock in locks]
        taken: list[Lock] = []
        for lock, limit in zip(locks, limits, strict=True):
            if lock.in_database:
                self.run.warn_once(
                    "DatabaseLock",
                    f"mutex {lock.name} is kept in this server's memory, because no database for locks is available",
                )
            message = table.acquire(
                lock.name,
                holder,
                limit=limit,
                priority=int(self.run.spec.get("priority") or 0),
                since=str(meta(self.run.workflow).get("creationTimestamp") or ""),
            )
            if message:
                for other in taken:
                    table.release(other.name, holder)
                    self.holdings.release(other.name, holder)
                self.holdings.wait(lock, holder)
                return lock.name, message
            taken.append(lock)
        for lock in taken:
            self.holdings.hold(lock, holder)
        return None

    def restore(self, node_id: str, locks: Sequence[Lock]) -> None:
        """What was held before a restart is still held."""
        for lock in locks:
            self.run.view.locks.restore(lock.name, [self._holder(node_id)])
            self.holdings.hold(lock, self._holder(node_id))

    def wait(self, call: Call, lock: str) -> None:
        heapq.heappush(self._waiting.setdefault(lock, []), (call.position, call.id, call))

    def wait_for_workflow(self) -> None:
        self._workflow_waits = True

    def release(self, call: Call) -> None:
        """Releases the locks of a node that has ended."""
        if call.template.get("synchronization"):
            self._release(self._holder(call.id))

    def release_all(self) -> None:
        """Releases all locks of the workflow."""
        for table in (self.holdings.holding, self.holdings.waiting):
            for holder in [holder for holders in table.values() for holder in holders]:
                self._release(holder)

    def retry_waiting(self) -> bool:
        """Lets waiting nodes try again. Returns whether one got its locks."""
        if self._workflow_waits:
            self._workflow_waits = False
            self.run.queue.add(self.run.root)
        found = False
        for lock in list(self._waiting):
            while (line := self._waiting.get(lock)) and self._try(heapq.heappop(line)[2]):
                found = True
            if not self._waiting.get(lock):
                self._waiting.pop(lock, None)
        return found

    def cancel_waiting(self, message: str, *, keep_exit: bool) -> None:
        """Ends all waiting nodes; with `keep_exit`, except those of exit handlers."""
        for lock, line in list(self._waiting.items()):
            staying = [entry for entry in line if keep_exit and entry[2].on_exit]
            for *_, call in sorted(line):
                if not (keep_exit and call.on_exit):
                    self._release(self._holder(call.id))
                    self.run.tree.change(call.id, synchronizationStatus=None)
                    self.run.tree.mark(call.id, "Failed", message)
                    call.caller.call_changed(call)
            if staying:
                self._waiting[lock] = staying
                heapq.heapify(staying)
            else:
                del self._waiting[lock]

    def _try(self, call: Call) -> bool:
        call.enter()
        return not (self.run.tree.nodes[call.id].get("synchronizationStatus") or {}).get("waiting")

    def _release(self, holder: str) -> None:
        for lock in self.holdings.of(holder):
            self.run.view.locks.release(lock, holder)
            self.holdings.release(lock, holder)
            self.run.locks_released = True

    def _holder(self, node_id: str) -> str:
        workflow = f"{self.run.namespace}/{self.run.name}"
        return f"{workflow}/{node_id}" if node_id else workflow


class _LockQueue:
    """One lock: its holders, and who waits for it."""

    def __init__(self) -> None:
        self.limit = 1
        self.holders: dict[str, None] = {}
        self.waiting: dict[str, tuple[int, str, int]] = {}
        self.heap: list[tuple[int, str, int, str]] = []

    def first(self) -> str | None:
        while self.heap:
            *rank, holder = self.heap[0]
            if self.waiting.get(holder) == tuple(rank):
                return holder
            heapq.heappop(self.heap)
        return None


class LockTable:
    """Implements `Locks`. Holders are `namespace/workflow` or `namespace/workflow/node`."""

    def __init__(self) -> None:
        self._lines: dict[str, _LockQueue] = {}
        self._turns: dict[str, None] = {}
        self._count = 0

    def acquire(self, lock: str, holder: str, *, limit: int, priority: int, since: str) -> str:
        line = self._lines.setdefault(lock, _LockQueue())
        line.limit = limit
        if holder in line.holders:
            return ""
        if holder not in line.waiting:
            self._count += 1
            rank = (-priority, since, self._count)
            line.waiting[holder] = rank
            heapq.heappush(line.heap, (*rank, holder))
        first = line.first()
        free = limit - len(line.holders)
        if free > 0 and first is not None and _workflow(first) == _workflow(holder):
            del line.waiting[holder]
            line.holders[holder] = None
            self._call_next(line)
            return ""
        self._call_next(line)
        return f"Waiting for {lock} lock. Lock status: {max(free, 0)}/{limit}"

    def release(self, lock: str, holder: str) -> None:
        line = self._lines.get(lock)
        if line is None:
            return
        line.holders.pop(holder, None)
        line.waiting.pop(holder, None)
        self._call_next(line)
        if not line.holders and not line.waiting:
            del self._lines[lock]

    def restore(self, lock: str, holders: Iterable[str]) -> None:
        line = self._lines.setdefault(lock, _LockQueue())
        for holder in holders:
            line.holders[holder] = None
            line.waiting.pop(holder, None)

    def forget(self, workflow: str) -> None:
        """Releases all locks of a workflow (`namespace/name`) that is gone."""
        for lock, line in list(self._lines.items()):
            for holder in [h for h in (*line.holders, *line.waiting) if _workflow(h) == workflow]:
                self.release(lock, holder)

    def holders(self, lock: str) -> list[str]:
        line = self._lines.get(lock)
        return list(line.holders) if line is not None else []

    def waiting_for_turn(self) -> list[str]:
        """Returns the workflows (`namespace/name`) to advance because a lock they wait for is free; each only once."""
        turns, self._turns = list(self._turns), {}
        return turns

    def _call_next(self, line: _LockQueue) -> None:
        first = line.first()
        if first is not None and len(line.holders) < line.limit:
            self._turns[_workflow(first)] = None


def _workflow(holder: str) -> str:
    return "/".join(holder.split("/", 2)[:2])
