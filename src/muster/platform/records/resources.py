"""Virtual clusters and storage roots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from muster.platform.records.common import Subject

QueueSystem: TypeAlias = Literal["embedded", "volcano", "kueue", "quota"]
"""What enforces the totals of virtual clusters: the queues of the embedded scheduler, of Volcano or of Kueue; or
ResourceQuotas, where there are no queues."""


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    id: str
    name: str
    description: str
    node_selector: dict[str, str]
    tolerations: list[str]
    """Taints of its nodes that its Pods tolerate, as `kubectl taint` writes them: `pool=ml:NoSchedule`."""
    sku: dict[str, str]
    """What one SKU is, by resource."""
    total: int | None
    """The number of SKUs; None for as many as the nodes have."""
    used: int
    """SKUs in use now."""
    available: int
    """SKUs that can be in use: the total, but no more than the nodes have."""
    largest: int
    """The most SKUs that one Pod can have: as many as fit on its largest node."""
    team_id: str | None
    team_name: str | None
    """The team that may use it; None for all users."""
    usable: bool
    """Whether the caller may use it."""
    created: datetime
    updated: datetime
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("virtual cluster", self.id, team=self.team_id or "", public=self.team_id is None)

    @property
    def queue(self) -> str:
        """The name of what enforces the total: a queue, or a PriorityClass and the ResourceQuotas for it."""
        return f"vc-{self.id}"

    def queue_in(self, system: QueueSystem) -> str:
        """Returns '' if there is none: Kueue and ResourceQuotas are needed only for a total."""
        return "" if self.total is None and system in ("kueue", "quota") else self.queue


@dataclass(frozen=True, slots=True)
class SkuUse:
    """A node of a run that uses SKUs of a virtual cluster, or waits for them."""

    run_id: str
    run_name: str
    node: str
    owner_name: str
    skus: int


@dataclass(frozen=True, slots=True)
class VirtualClusterDetail(VirtualCluster):
    uses: list[SkuUse]
    waiting: list[SkuUse]


@dataclass(frozen=True, slots=True)
class StorageRoot:
    id: str
    name: str
    description: str
    path: str
    """Where nodes find it, and the path on the host if `host_path` and `claim` are empty."""
    host_path: str
    claim: str
    """The PersistentVolumeClaim, instead of a host path."""
    read_only: bool
    team_id: str | None
    team_name: str | None
    """The team that may use it; None for all users."""
    usable: bool
    """Whether the caller may use it."""
    created: datetime
    updated: datetime
    revision: int

    @property
    def subject(self) -> Subject:
        return Subject("storage root", self.id, team=self.team_id or "", public=self.team_id is None)
