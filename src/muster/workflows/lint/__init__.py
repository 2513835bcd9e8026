"""Validation of workflows before they run: problems, and warnings about fields without effect."""

from muster.workflows.lint.effects import warnings
from muster.workflows.lint.walk import Lookup
from muster.workflows.lint.workflow import problems

__all__ = ["Lookup", "problems", "warnings"]
