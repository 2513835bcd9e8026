"""What is accepted but has no effect here, or hardly the one that was meant."""

from __future__ import annotations

from muster.kube.errors import Cause
from muster.kube.objects import Object


def warnings(obj: Object) -> list[Cause]:
    return []
