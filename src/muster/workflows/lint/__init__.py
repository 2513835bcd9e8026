"""Validation of workflows before they run: problems, and warnings about fields without effect."""

from muster.workflows.lint.walk import Lookup
from muster.workflows.lint.warnings import find_warnings
from muster.workflows.lint.workflow import find_problems

__all__ = ["Lookup", "find_problems", "find_warnings"]
