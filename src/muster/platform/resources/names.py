"""What virtual clusters and storage roots may be called."""

from __future__ import annotations

from muster.platform.errors import FieldError

LONGEST = 100


def name_faults(name: str) -> list[FieldError]:
    if 0 < len(name) <= LONGEST and name.strip() == name and name.isprintable() and "/" not in name:
        return []
    told = f"write 1 to {LONGEST} characters on one line, without blanks at either end, and without /"
    return [FieldError("name", f'"{name}" cannot be a name; {told}')]
