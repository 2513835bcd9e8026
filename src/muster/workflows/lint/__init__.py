"""What is wrong with a workflow, and what will have no effect, before anything runs."""

from muster.workflows.lint.effects import warnings
from muster.workflows.lint.walk import Lookup
from muster.workflows.lint.workflow import problems

__all__ = ["Lookup", "problems", "warnings"]
