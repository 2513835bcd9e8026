"""Artifacts that are written out in the manifest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from muster.workflows.artifacts.locations import Location
from muster.workflows.artifacts.stores import ReadOnlyStore


class RawStore(ReadOnlyStore):
    what = "raw artifacts"

    async def load(self, location: Location, target: Path) -> None:
        target.write_bytes(_data(location))

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        yield _data(location)


def _data(location: Location) -> bytes:
    return str(location["raw"].get("data") or "").encode()
