"""Secrets of type kubernetes.io/service-account-token get a token of the account that they name."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from muster.embedded.auth.identity import Identity
from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.controllers.token_secrets import ACCOUNT_NAME, ACCOUNT_UID, TOKEN_TYPE, TokenSecretController
from muster.kube.builtin import SECRET, SERVICE_ACCOUNT
from muster.kube.errors import Unauthorized
from muster.kube.objects import Object, annotations_of, uid_of
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from tests.embedded.waiting import run_components, wait_for, wait_for_all

ACCOUNT: Object = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot", "namespace": "default"}}
TOKEN: Object = {
    "apiVersion": "v1",
    "kind": "Secret",
    "type": TOKEN_TYPE,
    "metadata": {"name": "bot-token", "namespace": "default", "annotations": {ACCOUNT_NAME: "bot"}},
}


class Here(NamedTuple):
    cluster: EmbeddedCluster
    identity: Identity

    async def filled(self) -> Object:
        return await wait_for(self.cluster, SECRET, "bot-token", lambda found: "token" in (found.get("data") or {}))


@pytest.fixture
async def here(cluster: EmbeddedCluster, tmp_path: Path) -> AsyncIterator[Here]:
    identity = Identity.open(tmp_path / "identity", cluster)
    async with run_components(TokenSecretController(cluster, identity.service_accounts, "CA")):
        yield Here(cluster, identity)


def token_in(secret: Object) -> str:
    return base64.b64decode(secret["data"]["token"]).decode()


async def test_a_secret_is_filled_as_soon_as_its_account_exists(here: Here) -> None:
    await here.cluster.create(TOKEN)
    account = await here.cluster.create(ACCOUNT)
    secret = await here.filled()
    data = {name: base64.b64decode(value).decode() for name, value in secret["data"].items()}
    assert (data["ca.crt"], data["namespace"]) == ("CA", "default")
    assert annotations_of(secret)[ACCOUNT_UID] == uid_of(account)
    assert (await here.identity.authenticate(data["token"])).name == "system:serviceaccount:default:bot"


async def test_a_token_ends_with_its_secret_even_if_another_takes_its_name(here: Here) -> None:
    await here.cluster.create(ACCOUNT)
    await here.cluster.create(TOKEN)
    token = token_in(await here.filled())
    await here.cluster.delete(SECRET, "bot-token", "default")
    with pytest.raises(Unauthorized, match="no longer exists"):
        await here.identity.authenticate(token)
    await here.cluster.create(TOKEN)
    assert token_in(await here.filled()) != token
    with pytest.raises(Unauthorized, match="earlier"):
        await here.identity.authenticate(token)


async def test_the_secret_of_an_account_that_is_deleted_goes(here: Here) -> None:
    await here.cluster.create(ACCOUNT)
    await here.cluster.create(TOKEN)
    await here.filled()
    await here.cluster.delete(SERVICE_ACCOUNT, "bot", "default")
    assert await wait_for_all(here.cluster, SECRET, lambda found: not found) == []


async def test_members_get_no_tokens_this_way(here: Here) -> None:
    """They may create Secrets in their namespaces, but no tokens of service accounts."""
    await here.cluster.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {ISOLATION_LABEL: RESTRICTED}}}
    )
    for made in (ACCOUNT, TOKEN):
        await here.cluster.create({**made, "metadata": {**made["metadata"], "namespace": "team"}})
        await here.cluster.create(made)
    await here.filled()
    assert "data" not in await here.cluster.get(SECRET, "bot-token", "team")
