"""Tests against a server that verifies signatures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, ArtifactUnreachable
from tests.workflows.artifacts.conftest import SCOPE, WORKFLOW, Shop
from tests.workflows.artifacts.s3server import ACCESS_KEY, REGION, S3, SECRET_KEY


@pytest.fixture
async def s3() -> AsyncIterator[S3]:
    async with S3().serving() as server:
        yield server


async def bucket(shop: Shop, s3: S3, **more: Any) -> dict[str, Any]:
    await shop.secret("keys", access=ACCESS_KEY, secret=SECRET_KEY, wrong="notthesecret")
    return {
        "endpoint": f"127.0.0.1:{s3.port}", "bucket": "bucket", "insecure": True, "region": REGION,
        "accessKeySecret": {"name": "keys", "key": "access"}, "secretKeySecret": {"name": "keys", "key": "secret"},
        **more,
    }  # fmt: skip


async def test_a_file_goes_there_and_back(shop: Shop, s3: S3) -> None:
    artifact = {"name": "m", "path": "/m.txt", "s3": {**await bucket(shop, s3), "key": "dir/m a+b.tgz"}}
    kept = await shop.artifacts.save(WORKFLOW, artifact, shop.file("model"), SCOPE)
    assert kept == artifact
    assert list(s3.objects) == ["bucket/dir/m a+b.tgz"]
    assert (await shop.fetched(artifact)).read_text() == "model"
    assert await shop.read(artifact) == s3.objects["bucket/dir/m a+b.tgz"]
    assert not s3.refused


async def test_a_large_file_goes_in_parts(shop: Shop, s3: S3) -> None:
    artifact = {"name": "m", "path": "/m", "archive": {"none": {}}, "s3": {**await bucket(shop, s3), "key": "m"}}
    await shop.artifacts.save(WORKFLOW, artifact, shop.file("x" * 12_000_000), SCOPE)
    assert len(s3.objects["bucket/m"]) == 12_000_000
    assert (await shop.fetched(artifact)).stat().st_size == 12_000_000


@pytest.mark.parametrize("key", ["dir/m", "dir/m/"])
async def test_a_folder_is_a_key_with_keys_below(shop: Shop, s3: S3, key: str) -> None:
    """Argo's map-reduce.yaml names one that ends in a slash."""
    place = await bucket(shop, s3)
    artifact = {"name": "m", "path": "/m", "archive": {"none": {}}, "s3": {**place, "key": key}}
    shop.file("1", "tree/a")
    shop.file("2", "tree/deep/b")
    await shop.artifacts.save(WORKFLOW, artifact, shop.home / "tree", SCOPE)
    s3.objects["bucket/dir/mother"] = b"not below"
    assert await shop.artifacts.keys(WORKFLOW, artifact) == ["dir/m/a", "dir/m/deep/b"]
    assert ((await shop.fetched(artifact)) / "deep/b").read_text() == "2"
    await shop.artifacts.delete(WORKFLOW, artifact)
    assert list(s3.objects) == ["bucket/dir/mother"]
    await shop.artifacts.delete(WORKFLOW, artifact)


async def test_keys_alone_mean_the_repository_that_a_config_map_describes(shop: Shop, s3: S3) -> None:
    place = await bucket(shop, s3, keyFormat="runs/{{workflow.name}}/{{pod.name}}")
    annotations = {"workflows.argoproj.io/default-artifact-repository": "mine"}
    await shop.config_map("artifact-repositories", annotations, mine=yaml.safe_dump({"s3": place}))
    kept = await shop.artifacts.save(WORKFLOW, {"name": "m", "path": "/m"}, shop.file("model"), SCOPE)
    assert kept == {"name": "m", "path": "/m", "s3": {"key": "runs/wf/wf-a/m.tgz"}}
    assert list(s3.objects) == ["bucket/runs/wf/wf-a/m.tgz"]
    assert (await shop.fetched(kept)).read_text() == "model"


async def test_what_is_not_there_is_missing(shop: Shop, s3: S3) -> None:
    artifact = {"name": "m", "s3": {**await bucket(shop, s3), "key": "none"}}
    with pytest.raises(ArtifactMissing, match='"none"'):
        await shop.fetched(artifact)


async def test_wrong_keys_are_told_but_not_shown(shop: Shop, s3: S3) -> None:
    place = await bucket(shop, s3, secretKeySecret={"name": "keys", "key": "wrong"})
    with pytest.raises(ArtifactError, match="access denied") as caught:
        await shop.fetched({"name": "m", "s3": {**place, "key": "k"}})
    assert s3.refused[0] == "SignatureDoesNotMatch"
    assert ACCESS_KEY not in str(caught.value) and "notthesecret" not in str(caught.value)


async def test_a_store_that_does_not_answer_may_do_so_later(shop: Shop, s3: S3) -> None:
    s3.is_down = True
    with pytest.raises(ArtifactUnreachable):
        await shop.fetched({"name": "m", "s3": {**await bucket(shop, s3), "key": "k"}})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("accessKeySecret", {"name": "none", "key": "k"}, 'there is no Secret "none"'),
        ("accessKeySecret", {"name": "keys", "key": "k"}, 'the Secret "keys" has no key "k"'),
        ("roleARN", "arn:aws:iam::1:role/x", "s3.roleARN is not supported here: set"),
    ],
)
async def test_what_cannot_be_used_is_named(shop: Shop, s3: S3, field: str, value: Any, message: str) -> None:
    place = await bucket(shop, s3, **{field: value})
    with pytest.raises(ArtifactError, match=message):
        await shop.fetched({"name": "m", "s3": {**place, "key": "k"}})


async def save(shop: Shop, place: dict[str, Any]) -> None:
    artifact = {"name": "m", "path": "/m", "archive": {"none": {}}, "s3": {**place, "key": "m"}}
    await shop.artifacts.save(WORKFLOW, artifact, shop.file("text"), SCOPE)


async def test_a_bucket_is_created_if_the_artifact_says_so(shop: Shop, s3: S3) -> None:
    place = await bucket(shop, s3, bucket="fresh")
    with pytest.raises(ArtifactMissing):
        await save(shop, place)
    for _ in range(2):
        await save(shop, {**place, "createBucketIfNotPresent": {}})
    assert (s3.buckets, s3.objects, s3.refused) == ({"bucket", "fresh"}, {"fresh/m": b"text"}, [])


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("createBucketIfNotPresent", {"objectLocking": True}, "objectLocking is not supported here: create the bucket"),
        ("bucket", "taken", 'the bucket "taken" cannot be created: AccessDenied'),
        ("secretKeySecret", {"name": "keys", "key": "wrong"}, "access denied"),
    ],
)
async def test_a_bucket_that_cannot_be_created(shop: Shop, s3: S3, field: str, value: Any, message: str) -> None:
    place = await bucket(shop, s3, bucket="fresh", createBucketIfNotPresent={})
    with pytest.raises(ArtifactError, match=message):
        await save(shop, {**place, field: value})
