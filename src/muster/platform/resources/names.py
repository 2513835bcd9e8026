"""What virtual clusters and storage roots may be called."""

from __future__ import annotations

from muster.platform.errors import FieldError
from muster.platform.sentences import fault

LONGEST = 100


def name_faults(name: str) -> list[FieldError]:
    if 0 < len(name) <= LONGEST and name.strip() == name and name.isprintable() and "/" not in name:
        return []
    return [fault("name", "resource.name", name=name, most=LONGEST)]
