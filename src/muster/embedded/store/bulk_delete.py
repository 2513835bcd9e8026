"""Deletes many objects in portions, so that other writes get their turn in between."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from muster.embedded.store import status_rows
from muster.embedded.store.deletion import plan_deletion
from muster.embedded.store.store import Store
from muster.embedded.store.view import Transaction
from muster.embedded.store.writes import store_or_remove
from muster.kube.kinds import Kind
from muster.kube.objects import Key, is_deleting

PORTION = 200


async def bulk_delete(store: Store, kind: Kind | None, resource: str, keys: Sequence[Key], now: datetime) -> None:
    """Deletes the objects that are not being deleted yet. Objects of an unknown kind (None) are removed at once."""

    def delete(tx: Transaction, portion: Sequence[Key]) -> None:
        for key in portion:
            obj = tx.get(resource, key)
            if obj is None or is_deleting(obj):
                continue
            plan = plan_deletion(kind, obj, "Background", None, now) if kind is not None else None
            if kind is None or plan is None:
                tx.remove(resource, obj)
            elif plan.remove:
                status_rows.remove_object(tx, kind, obj)
            else:
                store_or_remove(tx, kind, obj, plan.object)

    for start in range(0, len(keys), PORTION):
        await store.write(partial(delete, portion=keys[start : start + PORTION]))
