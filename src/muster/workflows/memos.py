"""What memoized templates have answered, kept in ConfigMaps as Argo keeps it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import orjson

from muster.kube.builtin import CONFIG_MAP
from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, NotFound
from muster.kube.objects import Object, timestamp
from muster.workflows.model import Memo

CACHE_LABELS = {"workflows.argoproj.io/configmap-type": "Cache"}


async def remember(cluster: Cluster, namespace: str, memos: Sequence[Memo], now: datetime) -> None:
    """One write per cache, however many entries it gets."""
    caches: dict[str, dict[str, str]] = defaultdict(dict)
    for memo in memos:
        caches[memo.cache][memo.key] = _entry(memo, timestamp(now))
    for name, entries in caches.items():
        try:
            await cluster.patch(CONFIG_MAP, name, namespace, {"data": entries})
        except NotFound:
            try:
                await cluster.create(_cache(name, namespace, entries))
            except AlreadyExists:  # another workflow has made it just now
                await cluster.patch(CONFIG_MAP, name, namespace, {"data": entries})


def _entry(memo: Memo, now: str) -> str:
    entry = {"nodeID": memo.node, "outputs": memo.outputs, "creationTimestamp": now, "lastHitTimestamp": now}
    return orjson.dumps(entry).decode()


def _cache(name: str, namespace: str, entries: dict[str, str]) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": CACHE_LABELS},
        "data": entries,
    }
