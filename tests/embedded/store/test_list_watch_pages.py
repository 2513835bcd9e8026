from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.store.list_watch import ContinueToken, decode_continue, encode_continue
from muster.kube.builtin import CONFIG_MAP, NAMESPACE, new_catalogue
from muster.kube.errors import BadRequest, Gone, NotFound
from muster.kube.objects import Key, Object, name_of


def config_map(name: str, namespace: str = "default", **labels: str) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def fill(cluster: EmbeddedCluster) -> None:
    for namespace in ("a", "b"):
        await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for number in range(5):
            await cluster.create(config_map(f"{namespace}{number}", namespace, odd=str(number % 2)))


async def names(cluster: EmbeddedCluster, limit: int, namespace: str = "", labels: str = "") -> list[list[str]]:
    pages, token = [], ""
    while True:
        page = await cluster.list(CONFIG_MAP, namespace, labels=labels, limit=limit, continue_=token)
        pages.append([name_of(o) for o in page.items])
        token = page.continue_
        if not token:
            return pages


async def test_lists_come_in_order_and_in_the_namespace_asked_for(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    assert await names(cluster, 0) == [["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]]
    assert await names(cluster, 0, "b") == [["b0", "b1", "b2", "b3", "b4"]]
    assert await names(cluster, 0, "nowhere") == [[]]
    assert await names(cluster, 0, "b", "odd=1") == [["b1", "b3"]]
    assert [name_of(o) for o in (await cluster.list(NAMESPACE, "ignored")).items] == [
        "a", "b", "default", "kube-system",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "labels", "fields", "found"),
    [
        ("a", "", "metadata.name=a1", ["a1"]),
        ("a", "odd=1", "metadata.name=a1", ["a1"]),
        ("a", "odd=0", "metadata.name=a1", []),
        ("b", "", "metadata.name=a1", []),
        ("", "", "metadata.name=a1", ["a1"]),
        ("a", "", "metadata.name!=a1", ["a0", "a2", "a3", "a4"]),
        ("a", "", "metadata.name=a1,metadata.namespace=b", []),
    ],
)
async def test_a_list_of_one_name(
    cluster: EmbeddedCluster, namespace: str, labels: str, fields: str, found: list[str]
) -> None:
    await fill(cluster)
    page = await cluster.list(CONFIG_MAP, namespace, labels=labels, fields=fields)
    assert [name_of(o) for o in page.items] == found
    assert page.resource_version == str(cluster.store.version)


@pytest.mark.parametrize(
    ("limit", "namespace", "labels", "pages"),
    [
        (4, "", "", [["a0", "a1", "a2", "a3"], ["a4", "b0", "b1", "b2"], ["b3", "b4"]]),
        (5, "", "", [["a0", "a1", "a2", "a3", "a4"], ["b0", "b1", "b2", "b3", "b4"]]),
        (10, "", "", [["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "b4"]]),
        (3, "b", "", [["b0", "b1", "b2"], ["b3", "b4"]]),
        (3, "", "odd=1", [["a1", "a3", "b1"], ["b3"]]),
        (2, "", "odd=1", [["a1", "a3"], ["b1", "b3"]]),
    ],
)
async def test_pages(cluster: EmbeddedCluster, limit: int, namespace: str, labels: str, pages: list[list[str]]) -> None:
    await fill(cluster)
    assert await names(cluster, limit, namespace, labels) == pages


async def test_a_page_has_the_remaining_count_unless_there_is_a_selector(cluster: EmbeddedCluster) -> None:
    await fill(cluster)
    first = await cluster.list(CONFIG_MAP, limit=4)
    second = await cluster.list(CONFIG_MAP, limit=4, continue_=first.continue_)
    third = await cluster.list(CONFIG_MAP, limit=4, continue_=second.continue_)
    assert [first.remaining, second.remaining, third.remaining] == [6, 2, None]
    assert (await cluster.list(CONFIG_MAP, limit=2, labels="odd=1")).remaining is None


async def test_all_pages_show_the_moment_of_the_first(cluster: EmbeddedCluster) -> None:
    random = Random(3)
    await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    for _ in range(20):
        first = await cluster.list(CONFIG_MAP, limit=3)
        then = (await cluster.list(CONFIG_MAP)).items
        found, token = list(first.items), first.continue_
        while token:
            for _ in range(4):
                await change_something(cluster, random)
            page = await cluster.list(CONFIG_MAP, limit=3, continue_=token)
            assert page.resource_version == first.resource_version
            found += page.items
            token = page.continue_
        assert found == then
        for _ in range(6):
            await change_something(cluster, random)


async def change_something(cluster: EmbeddedCluster, random: Random) -> None:
    name, namespace = f"x{random.randrange(12)}", random.choice(["a", "default"])
    try:
        obj = await cluster.get(CONFIG_MAP, name, namespace)
    except NotFound:
        await cluster.create(config_map(name, namespace))
    else:
        if random.random() < 0.4:
            await cluster.delete(CONFIG_MAP, name, namespace)
        else:
            await cluster.update({**obj, "data": {"n": str(random.random())}})


async def test_a_token_that_is_too_old_is_gone(tmp_path: Path) -> None:
    async with EmbeddedCluster(tmp_path, new_catalogue(), durability="process", history=10) as cluster:
        await fill(cluster)
        token = (await cluster.list(CONFIG_MAP, limit=2)).continue_
        for number in range(40):
            await cluster.create(config_map(f"x{number}"))
        with pytest.raises(Gone, match="start the list again"):
            await cluster.list(CONFIG_MAP, limit=2, continue_=token)


@pytest.mark.parametrize("token", ["x", "AAAA", "e30", "bnVsbA", "eyJydiI6IngifQ", "ä"])
async def test_nonsense_tokens_are_refused(cluster: EmbeddedCluster, token: str) -> None:
    with pytest.raises(BadRequest, match="continue"):
        await cluster.list(CONFIG_MAP, limit=2, continue_=token)


async def test_nonsense_limits_are_refused(cluster: EmbeddedCluster) -> None:
    with pytest.raises(BadRequest, match="limit"):
        await cluster.list(CONFIG_MAP, limit=-1)


def test_tokens_go_there_and_back() -> None:
    token = ContinueToken(17, Key("a", "b"), None)
    assert decode_continue(encode_continue(token)) == token
