"""Whose server listens at the address of a Pod."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from muster.embedded.node.listeners import is_own_listener, listener_uid
from muster.embedded.node.supervisor.user_namespaces import FIRST_ID, RANGE_SIZE

NUMBERS = {"ann": 0, "bob": 1}


def first_id(namespace: str) -> int:
    return FIRST_ID + NUMBERS[namespace] * RANGE_SIZE


@pytest.mark.parametrize(
    ("uid", "namespace", "restricted", "is_own"),
    [
        (FIRST_ID + RANGE_SIZE, "bob", True, True),
        (FIRST_ID + 2 * RANGE_SIZE - 1, "bob", True, True),
        (FIRST_ID, "bob", True, False),
        (FIRST_ID + 2 * RANGE_SIZE, "bob", True, False),
        (0, "bob", True, False),
        (0, "default", False, True),
        (1000, "default", False, True),
        (FIRST_ID, "default", False, False),
        (None, "bob", True, False),
        (None, "default", False, False),
    ],
)
def test_whose_it_can_be(uid: int | None, namespace: str, restricted: bool, is_own: bool) -> None:
    assert is_own_listener(uid, namespace, first_id, restricted=restricted) == is_own
    assert is_own_listener(uid, namespace, None, restricted=restricted), "all Pods have the same user"


@pytest.mark.parametrize("bound", ["127.9.8.7", "0.0.0.0"])
def test_the_kernel_knows_the_user(bound: str) -> None:
    with socket.socket() as listener:
        listener.bind((bound, 0))
        port = listener.getsockname()[1]
        assert listener_uid("127.9.8.7", port) is None
        listener.listen()
        assert listener_uid("127.9.8.7", port) == os.getuid()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to listen as another user")
def test_the_server_of_another_user() -> None:
    listen = (
        "import os, socket; os.setuid(4711); s = socket.socket(); s.bind(('127.9.8.7', 0)); s.listen()\n"
        "print(s.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert listener_uid("127.9.8.7", int(other.stdout.readline())) == 4711
        other.communicate("\n")
