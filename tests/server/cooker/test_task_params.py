"""taskParams of MLP Cooker in both forms."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.platform.errors import InvalidProblem
from muster.server.cooker.task_params import TaskDefaults, parse_task_params

OLDER: dict[str, Any] = {
    "name": "pytorch-training-job",
    "jobType": "PyTorchJob",
    "command": "python train.py",
    "jobSpec": {
        "replicas": 2,
        "image": "registry.baidubce.com/aihc-aiak/pytorch:latest",
        "resources": [{"name": "baidu.com/a800_80g_cgpu", "quantity": 8}, {"name": "memory", "quantity": "64"}],
        "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "enableRDMA": True,
    },
    "datasources": [{"type": "pfs", "mountPath": "/workspace"}],
}
NEWER: dict[str, Any] = {
    "name": "pytorch-training-job",
    "jobType": "PyTorchJob",
    "replicas": 2,
    "enableRDMA": True,
    "container": {
        "image": "registry.baidubce.com/aihc-aiak/pytorch:latest",
        "command": ["python"],
        "args": ["train.py"],
        "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
        "volumes": [{"type": "PFS", "mountPath": "/workspace"}],
        "resources": {"memory": 64, "gpu": {"type": "a800_80g", "count": 8}},
    },
}
DEFAULTS = TaskDefaults(queue="aihcq-1", pfs="pfs-1", bucket="my-bucket")


def errors(params: Any) -> dict[str, str]:
    with pytest.raises(InvalidProblem) as caught:
        parse_task_params(params)
    return {each.field: each.code for each in caught.value.errors}


def without(params: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name not in names}


def test_both_forms_become_the_same_body() -> None:
    assert parse_task_params(NEWER, DEFAULTS) == parse_task_params(OLDER, DEFAULTS)


def test_the_body_is_complete() -> None:
    assert parse_task_params(OLDER, DEFAULTS) == {
        "name": "pytorch-training-job",
        "jobType": "PyTorchJob",
        "command": "python train.py",
        "queue": "aihcq-1",
        "priority": "normal",
        "jobSpec": {
            "image": "registry.baidubce.com/aihc-aiak/pytorch:latest",
            "replicas": 2,
            "resources": [{"name": "baidu.com/a800_80g_cgpu", "quantity": 8}, {"name": "memory", "quantity": 64}],
            "envs": [{"name": "NCCL_DEBUG", "value": "INFO"}],
            "enableRDMA": True,
            "hostNetwork": False,
        },
        "datasources": [
            {
                "type": "pfs",
                "name": "pfs-1",
                "sourcePath": "/",
                "mountPath": "/workspace",
                "options": {"readOnly": False},
            }
        ],
        "labels": [],
    }


def test_what_is_there_is_never_replaced() -> None:
    pfs = {"type": "pfs", "name": "pfs-2", "sourcePath": "/mine", "mountPath": "/here", "readOnly": True}
    bos = {"type": "bos", "sourcePath": "other/data/", "mountPath": "/data"}
    params = parse_task_params({**OLDER, "queue": "mine", "datasources": [pfs, bos]}, DEFAULTS)
    assert params["queue"] == "mine"
    assert params["datasources"] == [
        {"type": "pfs", "name": "pfs-2", "sourcePath": "/mine", "mountPath": "/here", "options": {"readOnly": True}},
        {"type": "bos", "name": "", "sourcePath": "other/data/", "mountPath": "/data", "options": {"readOnly": False}},
    ]


def test_a_bucket_of_the_settings_is_filled_in() -> None:
    (source,) = parse_task_params({**OLDER, "datasources": [{"type": "bos"}]}, DEFAULTS)["datasources"]
    assert (source["sourcePath"], source["mountPath"]) == ("my-bucket/", "/data")


@pytest.mark.parametrize("params", [OLDER, NEWER])
def test_a_json_string_is_the_same_as_the_object(params: dict[str, Any]) -> None:
    assert parse_task_params(orjson.dumps(params).decode()) == parse_task_params(params)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("TensorFlowJob", "TFJob"), ("tfjob", "TFJob"), ("MPIJob", "MPIJob"), (None, "PyTorchJob"), ("", "PyTorchJob")],
)
def test_job_types_of_the_seed_and_of_aihc(said: Any, meant: str) -> None:
    assert parse_task_params({**OLDER, "jobType": said})["jobType"] == meant


def test_words_of_a_command_are_quoted_for_the_shell() -> None:
    container = {**NEWER["container"], "command": ["sh", "-c"], "args": ["echo 'a b' $HOME"]}
    params = parse_task_params({**NEWER, "container": container})
    assert params["command"] == """sh -c 'echo '"'"'a b'"'"' $HOME'"""


@pytest.mark.parametrize("given", [None, "", {}, []])
def test_a_request_without_parameters_says_so(given: Any) -> None:
    assert errors(given) == {"taskParams": "cooker.params"}


@pytest.mark.parametrize(
    ("given", "field", "code"),
    [
        ("{", "taskParams", "cooker.json"),
        ("[1]", "taskParams", "cooker.type"),
        (7, "taskParams", "cooker.type"),
        (without(OLDER, "name"), "taskParams.name", "field.missing"),
        ({**OLDER, "name": "../x"}, "taskParams.name", "cooker.name"),
        (without(OLDER, "command"), "taskParams.command", "field.missing"),
        ({**OLDER, "command": ["python"]}, "taskParams.command", "cooker.type"),
        ({**OLDER, "jobType": "SparkJob"}, "taskParams.jobType", "cooker.job-type"),
        ({**OLDER, "priority": "urgent"}, "taskParams.priority", "filter.value"),
        ({**OLDER, "dataSources": []}, "taskParams.dataSources", "cooker.unknown"),
        ({**OLDER, "jobSpec": {"image": ""}}, "taskParams.jobSpec.image", "field.missing"),
        ({**OLDER, "jobSpec": []}, "taskParams.jobSpec", "cooker.type"),
        (
            {**OLDER, "jobSpec": {"image": "a", "imageConfig": {"username": "u", "password": "p"}}},
            "taskParams.jobSpec.imageConfig",
            "cooker.password",
        ),
        ({**OLDER, "jobSpec": {"image": "a", "replicas": -1}}, "taskParams.jobSpec.replicas", "cooker.type"),
        (
            {**OLDER, "jobSpec": {"image": "a", "resources": [{"name": "cpu", "quantity": "many"}]}},
            "taskParams.jobSpec.resources[0].quantity",
            "cooker.quantity",
        ),
        (
            {**OLDER, "jobSpec": {"image": "a", "envs": [{"name": "A B", "value": ""}]}},
            "taskParams.jobSpec.envs[0].name",
            "cooker.variable",
        ),
        ({**OLDER, "datasources": [{"type": "ftp"}]}, "taskParams.datasources[0].type", "cooker.source-type"),
        (
            {**OLDER, "datasources": [{"type": "pfs", "mountPath": "/a/../b"}]},
            "taskParams.datasources[0].mountPath",
            "storage.path",
        ),
        (
            {**OLDER, "datasources": [{"type": "pfs", "sourcePath": "/../etc"}]},
            "taskParams.datasources[0].sourcePath",
            "cooker.source-path",
        ),
        (
            {**OLDER, "datasources": [{"type": "pfs"}, {"type": "bos"}]},
            "taskParams.datasources[1].mountPath",
            "storage.same-path",
        ),
    ],
)
def test_a_mistake_is_named_with_its_field(given: Any, field: str, code: str) -> None:
    assert errors(given)[field] == code


def test_all_mistakes_are_named_at_once() -> None:
    found = errors({"jobType": "x", "jobSpec": {"replicas": "two"}})
    assert set(found) == {
        "taskParams.name", "taskParams.jobType", "taskParams.command", "taskParams.jobSpec.image",
        "taskParams.jobSpec.replicas",
    }  # fmt: skip


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False)
    | st.integers(-(2**53), 2**53)
    | st.text("ab/. 1", max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/. 1", max_size=5), inner, max_size=3),
    max_leaves=8,
)
_fields = st.sampled_from([*OLDER, *NEWER, "labels", "priority", "queue", "timeout"])


@given(changes=st.dictionaries(_fields, _json, max_size=3), base=st.sampled_from([OLDER, NEWER]))
def test_any_object_is_read_or_refused(changes: dict[str, Any], base: dict[str, Any]) -> None:
    """And what was read is read again as the same."""
    try:
        params = parse_task_params({**base, **changes}, DEFAULTS)
    except InvalidProblem as problem:
        assert problem.errors
        return
    assert parse_task_params(params, TaskDefaults()) == params
