"""Settings of dispatch and of MLP Cooker's API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.server.dispatch.settings import (
    AIHC_ENDPOINT,
    AihcSettings,
    SourcePlace,
    TimakerSettings,
    read_cooker_settings,
    read_dispatch_settings,
)

KEYS = {"accessKey": "env:AK", "secretKey": "file:/run/secrets/sk", "queue": "q"}


def aihc(given: dict[str, Any], **environment: str) -> AihcSettings | None:
    return read_dispatch_settings({"dispatch": {"aihc": given}}, environment).aihc


def test_nothing_is_configured_by_default() -> None:
    settings = read_dispatch_settings({}, {})
    assert (settings.aihc, settings.timaker) == (None, None)


def test_aihc_has_keys_by_reference() -> None:
    assert aihc({**KEYS, "pool": "p", "queue": "q"}) == AihcSettings(
        AIHC_ENDPOINT, "env:AK", "file:/run/secrets/sk", "p", "q"
    )


def test_the_environment_comes_before_the_file() -> None:
    names = ("AK", "SK", "BASE_URL", "POOL_ID", "QUEUE_ID", "PFS_INSTANCE_ID", "BUCKET")
    environment = {f"ML_PLATFORM_RESOURCE_{name}": f"{name.lower()}-of-environment" for name in names}
    written = {**KEYS, "endpoint": "http://other", "pool": "p", "queue": "q", "pfs": "f", "bucket": "b"}
    assert aihc(written, **environment) == aihc({}, **environment)
    assert aihc({}, **environment) == AihcSettings(
        "base_url-of-environment",
        "env:ML_PLATFORM_RESOURCE_AK",  # the key itself is read when it is needed
        "env:ML_PLATFORM_RESOURCE_SK",
        "pool_id-of-environment",
        "queue_id-of-environment",
        pfs="pfs_instance_id-of-environment",
        bucket="bucket-of-environment",
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"pool": "p"}, "accessKey and secretKey are missing"),
        ({"accessKey": "env:AK"}, "dispatch.aihc.secretKey is missing"),
        ({"accessKey": "env:AK", "secretKey": "env:SK"}, "dispatch.aihc.queue is missing"),
        ({**KEYS, "managed": False}, "dispatch.aihc.pool is missing"),
        ({**KEYS, "secretKey": "c2VjcmV0"}, "dispatch.aihc.secretKey: name the key, do not write it down"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        aihc(given)


def test_timaker() -> None:
    given = {"address": "http://gateway/", "secretId": "env:ID", "secretKey": "env:KEY", "uin": "u", "appGroup": 3}
    found = read_dispatch_settings({"dispatch": {"timaker": given}}, {}).timaker
    assert found == TimakerSettings("http://gateway", "env:ID", "env:KEY", "u", app_group=3)


def test_cooker() -> None:
    assert (read_cooker_settings({}).enabled, read_cooker_settings({}).port) == (True, 0)
    given = {
        "port": 5002,
        "apps": "/srv/apps",
        "datasources": {"pfs:*": {"storageRoot": "shared", "path": "pfs"}, "bos:b": {"claim": "c"}},
        "accelerators": {"baidu.com/v100": "nvidia.com/v100"},
    }
    settings = read_cooker_settings({"cooker": given})
    assert (settings.port, settings.apps) == (5002, Path("/srv/apps"))
    assert settings.datasources == {"pfs:*": SourcePlace("shared", path="pfs"), "bos:b": SourcePlace(claim="c")}
    assert settings.accelerators == {"baidu.com/*": "nvidia.com/gpu", "baidu.com/v100": "nvidia.com/v100"}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("pfs:*", {}),
        ("pfs:*", {"storageRoot": "a", "claim": "b"}),
        ("pfs", {"claim": "b"}),
        ("a:b", {"claim": "c", "path": "../x"}),
    ],
)
def test_a_place_is_a_storage_root_or_a_claim(name: str, place: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"cooker\.datasources"):
        read_cooker_settings({"cooker": {"datasources": {name: place}}})
