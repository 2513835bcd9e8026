"""The store: objects in memory, and every change on disk before any reader sees it.

A write runs immediately against the *head*: the committed objects plus the changes that are on their way to the disk.
Changes that are staged during a commit go into the next one, so a busy store pays for one sync per batch. A change
appears in reads and watches, and its writer gets its result, only when the batch is on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import orjson

from muster.embedded.store.database import Database, DirectoryLock, Durability, Row, is_full
from muster.embedded.store.equal_parts import EqualParts
from muster.embedded.store.history import Change, ChangeRecord, History, make_change
from muster.embedded.store.shared_parts import SharedParts, merge_parts, weigh
from muster.embedded.store.view import ResourceKey, Staged, Transaction, View, is_packed
from muster.kube.budgets import Budgets
from muster.kube.builtin import POD
from muster.kube.encryption import KeyRing
from muster.kube.errors import ApiError, Gone, StorageFull, Unavailable
from muster.kube.objects import Key, Object, version_of

T = TypeVar("T")
Listener: TypeAlias = Callable[[str, Change], None]
"""Called with (resource, change) for every committed change, before watchers and the writer see it."""

DATABASE = "cluster.db"
LARGEST_BATCH = 512
DELETE_BATCH = 2000
_QUICK_ROWS, _QUICK_BYTES = 12, 32 << 10
ERROR_SECONDS = 60.0
_LOAD_BATCH = 500
_Versions: TypeAlias = defaultdict[str, defaultdict[str, dict[str, int]]]
"""The newest version of every object, by resource, namespace and name; 0 if it is gone."""
log = logging.getLogger(__name__)


class Store:
    """Belongs to one event loop. All methods except `write` and `close` read from memory only."""

    def __init__(
        self,
        directory: Path,
        *,
        durability: Durability = "power",
        keys: KeyRing | None = None,
        history: int = 5000,
        history_bytes: int = 8 << 20,
        largest_object: int = 3 << 19,
    ) -> None:
        """Locks the directory and reads all objects. Raises DirectoryInUse or StoreUnreadable. `keys` encrypt Secrets;
        without them there is a key in the directory. `history` and `history_bytes` limit how many changes of each kind
        are kept."""
        self.view = View()
        self.version = 0
        """The newest committed resourceVersion."""
        self.input_folder = ""
        """Where the input artifacts of Pods are staged: `<folder>/<namespace>/<Pod>`. A Pod may mount its own."""
        self.member_megabytes = Budgets().member_object_megabytes
        """What the objects of a restricted namespace may take."""
        self._directory = directory
        self._history_limit = history
        self._history_bytes = history_bytes
        self._largest_object = largest_object
        self._histories: dict[str, History] = {}
        self._listeners: list[Listener] = []
        self._shared: dict[ResourceKey, SharedParts] = {}
        """The large parts of objects, as of the head."""
        self._head: dict[ResourceKey, Staged] = {}
        self._head_version = 0
        self._staged: list[_Write] = []
        self._committing = False
        self._closed = False
        self._last_error: ApiError | None = None
        self._last_error_at = 0.0
        self._superseded: list[int] = []
        self._floors: dict[str, int] = {}
        self._undeleted: list[int] = []
        self._waits_for_disk = durability == "power"
        self._housekeeping: Future[None] | None = None
        self._lock = DirectoryLock(directory)
        try:
            self.database = Database(directory / DATABASE, durability, keys=keys)
        except BaseException:
            self._lock.release()
            raise
        try:
            self._load()
        except BaseException:
            self.database.close()
            self._lock.release()
            raise
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    def get(self, resource: str, key: Key) -> Object | None:
        return self.view.get(resource, key)

    def history(self, resource: str) -> History:
        found = self._histories.get(resource)
        if found is None:
            found = self._histories[resource] = self._new_history(resource)
        return found

    def position(self, resource: str, version: int) -> int:
        """Returns the position in the resource's history where the changes after `version` begin."""
        if self._closed:
            raise Unavailable("the cluster is shutting down")
        if version > self.version:
            raise Gone(f"resource version {version} is from another store: this one is at {self.version}; list again")
        return self.history(resource).position(version)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def last_error(self) -> ApiError | None:
        """Why the last commit failed, for one minute. Writers retry, so without a new failure the store works again."""
        return self._last_error if time.monotonic() - self._last_error_at < ERROR_SECONDS else None

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` for all changes from now on. Returns a function that removes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def wake_watchers(self) -> None:
        """Wakes every waiting watcher, even if nothing has changed."""
        for history in self._histories.values():
            history.wake()

    async def write(self, change: Callable[[Transaction], T], *, dry_run: bool = False) -> T:
        """Runs `change` and returns its result when everything it put and removed is durable.

        `change` must not await, and must not keep its transaction. If it raises, nothing is stored."""
        if self._closed:
            raise Unavailable("the cluster is shutting down")
        transaction = Transaction(
            self.view, self._head, self._head_version, self._largest_object, self.input_folder, self._shared
        )
        transaction.member_megabytes = self.member_megabytes
        try:
            result = change(transaction)
        except ApiError:
            await self._settle(transaction)
            raise
        if dry_run or not transaction.staged:
            await self._settle(transaction)
            return result
        await self._stage(transaction)
        return result

    async def close(self) -> None:
        """Commits what is staged, then closes the files and releases the lock."""
        if self._closed:
            return
        self._closed = True
        if self._committing:
            await asyncio.gather(self._barrier(), return_exceptions=True)
        self.wake_watchers()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._writer, self._close_database)
        self._writer.shutdown()
        self._lock.release()

    def _load(self) -> None:
        """Reads the newest version of every object. Older versions are read when they are asked for."""
        self._floors = self.database.floors()
        newest = max(self._floors.values(), default=0)
        last: _Versions = defaultdict(lambda: defaultdict(dict))
        records: dict[str, list[ChangeRecord]] = defaultdict(list)
        for version, resource, namespace, name, gone, size in self.database.row_infos():
            names = last[resource][namespace]
            before = names.get(name, 0)
            if not has_history(resource):
                self._superseded += [old for old in (before, version if gone else 0) if old]
            elif version > self._floors.get(resource, 0):
                records[resource].append(ChangeRecord(version, size, before, bool(gone)))
            names[name] = 0 if gone else version
            newest = max(newest, version)
        for resource, stored in records.items():
            self._histories[resource] = self._new_history(resource, stored)
            self._trim(resource)
        for resource, namespaces in last.items():
            for namespace, names in namespaces.items():
                self._load_objects(resource, namespace, {name: version for name, version in names.items() if version})
        self.version = self._head_version = newest

    def _load_objects(self, resource: str, namespace: str, last: Mapping[str, int]) -> None:
        """Objects are in the order in which they were first written, as far as that is known. They are read in small
        batches: what is allocated between those that stay would keep its memory from being used again."""
        names, equal = list(last), EqualParts()
        for start in range(0, len(names), _LOAD_BATCH):
            batch = {name: last[name] for name in names[start : start + _LOAD_BATCH]}
            versions = sorted(batch.values())
            if is_packed(resource):
                texts = {row.version: row.object for row in self.database.rows(versions)}
                for name, version in batch.items():
                    self.view.put(resource, Key(namespace, name), texts[version])
                continue
            found = {row.version: (row, obj, shared) for row, obj, shared in self._read_rows(versions)}
            for name, version in batch.items():
                key = Key(namespace, name)
                row, obj, shared = found[version]
                if resource == POD.resource:
                    equal.share(obj)
                weight = weigh(row.object) + (shared.weight if shared is not None else 0)
                self.view.put(resource, key, obj, weight)
                if shared is not None:
                    self._shared[ResourceKey(resource, key)] = shared

    def _read_rows(self, versions: Sequence[int]) -> Iterator[tuple[Row, Object, SharedParts | None]]:
        """Yields versions from the disk, oldest first."""
        version = 0
        try:
            rows = list(self.database.rows(versions))
            texts = self.database.shared_parts({row.shared for row in rows if row.shared is not None})
            shared = {
                version: SharedParts.of(version, orjson.loads(text), text, is_stored=True)
                for version, text in texts.items()
            }
            for row in rows:
                version = row.version
                obj, parts = orjson.loads(row.object), None
                if row.shared is not None:
                    parts = shared[row.shared]
                    obj = merge_parts(obj, parts.parts)
                yield row, obj, parts
        except (ValueError, KeyError, TypeError) as error:
            raise self.database.unreadable(f"the row of version {version} is damaged ({error})") from error

    def _read_changes(self, records: Sequence[ChangeRecord]) -> list[Change]:
        """Reads changes from before the start of this server."""
        wanted = {version for record in records for version in (record.version, record.before) if version}
        found = {row.version: (row, obj) for row, obj, _ in self._read_rows(sorted(wanted))}
        changes = []
        for version, _, before, gone in records:
            row, obj = found[version]
            old = found[before][1] if before else None
            changes.append(make_change(version, Key(row.namespace, row.name), old, obj, gone))
        return changes

    def _new_history(self, resource: str, stored: Sequence[ChangeRecord] = ()) -> History:
        return History(
            self._history_limit,
            self._floors.get(resource, 0),
            limit_bytes=self._history_bytes,
            stored=stored,
            read_changes=self._read_changes,
        )

    def _apply(self, staged: Staged) -> Change:
        (resource, key), obj, gone, row, _ = staged
        if gone:
            before = self.view.remove(resource, key)
        else:
            is_text = is_packed(resource)
            before = self.view.put(resource, key, row.object if is_text else obj, 0 if is_text else staged.weight)
        change = make_change(row.version, key, before, obj, gone)
        replaced = int(version_of(before)) if before is not None else 0
        if has_history(resource):
            self.history(resource).append(change, len(row.object), replaced)
            self._trim(resource)
        else:
            self._superseded += [old for old in (replaced, row.version if gone else 0) if old]
        return change

    def _trim(self, resource: str) -> None:
        """Notes which rows are no longer needed: no watch can resume from them, and no object is in them."""
        history = self._histories[resource]
        forgotten = history.trim()
        if not forgotten:
            return
        self._floors[resource] = history.floor
        for record in forgotten:
            if record.before:
                self._superseded.append(record.before)
            if record.gone:
                self._superseded.append(record.version)

    def _stage(self, transaction: Transaction) -> asyncio.Future[None]:
        for staged in transaction.staged:
            self._head[staged.place] = staged
            if staged.shared is None or staged.gone:
                self._shared.pop(staged.place, None)
            else:
                self._shared[staged.place] = staged.shared._replace(text=None)
        self._head_version = transaction.version
        return self._append(transaction.staged)

    def _append(self, staged: list[Staged]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        self._staged.append(_Write(staged, done))
        if not self._committing:
            self._committing = True
            loop.call_soon(self._commit, loop)
        return done

    async def _settle(self, transaction: Transaction) -> None:
        """A result that depends on uncommitted changes waits until they are on disk."""
        if transaction.saw_staged and self._committing:
            await self._barrier()

    def _barrier(self) -> asyncio.Future[None]:
        return self._append([])

    def _commit(self, loop: asyncio.AbstractEventLoop) -> None:
        size = count = 0
        for write in self._staged:
            size += len(write.staged)
            if count and size > LARGEST_BATCH:
                break
            count += 1
        batch, self._staged = self._staged[:count], self._staged[count:]
        if self._is_quick(batch):
            loop.call_soon(self._committed, loop, batch, self._append_batch(batch))
        else:
            self._writer.submit(self._commit_rows, loop, batch)

    def _is_quick(self, batch: list[_Write]) -> bool:
        """Whether a commit takes less time than handing it to the thread: it is small, and nothing waits for the
        disk."""
        if self._waits_for_disk or (self._housekeeping is not None and not self._housekeeping.done()):
            return False
        rows = [staged.row for write in batch for staged in write.staged]
        return len(rows) <= _QUICK_ROWS and sum(len(row.object) for row in rows) <= _QUICK_BYTES

    def _commit_rows(self, loop: asyncio.AbstractEventLoop, batch: list[_Write]) -> None:
        """Runs in the writer thread."""
        loop.call_soon_threadsafe(self._committed, loop, batch, self._append_batch(batch))

    def _append_batch(self, batch: list[_Write]) -> BaseException | None:
        """Returns why nothing of the batch is stored, if so."""
        try:
            changes = [staged for write in batch for staged in write.staged]
            if changes:
                parts = [staged.shared for staged in changes if staged.shared is not None]
                self.database.append(
                    [staged.row for staged in changes],
                    {part.version: part.text for part in parts if part.text is not None},
                )
        except BaseException as failure:
            return failure
        return None

    def _committed(self, loop: asyncio.AbstractEventLoop, batch: list[_Write], error: BaseException | None) -> None:
        if error is not None:
            self._roll_back(batch, error)
            return
        self._last_error = None
        touched: dict[str, None] = {}
        for write in batch:
            for staged in write.staged:
                change = self._apply(staged)
                self.version = change.version
                if self._head.get(staged.place) is staged:
                    del self._head[staged.place]
                resource = staged.place.resource
                touched[resource] = None
                for listener in self._listeners:
                    try:
                        listener(resource, change)
                    except Exception:
                        log.exception("a listener failed for %s %s", resource, change.key)
        for resource in touched:
            self.history(resource).wake()
        for write in batch:
            if not write.done.done():
                write.done.set_result(None)
        self._housekeep()
        if self._staged:
            self._commit(loop)
        else:
            self._committing = False

    def _roll_back(self, batch: list[_Write], error: BaseException) -> None:
        """Nothing of the batch is stored. What was staged after it may depend on it, so that fails, too."""
        log.error("a commit to %s failed: %s", self.database.path, error)
        self._last_error, self._last_error_at = self._commit_error(error), time.monotonic()
        failed = [*batch, *self._staged]
        self._staged = []
        for place in self._head:
            self._shared.pop(place, None)  # the next write stores its parts again
        self._head.clear()
        self._head_version = self.version
        self._committing = False
        for write in failed:
            if not write.done.done():
                write.done.set_exception(self._commit_error(error))

    def _commit_error(self, error: BaseException) -> ApiError:
        if is_full(error, self._directory):
            return StorageFull(f"the disk of {self._directory} is full: nothing was stored; free some space")
        return Unavailable(f"the store could not be written ({error}): nothing was stored", retry_after=1)

    def _housekeep(self) -> None:
        """Housekeeping in the writer thread, after the writers have their results."""
        if len(self._superseded) >= DELETE_BATCH:
            versions, self._superseded = self._superseded, []
            self._housekeeping = self._writer.submit(self._delete_versions, versions, dict(self._floors))
        if self.database.wants_checkpoint():
            self._housekeeping = self._writer.submit(self._checkpoint)

    def _delete_versions(self, versions: list[int], floors: dict[str, int]) -> None:
        self._undeleted += versions
        try:
            self.database.forget(self._undeleted, floors)
        except Exception as error:
            log.warning("could not delete old versions in %s, will try again: %s", self.database.path, error)
        else:
            self._undeleted = []
            self._shrink()

    def _shrink(self) -> None:
        """A file that shrinks by much was written by an earlier release, or for objects that have been deleted."""
        try:
            if self.database.shrink():
                log.info("rewrote %s, most of which was unused", self.database.path)
        except Exception as error:
            log.warning("could not rewrite %s, most of which is unused: %s", self.database.path, error)

    def _checkpoint(self) -> None:
        try:
            self.database.checkpoint()
        except Exception as error:
            log.warning("could not checkpoint the write-ahead log of %s: %s", self.database.path, error)

    def _close_database(self) -> None:
        if self._superseded or self._undeleted:
            self._delete_versions(self._superseded, self._floors)
        self._checkpoint()
        self.database.close()


def has_history(resource: str) -> bool:
    """Status rows have none: nothing can watch them."""
    return "#" not in resource


class _Write(NamedTuple):
    staged: list[Staged]
    done: asyncio.Future[None]
