"""A client of the platform's API, for scripts and for the command. It needs nothing but Python.

from muster.sdk import Muster

muster = Muster("https://muster.example", "mst_...")
for workflow in muster.workflows.list(owner="ann"):
    print(workflow.name, workflow.versions)
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from muster.sdk.transport import PlatformError, Transport

if TYPE_CHECKING:
    from muster.sdk.dispatch import Dispatch
    from muster.sdk.metrics import MetricsClient
    from muster.sdk.modules import Categories, Modules, Reviews
    from muster.sdk.pipelines import Pipelines
    from muster.sdk.resources import Clusters, Storage
    from muster.sdk.runs import Runs
    from muster.sdk.users import Audit, Teams, Tokens, Users
    from muster.sdk.volumes import Volumes
    from muster.sdk.webhooks import Webhooks
    from muster.sdk.workflows import Workflows
    from muster.sdk.workspaces import Notebooks, TensorBoards

__all__ = ["Muster", "PlatformError"]


class Muster:
    """A client for the platform at a URL, with a token.

    Each part is imported when it is first used: their records take longer to define than most requests take.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 60.0) -> None:
        self.transport = Transport(url, token, timeout)

    @cached_property
    def workflows(self) -> Workflows:
        from muster.sdk.workflows import Workflows

        return Workflows(self.transport)

    @cached_property
    def runs(self) -> Runs:
        from muster.sdk.runs import Runs

        return Runs(self.transport)

    @cached_property
    def webhooks(self) -> Webhooks:
        from muster.sdk.webhooks import Webhooks

        return Webhooks(self.transport)

    @cached_property
    def metrics(self) -> MetricsClient:
        from muster.sdk.metrics import MetricsClient

        return MetricsClient(self.transport)

    @cached_property
    def dispatch(self) -> Dispatch:
        from muster.sdk.dispatch import Dispatch

        return Dispatch(self.transport)

    @cached_property
    def notebooks(self) -> Notebooks:
        from muster.sdk.workspaces import Notebooks

        return Notebooks(self.transport)

    @cached_property
    def tensorboards(self) -> TensorBoards:
        from muster.sdk.workspaces import TensorBoards

        return TensorBoards(self.transport)

    @cached_property
    def pipelines(self) -> Pipelines:
        from muster.sdk.pipelines import Pipelines

        return Pipelines(self.transport)

    @cached_property
    def clusters(self) -> Clusters:
        from muster.sdk.resources import Clusters

        return Clusters(self.transport)

    @cached_property
    def storage(self) -> Storage:
        from muster.sdk.resources import Storage

        return Storage(self.transport)

    @cached_property
    def volumes(self) -> Volumes:
        from muster.sdk.volumes import Volumes

        return Volumes(self.transport)

    @cached_property
    def modules(self) -> Modules:
        from muster.sdk.modules import Modules

        return Modules(self.transport)

    @cached_property
    def categories(self) -> Categories:
        from muster.sdk.modules import Categories

        return Categories(self.transport)

    @cached_property
    def reviews(self) -> Reviews:
        from muster.sdk.modules import Reviews

        return Reviews(self.transport)

    @cached_property
    def users(self) -> Users:
        from muster.sdk.users import Users

        return Users(self.transport)

    @cached_property
    def teams(self) -> Teams:
        from muster.sdk.users import Teams

        return Teams(self.transport)

    @cached_property
    def tokens(self) -> Tokens:
        from muster.sdk.users import Tokens

        return Tokens(self.transport)

    @cached_property
    def audit(self) -> Audit:
        from muster.sdk.users import Audit

        return Audit(self.transport)
