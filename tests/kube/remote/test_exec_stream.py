from __future__ import annotations

import orjson
import pytest

from muster.kube.errors import ApiError, Forbidden
from muster.kube.remote.exec_stream import exit_code_of, exit_status_of, parse_resize, resize_message


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_an_exit_code_there_and_back(code: int) -> None:
    assert exit_code_of(orjson.dumps(exit_status_of(code))) == code


def test_a_command_that_could_not_run_has_no_code() -> None:
    with pytest.raises(Forbidden, match="not you"):
        exit_code_of(b'{"status":"Failure","reason":"Forbidden","code":403,"message":"not you"}')
    with pytest.raises(ApiError, match="no such file"):
        exit_code_of(b"exec: no such file")


def test_the_size_of_a_terminal() -> None:
    assert parse_resize(resize_message(24, 80)[1:]) == (24, 80)
    assert parse_resize(b"rubbish") is None and parse_resize(b"{}") is None and parse_resize(b"[]") is None
