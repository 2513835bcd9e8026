"""The ids of this machine that Pods of restricted namespaces run with: a range for each namespace.

A range that was given to a namespace stays its own, so that files that its Pods leave never belong to others.
"""

from __future__ import annotations

import os
from pathlib import Path

import orjson

from muster.embedded.node.pod_context import MachineError
from muster.embedded.node.supervisor.user_namespaces import FIRST_ID, RANGE_SIZE

_RANGES = (0x7FFE0000 - FIRST_ID) // RANGE_SIZE


class IdRanges:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._ranges: dict[str, int] | None = None

    def first_id(self, namespace: str) -> int:
        """Returns the first id of the namespace's range. Raises MachineError if there is none left, or if a new one
        cannot be stored."""
        if self._ranges is None:
            self._ranges = self._read()
        if namespace not in self._ranges:
            number = max(self._ranges.values(), default=-1) + 1
            if number >= _RANGES:
                raise MachineError(f"all {_RANGES} ranges of user ids of this node are in use (see {self._file})")
            self._write({**self._ranges, namespace: number})
            self._ranges[namespace] = number
        return FIRST_ID + self._ranges[namespace] * RANGE_SIZE

    def _read(self) -> dict[str, int]:
        try:
            found: dict[str, int] = orjson.loads(self._file.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, orjson.JSONDecodeError) as error:
            raise MachineError(f"cannot read {self._file}, which says which user ids belong to whom: {error}") from None
        return found

    def _write(self, ranges: dict[str, int]) -> None:
        fresh = self._file.with_suffix(".new")
        try:
            with open(fresh, "wb") as file:
                file.write(orjson.dumps(ranges))
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._file)
        except OSError as error:
            raise MachineError(f"cannot store which user ids belong to {self._file.name}: {error}") from None
