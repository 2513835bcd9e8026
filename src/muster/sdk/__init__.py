"""A client of the platform's API, for scripts and for the command. It needs nothing but Python.

from muster.sdk import Muster

muster = Muster("https://muster.example", "mst_...")
for workflow in muster.workflows.list(owner="ann"):
    print(workflow.name, workflow.versions)
"""

from muster.sdk.dispatch import Dispatch
from muster.sdk.metrics import MetricsClient
from muster.sdk.modules import Categories, Modules, Reviews
from muster.sdk.pipelines import Pipelines
from muster.sdk.resources import Clusters, Storage
from muster.sdk.runs import Runs
from muster.sdk.transport import PlatformError, Transport
from muster.sdk.users import Audit, Teams, Tokens, Users
from muster.sdk.volumes import Volumes
from muster.sdk.workflows import Workflows
from muster.sdk.workspaces import Notebooks, TensorBoards

__all__ = ["Muster", "PlatformError"]


class Muster:
    """A client for the platform at a URL, with a token."""

    def __init__(self, url: str, token: str, *, timeout: float = 60.0) -> None:
        self.transport = Transport(url, token, timeout)
        self.workflows = Workflows(self.transport)
        self.runs = Runs(self.transport)
        self.metrics = MetricsClient(self.transport)
        self.dispatch = Dispatch(self.transport)
        self.notebooks = Notebooks(self.transport)
        self.tensorboards = TensorBoards(self.transport)
        self.pipelines = Pipelines(self.transport)
        self.clusters = Clusters(self.transport)
        self.storage = Storage(self.transport)
        self.volumes = Volumes(self.transport)
        self.modules = Modules(self.transport)
        self.categories = Categories(self.transport)
        self.reviews = Reviews(self.transport)
        self.users = Users(self.transport)
        self.teams = Teams(self.transport)
        self.tokens = Tokens(self.transport)
        self.audit = Audit(self.transport)
