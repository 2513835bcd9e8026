"""A list is computed once for repeated requests, and again as soon as anything changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import event

from muster.server.platform.app import openapi_document
from muster.server.platform.response_cache import LISTS
from tests.platform.graphs.samples import CONTEXT, graph, node
from tests.server.platform.served import Client, Served


class Statements:
    """Counts the statements that the database runs."""

    def __init__(self, served: Served) -> None:
        self.count = 0
        event.listen(served.platform.database._readers, "before_cursor_execute", self._heard)

    def _heard(self, *_: object) -> None:
        self.count += 1

    async def of(self, client: Client, path: str) -> int:
        before = self.count
        await client.get(path)
        return self.count - before


@pytest.fixture
async def ann(served: Served) -> AsyncIterator[Client]:
    served.platform.load_context = lambda *_: CONTEXT
    yield await served.user("ann")


async def made(client: Client, name: str) -> None:
    await client.post("workflows", {"name": name, "version": {"document": graph(node("a"))}})


async def names(client: Client) -> list[str]:
    return [workflow["name"] for workflow in (await client.get("workflows?sort=name"))["items"]]


async def test_an_unchanged_list_is_not_queried_again(served: Served, ann: Client) -> None:
    await made(ann, "one")
    statements = Statements(served)
    assert await statements.of(ann, "workflows") > 0
    assert await statements.of(ann, "workflows") == 0
    assert await statements.of(ann, "workflows?limit=7") > 0, "another list"
    first, second = await ann("GET", "workflows"), await ann("GET", "workflows")
    assert first.body == second.body
    assert {**first.headers, "Date": ""} == {**second.headers, "Date": ""}, "the security headers too"


async def test_a_change_is_visible_to_all_clients_at_once(served: Served, ann: Client) -> None:
    bob = await served.user("bob")
    for number in range(5):
        await made(ann, f"flow {number}")
        seen = [f"flow {n}" for n in range(number + 1)]
        assert [await names(ann), await names(bob), await names(ann)] == [seen] * 3


async def test_users_do_not_share_responses(served: Served, ann: Client) -> None:
    await served.user("bob")

    async def whose(client: Client) -> set[str]:
        return {entry["actor_name"] for entry in (await client.get("audit"))["items"]}

    for _ in range(2):
        assert await whose(served.admin) >= {"ann", "bob"}
        assert await whose(ann) == {"ann"}
        (await Client(ann.url)("GET", "audit")).refused(401)


async def test_a_revoked_token_gets_no_cached_list(served: Served, ann: Client) -> None:
    token = await ann.post("tokens", {"name": "script"})
    script = Client(ann.url, token["secret"])
    for _ in range(2):
        await script.get("workflows")
    (await ann("DELETE", f"tokens/{token['token']['id']}")).ok()
    (await script("GET", "workflows")).refused(401)


async def test_an_error_is_not_cached(served: Served, ann: Client) -> None:
    for _ in range(2):
        (await ann("GET", "workflows?sort=nonsense")).refused(422)


def test_every_cached_route_is_a_list() -> None:
    operations = {
        operation["operationId"] for path in openapi_document()["paths"].values() for operation in path.values()
    }
    assert operations >= LISTS.keys()
