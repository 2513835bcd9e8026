"""Jobs as plain data, and keys that are never shown."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from muster.dispatch import InvalidJob, JobError, Refused, Resources, Spec, secret
from muster.dispatch.codec import spec_from_json, spec_to_json
from muster.dispatch.secrets import mask


def test_memory_is_a_kubernetes_quantity() -> None:
    assert Resources(memory="2Gi").memory_bytes == 2 * 1024**3
    with pytest.raises(InvalidJob, match=r"resources\.memory"):
        Resources(memory="2 gigs")


def test_a_command_is_a_list_of_words() -> None:
    with pytest.raises(InvalidJob, match='"sh", "-c"'):
        Spec(command=cast(Any, "python train.py"))


def test_a_secret_is_read_when_needed_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    file = tmp_path / "key"
    file.write_text("hunter3\n")
    key, from_file = secret("env:SHOP_KEY"), secret(f"file:{file}")

    assert (key.reveal(), from_file.reveal()) == ("hunter2", "hunter3")
    spec = Spec(env={"KEY": key})
    for shown in (str(key), repr(key), f"{key}", repr(spec), str(mask({"env": [spec.env]})), str(pickle.dumps(key))):
        assert "hunter" not in shown


def test_a_missing_secret_names_where_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_KEY", raising=False)
    with pytest.raises(Refused, match="SHOP_KEY is not set"):
        secret("env:SHOP_KEY").reveal()
    with pytest.raises(InvalidJob, match="not to write it down"):
        secret("hunter2")


def test_a_job_error_crosses_processes() -> None:
    error = pickle.loads(pickle.dumps(JobError("Train.Diverged", "the loss is NaN", retryable=False)))
    assert (error.code, error.message, error.retryable) == ("Train.Diverged", "the loss is NaN", False)


def test_secrets_in_a_spec_survive_as_references() -> None:
    registry = {"username": "robot", "password": secret("env:PASSWORD")}
    spec = Spec(
        env={"A": secret("env:A"), "B": "b"}, options={"aihc": {"jobSpec": {"imageConfig": registry}, "n": [1]}}
    )
    assert spec_from_json(orjson.loads(orjson.dumps(spec_to_json(spec)))) == spec


@pytest.mark.parametrize("data", [
    {"$secret": "env:HOME"},
    {"$literal": {"$secret": "env:HOME"}},
    {"$literal": {"$literal": {"$secret": "file:/etc/passwd"}}},
    {"a": [{"$secret": "env:HOME"}, {"$secret": "env:HOME", "b": 1}]},
])  # fmt: skip
def test_data_that_looks_like_a_secret_stays_data(data: dict[str, Any]) -> None:
    spec = Spec(options={"aihc": data})
    assert spec_from_json(orjson.loads(orjson.dumps(spec_to_json(spec)))) == spec
