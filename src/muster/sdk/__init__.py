"""A client of the platform's API, for scripts and for the command. It needs nothing but Python.

from muster.sdk import Muster

muster = Muster("https://muster.example", "mst_...")
for workflow in muster.workflows.list(owner="ann"):
    print(workflow.name, workflow.versions)
"""

from muster.sdk.client import Muster
from muster.sdk.transport import PlatformError

__all__ = ["Muster", "PlatformError"]
