"""What the engine sees of the cluster, and the caches of memoized results, which are ConfigMaps.

A cache carries the label that Argo gives it. A ConfigMap without this label is never read or written as a cache: it may
be anything, and its owner does not expect entries in it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from muster.kube.builtin import CONFIG_MAP, NAMESPACE
from muster.kube.cluster import Cluster, StatusRowsCluster
from muster.kube.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound, TooLarge
from muster.kube.objects import Key, Object, labels_of, version_of
from muster.kube.pod_security import is_restricted
from muster.workflows.engine.errors import WorkflowError
from muster.workflows.engine.memoization import entry_text
from muster.workflows.kinds import CLUSTER_WORKFLOW_TEMPLATE, WORKFLOW_TEMPLATE
from muster.workflows.model import Locks, Memo

CONFIG_MAP_TYPE = "workflows.argoproj.io/configmap-type"
CACHE_LABELS = {CONFIG_MAP_TYPE: "Cache"}
LARGEST_CACHE = 1024 * 1024
"""Characters of all entries of a cache: as many as a ConfigMap of Kubernetes may have. A full cache drops its oldest
entries."""
_ATTEMPTS = 10


class StoreView:
    """A view of one namespace, as of now."""

    def __init__(self, cluster: StatusRowsCluster, namespace: str, locks: Locks) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._locks = locks
        self._now = datetime.now(UTC)
        self._restricted: bool | None = None

    @property
    def now(self) -> datetime:
        return self._now

    @property
    def locks(self) -> Locks:
        return self._locks

    @property
    def restricted(self) -> bool:
        if self._restricted is None:
            self._restricted = is_restricted(self._cluster.peek(NAMESPACE, Key("", self._namespace)))
        return self._restricted

    def config_map(self, name: str) -> Mapping[str, str] | None:
        found = self._cluster.peek(CONFIG_MAP, Key(self._namespace, name))
        return None if found is None else found.get("data") or {}

    def cache(self, name: str) -> Mapping[str, str] | None:
        found = self._cluster.peek(CONFIG_MAP, Key(self._namespace, name))
        if found is None:
            return None
        if not is_cache(found):
            raise WorkflowError(_no_cache(name))
        return found.get("data") or {}

    def template(self, name: str, *, cluster_scope: bool) -> Object | None:
        kind = CLUSTER_WORKFLOW_TEMPLATE if cluster_scope else WORKFLOW_TEMPLATE
        return self._cluster.peek(kind, Key("" if cluster_scope else self._namespace, name))


def is_cache(config_map: Object) -> bool:
    return labels_of(config_map).get(CONFIG_MAP_TYPE) == CACHE_LABELS[CONFIG_MAP_TYPE]


async def store_memos(cluster: Cluster, namespace: str, memos: Sequence[Memo], now: datetime) -> None:
    """Writes each cache once, however many entries it gets. Raises ApiError, after all caches were tried."""
    caches: dict[str, dict[str, str]] = defaultdict(dict)
    for memo in memos:
        caches[memo.cache][memo.key] = entry_text(memo, now)
    problem: ApiError | None = None
    for name, entries in caches.items():
        try:
            await _write_cache(cluster, name, namespace, entries)
        except ApiError as error:
            problem = error
    if problem is not None:
        raise problem


async def _write_cache(cluster: Cluster, name: str, namespace: str, entries: dict[str, str]) -> None:
    for attempt in range(_ATTEMPTS):
        try:
            await _add_entries(cluster, name, namespace, entries)
            break
        except Conflict:  # another workflow has written it
            if attempt == _ATTEMPTS - 1:
                raise


def fit_entries(known: Mapping[str, str], entries: Mapping[str, str], most: int = LARGEST_CACHE) -> dict[str, None]:
    """Returns the entries to drop from a cache such that the new ones fit: the oldest, and a quarter of the cache at a
    time, because every write is a write of the whole. An empty result if they fit as it is."""
    kept = {key: text for key, text in known.items() if key not in entries}
    size = _size(kept) + _size(entries)
    if size <= most:
        return {}
    dropped: dict[str, None] = {}
    for key in sorted(kept, key=lambda key: _created(kept[key])):
        if size <= most * 3 // 4:
            break
        size -= len(key) + len(kept[key])
        dropped[key] = None
    return dropped


def _created(text: str) -> str:
    try:
        entry = json.loads(text)
    except ValueError:
        return ""
    return str(entry.get("creationTimestamp") or "") if isinstance(entry, dict) else ""


async def _add_entries(cluster: Cluster, name: str, namespace: str, entries: dict[str, str]) -> None:
    _check_size(name, entries)
    try:
        known = await cluster.get(CONFIG_MAP, name, namespace)
    except NotFound:
        try:
            await cluster.create(_cache(name, namespace, entries))
            return
        except AlreadyExists:  # another workflow has just created it
            known = await cluster.get(CONFIG_MAP, name, namespace)
    if not is_cache(known):
        raise Forbidden(_no_cache(name))
    dropped = fit_entries(known.get("data") or {}, entries)
    # The version makes sure that this is still the ConfigMap that was looked at.
    patch = {"metadata": {"resourceVersion": version_of(known)}, "data": {**dropped, **entries}}
    await cluster.patch(CONFIG_MAP, name, namespace, patch)


def _check_size(name: str, entries: Mapping[str, str]) -> None:
    size = _size(entries)
    if size > LARGEST_CACHE:
        raise TooLarge(
            f"the memoization cache '{name}' would have {size} characters, more than {LARGEST_CACHE}: return less, or "
            "write it to an artifact"
        )


def _size(entries: Mapping[str, str]) -> int:
    return sum(len(key) + len(text) for key, text in entries.items())


def _no_cache(name: str) -> str:
    label = f"{CONFIG_MAP_TYPE}: {CACHE_LABELS[CONFIG_MAP_TYPE]}"
    return (
        f"ConfigMap '{name}' is not a memoization cache: choose another name, or give it the label {label} if it was "
        "meant as one"
    )


def _cache(name: str, namespace: str, entries: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": CACHE_LABELS},
        "data": entries,
    }
