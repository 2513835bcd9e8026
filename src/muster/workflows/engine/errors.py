"""What the engine says no to."""

from __future__ import annotations

from muster.workflows.lang.errors import ExpressionError


class WorkflowError(Exception):
    """Something in the workflow cannot be done. The message becomes that of a node, or of the workflow."""


def error_message(error: WorkflowError | ExpressionError) -> str:
    """With the text that is wrong and a caret below it, if it is about one."""
    return str(error)
