"""The locks of one run: taking them, waiting for them, giving them back."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import TYPE_CHECKING

from muster.kube.objects import meta
from muster.workflows.engine.synchronization import Holdings, Lock, limit_of

if TYPE_CHECKING:
    from muster.workflows.engine.call import Call
    from muster.workflows.engine.run import Run
    from muster.workflows.engine.work import Place


class Locking:
    def __init__(self, run: Run, holdings: Holdings) -> None:
        self.run = run
        self.holdings = holdings
        self._waiting: dict[str, list[tuple[Place, str, Call]]] = {}
        """By lock, a heap: those that come first in the workflow go first."""
        self._workflow_waits = False

    def acquire(self, node_id: str, locks: Sequence[Lock]) -> tuple[str, str] | None:
        """All of the locks, or none: then which one it has to wait for, and the message to show. Raises Refused."""
        world, holder = self.run.world.locks, self._holder(node_id)
        limits = [limit_of(lock, self.run.config_map) for lock in locks]
        taken: list[Lock] = []
        for lock, limit in zip(locks, limits, strict=True):
            if lock.in_database:
                self.run.warn_once(
                    "DatabaseLock", f"mutex {lock.name} is kept in this server's memory: there is no database for locks"
                )
            message = world.acquire(
                lock.name,
                holder,
                limit=limit,
                priority=int(self.run.spec.get("priority") or 0),
                since=str(meta(self.run.workflow).get("creationTimestamp") or ""),
            )
            if message:
                for other in taken:
                    world.release(other.name, holder)
                    self.holdings.release(other.name, holder)
                self.holdings.wait(lock, holder)
                return lock.name, message
            taken.append(lock)
        for lock in taken:
            self.holdings.hold(lock, holder)
        return None

    def restore(self, node_id: str, locks: Sequence[Lock]) -> None:
        """What it had before a restart, it still has."""
        for lock in locks:
            self.run.world.locks.restore(lock.name, [self._holder(node_id)])
            self.holdings.hold(lock, self._holder(node_id))

    def wait(self, call: Call, lock: str) -> None:
        heapq.heappush(self._waiting.setdefault(lock, []), (call.place, call.id, call))

    def wait_for_workflow(self) -> None:
        self._workflow_waits = True

    def release(self, call: Call) -> None:
        """A node is done."""
        if call.template.get("synchronization"):
            self._release(self._holder(call.id))

    def release_all(self) -> None:
        """The workflow is done."""
        for table in (self.holdings.holding, self.holdings.waiting):
            for holder in [holder for holders in table.values() for holder in holders]:
                self._release(holder)

    def try_again(self) -> bool:
        """Those who wait may find a lock free now; whether somebody did."""
        if self._workflow_waits:
            self._workflow_waits = False
            self.run.agenda.add(self.run.root)
        found = False
        for lock in list(self._waiting):
            while (line := self._waiting.get(lock)) and self._try(heapq.heappop(line)[2]):
                found = True
            if not self._waiting.get(lock):
                self._waiting.pop(lock, None)
        return found

    def give_up(self, message: str, *, keep_exit: bool) -> None:
        """Nobody gets a lock any more, except what runs at the end."""
        for lock, line in list(self._waiting.items()):
            staying = [entry for entry in line if keep_exit and entry[2].on_exit]
            for *_, call in sorted(line):
                if not (keep_exit and call.on_exit):
                    self._release(self._holder(call.id))
                    self.run.tree.change(call.id, synchronizationStatus=None)
                    self.run.tree.mark(call.id, "Failed", message)
                    call.owner.notice(call)
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
            self.run.world.locks.release(lock, holder)
            self.holdings.release(lock, holder)
            self.run.locks_released = True

    def _holder(self, node_id: str) -> str:
        workflow = f"{self.run.namespace}/{self.run.name}"
        return f"{workflow}/{node_id}" if node_id else workflow
