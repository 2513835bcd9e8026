from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from muster.kube.schema import OPENAPI
from tools.cluster.sources import KUBERNETES, SCHEDULER_PLUGINS, VOLCANO
from tools.schemas import ENUMS, generate, read_enums

_CODE = """
func schema_k8sio_api_core_v1_Toleration(ref common.ReferenceCallback) common.OpenAPIDefinition {
\t\t\t\t\t"operator": {
\t\t\t\t\t\tSchemaProps: spec.SchemaProps{
\t\t\t\t\t\t\tType:        []string{"string"},
\t\t\t\t\t\t\tEnum:        []interface{}{"Equal", "Exists"},
\t\t\t\t\t\t},
\t\t\t\t\t},
"""


def test_allowed_values_come_from_the_generated_go_code() -> None:
    assert read_enums(_CODE) == {"k8sio_api_core_v1_Toleration": {"operator": ["Equal", "Exists"]}}


def test_the_data_file_is_what_upstream_publishes() -> None:
    folder = _module_cache()
    for source in (KUBERNETES, VOLCANO, SCHEDULER_PLUGINS):
        if folder is None or not (folder / f"{source.module}@{source.version}").exists():
            pytest.skip(f"{source.module}@{source.version} is not in Go's module cache (make cluster-up downloads it)")
    assert OPENAPI.read_text() == generate(), "run `python -m tools.schemas`"


def test_every_exception_concerns_a_definition_that_is_served() -> None:
    definitions = OPENAPI.read_text()
    assert [path for path in ENUMS if f'"{path.rpartition(".")[0]}":' not in definitions] == []


def _module_cache() -> Path | None:
    if os.environ.get("GOMODCACHE"):
        return Path(os.environ["GOMODCACHE"])
    try:
        done = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return Path(done.stdout.strip())
