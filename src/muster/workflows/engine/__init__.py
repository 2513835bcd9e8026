"""The workflow engine: decides what a Workflow does next. Pure: it does no I/O and knows no clock but the World's."""

from __future__ import annotations

from muster.workflows.engine.locks import LockTable
from muster.workflows.engine.run import Run
from muster.workflows.engine.stepping import step

__all__ = ["LockTable", "Run", "step"]
