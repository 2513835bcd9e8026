"""The object stores that the ConfigMap `kfp-launcher` of a namespace names, as in Kubeflow Pipelines."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from muster.pipelines.object_stores import ObjectStores, read_object_stores
from muster.pipelines.spec import PipelineError

SECRET = {"secretName": "s3", "accessKeyKey": "user", "secretKeyKey": "password"}
KEYS = {"accessKeySecret": {"name": "s3", "key": "user"}, "secretKeySecret": {"name": "s3", "key": "password"}}
PROVIDERS: dict[str, Any] = {
    "s3": {
        "default": {"region": "eu-1", "credentials": {"fromEnv": False, "secretRef": SECRET}},
        "overrides": [
            {"bucketName": "lab", "keyPrefix": "a/b/", "endpoint": "http://lab:9000"},
            {"bucketName": "other", "endpoint": "other", "disableSSL": True, "region": "eu-2"},
        ],
    },
    "gs": {"default": {"credentials": {"secretRef": {"secretName": "g", "tokenKey": "token.json"}}}},
}


def stores(providers: Any) -> ObjectStores:
    found = read_object_stores({"providers": yaml.safe_dump(providers)})
    return ObjectStores.from_json(found.to_json())


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (
            "s3://models/x/y",
            {
                "s3": {
                    "endpoint": "s3.amazonaws.com",
                    "insecure": False,
                    "region": "eu-1",
                    "bucket": "models",
                    "key": "x/y",
                }
            },
        ),
        (
            "s3://lab/a/b/c",
            {"s3": {"endpoint": "lab:9000", "insecure": True, "region": "eu-1", "bucket": "lab", "key": "a/b/c"}},
        ),
        (
            "s3://lab/a/bc",
            {
                "s3": {
                    "endpoint": "s3.amazonaws.com",
                    "insecure": False,
                    "region": "eu-1",
                    "bucket": "lab",
                    "key": "a/bc",
                }
            },
        ),
        (
            "s3://other/k/",
            {"s3": {"endpoint": "other", "insecure": True, "region": "eu-2", "bucket": "other", "key": "k"}},
        ),
        (
            "gs://b/k",
            {"gcs": {"serviceAccountKeySecret": {"name": "g", "key": "token.json"}, "bucket": "b", "key": "k"}},
        ),
        ("minio://mlpipeline/v2", {}),
        ("s3://bucket", {}),
        ("/data/x", {}),
    ],
)
def test_the_first_store_that_fits_has_a_uri(uri: str, expected: dict[str, Any]) -> None:
    if "s3" in expected:
        expected = {"s3": {**KEYS, **expected["s3"]}}
    assert stores(PROVIDERS).location_of(uri) == expected


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ({"azure": {}}, "providers.azure is not a store"),
        ({"s3": {"default": {"credentials": {"fromEnv": True}}}}, r"fromEnv is not possible here: name a Secret"),
        ({"s3": {"default": {"region": "x"}}}, "s3.default.credentials.secretRef needs secretName and accessKeyKey"),
        ({"minio": {"default": {"credentials": {"secretRef": SECRET}}}}, "minio.default.endpoint is missing"),
        ({"s3": {"overrides": {}, "default": 3}}, "s3.default must be an object"),
        ({"s3": {"overrides": "x"}}, "s3.overrides must be a list"),
        ([1], "providers must be an object"),
    ],
)
def test_wrong_settings_are_refused(providers: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        stores(providers)


def test_settings_that_are_not_yaml() -> None:
    with pytest.raises(PipelineError, match="ConfigMap kfp-launcher: providers cannot be read: providers:2:1: "):
        read_object_stores({"providers": "{"})
    assert read_object_stores({}).stores == ()
