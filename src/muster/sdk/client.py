"""The client of the platform."""

from __future__ import annotations

from muster.sdk.modules import Categories, Modules, Reviews
from muster.sdk.resources import Clusters, Storage
from muster.sdk.runs import Runs
from muster.sdk.transport import Transport
from muster.sdk.users import Audit, Teams, Tokens, Users
from muster.sdk.workflows import Workflows


class Muster:
    """A client for the platform at a URL, with a token."""

    def __init__(self, url: str, token: str, *, timeout: float = 60.0) -> None:
        self.transport = Transport(url, token, timeout)
        self.workflows = Workflows(self.transport)
        self.runs = Runs(self.transport)
        self.clusters = Clusters(self.transport)
        self.storage = Storage(self.transport)
        self.modules = Modules(self.transport)
        self.categories = Categories(self.transport)
        self.reviews = Reviews(self.transport)
        self.users = Users(self.transport)
        self.teams = Teams(self.transport)
        self.tokens = Tokens(self.transport)
        self.audit = Audit(self.transport)
