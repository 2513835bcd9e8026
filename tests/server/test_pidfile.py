"""A server is found exactly as long as its process holds the lock."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from muster.server.pidfile import ServerError, claim_home, running_server


def test_no_server_at_first(tmp_path: Path) -> None:
    assert running_server(tmp_path) is None


def test_a_server_is_found_while_it_holds_the_lock(tmp_path: Path) -> None:
    with claim_home(tmp_path) as announce:
        assert running_server(tmp_path) is None, "not ready yet"
        info = announce("https://127.0.0.1:1", tmp_path / "kubeconfig")
        assert running_server(tmp_path) == info
    assert running_server(tmp_path) is None


def test_a_second_server_gets_an_error_that_names_the_first(tmp_path: Path) -> None:
    with claim_home(tmp_path) as announce:
        info = announce("https://127.0.0.1:1", tmp_path / "k")
        with pytest.raises(ServerError, match=rf"already runs in .*process {info.pid}"), claim_home(tmp_path):
            pass


def test_a_killed_server_is_not_found(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib; from muster.server.pidfile import claim_home\n"
        "home = pathlib.Path(sys.argv[1])\n"
        "with claim_home(home) as announce:\n"
        "    announce('https://127.0.0.1:1', home / 'k')\n"
        "    print('here', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        found = running_server(tmp_path)
        assert found is not None
        assert found.pid == server.pid
        server.kill()
        server.wait()
        assert running_server(tmp_path) is None


def test_a_reader_does_not_block_a_server(tmp_path: Path) -> None:
    (tmp_path / "server.json").touch()
    with (tmp_path / "server.json").open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.1, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        with claim_home(tmp_path) as announce:
            announce("https://127.0.0.1:1", tmp_path / "k")
            assert running_server(tmp_path) is not None
