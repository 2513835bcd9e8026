"""Virtual clusters for tests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from muster.platform.records.resources import VirtualCluster


def virtual_cluster(sku: dict[str, str], total: int | None, **more: Any) -> VirtualCluster:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    fields: dict[str, Any] = {
        "id": "1", "name": "gpus", "description": "", "node_selector": {}, "tolerations": [], "sku": sku,
        "total": total, "used": 0, "available": 0, "largest": 0, "team_id": None, "team_name": None, "usable": True,
        "created": moment, "updated": moment, "revision": 1,
    }  # fmt: skip
    return VirtualCluster(**{**fields, **more})
