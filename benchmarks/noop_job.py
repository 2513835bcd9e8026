"""The job of `benchmarks.dispatch`, in a module of its own: a process that runs it imports nothing else."""

from __future__ import annotations

from muster.dispatch import Context


def noop(ctx: Context) -> int:
    return 0
