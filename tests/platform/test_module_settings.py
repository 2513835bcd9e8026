from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.kube.schema_validation import validate
from muster.platform.settings import MODULES_SCHEMA, ModuleSettings, read_module_settings


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ({}, ModuleSettings()),
        ({"builder": "buildah", "minutes": 0.5}, ModuleSettings(builder="buildah", minutes=0.5)),
        ({"megabytes": 5, "atOnce": 1}, ModuleSettings(megabytes=5, at_once=1)),
        ({"localRepositories": ["/srv/git"]}, ModuleSettings(local_repositories=(Path("/srv/git"),))),
    ],
)
def test_reads_settings(said: dict[str, Any], read: ModuleSettings) -> None:
    assert validate(said, MODULES_SCHEMA) == []
    assert read_module_settings({"modules": said}) == read


@pytest.mark.parametrize(
    ("said", "field"), [({"builder": "kaniko"}, "builder"), ({"atOnce": 0}, "atOnce"), ({"minute": 1}, "minute")]
)
def test_errors_name_the_setting(said: dict[str, Any], field: str) -> None:
    assert [cause.field for cause in validate(said, MODULES_SCHEMA)] == [field]
