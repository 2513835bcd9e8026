from __future__ import annotations

import socket
from pathlib import Path

import pytest

from muster.server.listening import listening
from muster.server.presence import ServerError


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_the_port_of_last_time_comes_before_the_usual_one(tmp_path: Path) -> None:
    usual, remembered = free_port(), tmp_path / "port"
    with listening("127.0.0.1", 0, remembered, usual=usual) as first:
        assert port_of(first) == usual
        with listening("127.0.0.1", 0, tmp_path / "other", usual=usual) as second:
            assert port_of(second) not in {0, usual}, "somebody else has it"
            other = port_of(second)
    with listening("127.0.0.1", 0, tmp_path / "other", usual=usual) as again:
        assert port_of(again) == other
    remembered.write_text("not a number")
    with listening("127.0.0.1", 0, remembered, usual=usual) as fresh:
        assert port_of(fresh) == usual


def test_a_port_that_was_set_is_that_one_or_an_error(tmp_path: Path) -> None:
    with listening("127.0.0.1", 0, tmp_path / "a") as taken:
        port = port_of(taken)
        told = rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"
        with pytest.raises(ServerError, match=told), listening("127.0.0.1", port, tmp_path / "b"):
            pass
    with listening("127.0.0.1", port, tmp_path / "b") as got:
        assert port_of(got) == port


def test_an_address_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="cannot listen on 203"), listening("203.0.113.1", 0, tmp_path / "a"):
        pass
