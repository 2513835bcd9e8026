"""Argo's own rules, before anything is stored."""

from __future__ import annotations

from muster.kube.objects import Object
from muster.server.argo.access import OnBehalf


async def require_sound(api: OnBehalf, obj: Object, *, strict: bool = False) -> None:
    """Raises Invalid, which names everything that is wrong."""
