"""Deletes many objects, a portion at a time, so that other writes find their turn in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from muster.embedded import apart
from muster.embedded.deletion import decide
from muster.embedded.store import Store
from muster.embedded.transaction import Transaction
from muster.embedded.writes import finish
from muster.kube.kinds import Kind
from muster.kube.objects import Key, is_deleting

AT_ONCE = 200


async def clear(store: Store, kind: Kind | None, resource: str, keys: Sequence[Key], now: datetime) -> None:
    """What is not being deleted yet. Of a kind that nobody knows any more (None), nobody holds anything: its objects
    are gone at once."""

    def delete(tx: Transaction, portion: Sequence[Key]) -> None:
        for key in portion:
            obj = tx.get(resource, key)
            if obj is None or is_deleting(obj):
                continue
            verdict = decide(kind, obj, "Background", None, now) if kind is not None else None
            if kind is None or verdict is None:
                tx.remove(resource, obj)
            elif verdict.remove:
                apart.remove(tx, kind, obj)
            else:
                finish(tx, kind, obj, verdict.object)

    for start in range(0, len(keys), AT_ONCE):
        await store.write(partial(delete, portion=keys[start : start + AT_ONCE]))
