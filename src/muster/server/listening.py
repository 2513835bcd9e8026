"""Sockets that listen where one expects them to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.server.presence import ServerError


@contextmanager
def listening(host: str, port: int, remembered: Path, *, usual: int = 0) -> Iterator[socket.socket]:
    """On the port that was set, else on the one of last time, so that what was told about it stays right; else on the
    usual one, else on any."""
    wanted = [port] if port else [*_last(remembered), *([usual] if usual else []), 0]
    listener = _first_free(host, wanted)
    with listener:
        remembered.write_text(str(listener.getsockname()[1]))
        yield listener


def _first_free(host: str, ports: list[int]) -> socket.socket:
    for number, port in enumerate(ports, start=1):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            # Two may have the same address until one of them listens.
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            if number == len(ports):
                raise ServerError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        else:
            return listener
    raise ValueError("no port to try")


def _last(remembered: Path) -> list[int]:
    try:
        return [int(remembered.read_text())]
    except (FileNotFoundError, ValueError):
        return []
