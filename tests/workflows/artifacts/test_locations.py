from __future__ import annotations

from typing import Any

import pytest

from muster.workflows.artifacts.locations import (
    LOCAL,
    artifact_with_key,
    has_location,
    is_local,
    is_supplied,
    key_of,
    kind_of,
    location_of,
    new_key,
    plain_address,
    repository_for,
    with_address,
)

S3 = {"endpoint": "minio:9000", "bucket": "b"}
SCOPE = {"workflow.name": "wf", "pod.name": "wf-a", "workflow.creationTimestamp.Y": "2026"}


@pytest.mark.parametrize(
    ("artifact", "kind", "whole", "key", "supplied"),
    [
        ({}, "", False, "", False),
        ({"s3": {"key": "k"}}, "s3", False, "k", True),
        ({"s3": {"bucket": "b"}}, "s3", False, "", False),
        ({"s3": {**S3, "key": "k"}}, "s3", True, "k", True),
        ({"gcs": {"bucket": "b", "key": "k"}}, "gcs", True, "k", True),
        ({"http": {"url": "https://h/a/b"}}, "http", True, "/a/b", True),
        ({"raw": {"data": "x"}}, "raw", True, "", True),
        ({"raw": {}}, "raw", True, "", True),
        ({"git": {"repo": "r"}}, "git", True, "", True),
        ({"azure": {"blob": "x"}}, "azure", False, "x", True),
        ({"hdfs": {"addresses": ["a"], "path": "/p"}}, "hdfs", True, "/p", True),
    ],
)
def test_what_an_artifact_says_of_its_place(
    artifact: dict[str, Any], kind: str, whole: bool, key: str, supplied: bool
) -> None:
    assert (kind_of(artifact), has_location(artifact), key_of(artifact), is_supplied(artifact)) == (
        kind, whole, key, supplied,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("repository", "location"),
    [
        (LOCAL, {"s3": {"key": "k"}}),
        ({"s3": {**S3, "keyFormat": "x"}}, {"s3": {**S3, "key": "k"}}),
        ({"gcs": {"bucket": "g"}}, {"gcs": {"bucket": "g", "key": "k"}}),
        ({"azure": {"endpoint": "e", "container": "c"}}, {"azure": {"endpoint": "e", "container": "c", "blob": "k"}}),
        ({"artifactory": {"repoURL": "https://h/repo"}}, {"artifactory": {"url": "https://h/k"}}),
    ],
)
def test_a_key_alone_is_looked_for_in_the_repository(repository: dict[str, Any], location: dict[str, Any]) -> None:
    assert location_of({"s3": {"key": "k"}}, repository) == location


def test_a_whole_location_stands_for_itself() -> None:
    assert location_of({"name": "a", "raw": {"data": "x"}}, LOCAL) == {"raw": {"data": "x"}}
    assert is_local(location_of({"s3": {"key": "k"}}, LOCAL))
    assert not is_local(location_of({"s3": {**S3, "key": "k"}}, LOCAL))


@pytest.mark.parametrize(
    ("repository", "key"),
    [
        (LOCAL, "wf/wf-a/m.tgz"),
        ({"s3": {"keyPrefix": "pre"}}, "pre/wf/wf-a/m.tgz"),
        ({"s3": {"keyFormat": "{{workflow.creationTimestamp.Y}}/{{pod.name}}"}}, "2026/wf-a/m.tgz"),
        ({"azure": {"blobNameFormat": "x"}}, "x/m.tgz"),
        ({"artifactory": {"repoURL": "https://h/repo"}}, "repo/wf/wf-a/m.tgz"),
    ],
)
def test_a_new_artifact_gets_a_key(repository: dict[str, Any], key: str) -> None:
    assert new_key(repository, SCOPE, "m.tgz") == key


def test_the_settings_of_the_repository_are_not_recorded() -> None:
    assert artifact_with_key({"name": "m"}, {"s3": {**S3, "accessKeySecret": {}}}, "k") == {
        "name": "m",
        "s3": {"key": "k"},
    }


def test_a_template_may_have_a_place_of_its_own() -> None:
    template = {"archiveLocation": {"s3": {**S3, "key": "here"}}}
    repository = repository_for(template, LOCAL)
    assert new_key(repository, SCOPE, "m.tgz") == "here/m.tgz"
    assert location_of({"s3": {"key": "k"}}, repository) == {"s3": {**S3, "key": "k"}}
    assert repository_for({"archiveLocation": {"archiveLogs": True}}, LOCAL) is LOCAL


@pytest.mark.parametrize(
    ("location", "address", "moved"),
    [
        (
            {"s3": {"endpoint": "minio:9000", "insecure": True}},
            ("minio", 9000),
            {"endpoint": "10.1.1.1:8", "insecure": True},
        ),
        ({"s3": {"endpoint": "minio:9000"}}, None, None),
        ({"http": {"url": "http://u@bin.argo/x?y"}}, ("bin.argo", 80), {"url": "http://u@10.1.1.1:8/x?y"}),
        ({"http": {"url": "https://bin/x"}}, None, None),
        ({"http": {"url": "http://[bad"}}, None, None),
        ({"gcs": {"bucket": "b"}}, None, None),
    ],
)
def test_the_server_of_a_location_by_plain_http(
    location: dict[str, Any], address: tuple[str, int] | None, moved: dict[str, Any] | None
) -> None:
    assert plain_address(location) == address
    if moved is not None:
        assert next(iter(with_address(location, "10.1.1.1", 8).values())) == moved
