"""A server is up only if it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from muster.server.pidfile import running_server
from tests.server.test_pidfile import dying_server


def test_up_right_after_kill_9_reports_a_server_that_is_gone(tmp_path: Path) -> None:
    """The killed server holds its lock until the kernel has freed its memory; `up` took it for the new one."""
    with dying_server(tmp_path):
        assert running_server(tmp_path) is None


@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_comes_up_every_time(tmp_path: Path) -> None:
    """`muster up -d` right after `kill -9`, several times."""
    command = [sys.executable, "-m", "muster", "up", "-d"]
    for _ in range(3):
        done = subprocess.run(
            command, env={**os.environ, "MUSTER_HOME": str(tmp_path)}, capture_output=True, check=True
        )
        assert b"the cluster is up" in done.stdout
        server = running_server(tmp_path)
        assert server is not None
        place = urlsplit(server.url)
        socket.create_connection((place.hostname or "", place.port or 0), timeout=10).close()
        os.kill(server.pid, signal.SIGKILL)
    assert running_server(tmp_path) is None
