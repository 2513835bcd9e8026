from __future__ import annotations

import orjson
import pytest

from muster.kube.errors import ApiError, Forbidden
from muster.kube.remote.channels import exit_code, exit_status, resize_message, size_in


@pytest.mark.parametrize("code", [0, 1, 7, 137, 255])
def test_an_exit_code_there_and_back(code: int) -> None:
    assert exit_code(orjson.dumps(exit_status(code))) == code


def test_a_command_that_could_not_run_has_no_code() -> None:
    with pytest.raises(Forbidden, match="not you"):
        exit_code(b'{"status":"Failure","reason":"Forbidden","code":403,"message":"not you"}')
    with pytest.raises(ApiError, match="no such file"):
        exit_code(b"exec: no such file")


def test_the_size_of_a_terminal() -> None:
    assert size_in(resize_message(24, 80)[1:]) == (24, 80)
    assert size_in(b"rubbish") is None and size_in(b"{}") is None and size_in(b"[]") is None
