"""Errors of the engine."""

from __future__ import annotations

from muster.workflows.lang.errors import ExpressionError


class WorkflowError(Exception):
    """Something in the workflow cannot be done. The message becomes that of a node or of the workflow."""


def error_message(error: WorkflowError | ExpressionError) -> str:
    """Returns the message; an expression error includes the text with a caret below the mistake."""
    return str(error)
