"""A server is found exactly as long as its process holds the lock."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.server import pidfile
from muster.server.pidfile import (
    ServerError,
    ServerInfo,
    claim_home,
    is_alive,
    running_server,
    start_detached,
    stop_server,
)


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


HEIR = """
import os, pathlib, sys, time
from muster.server.pidfile import claim_home
home = pathlib.Path(sys.argv[1])
with claim_home(home) as announce:
    announce("https://127.0.0.1:1", home / "k")
    if os.fork() == 0:  # It has the lock, too, as a killed process has until the kernel has freed its memory.
        sys.stdin.read(1)
        os._exit(0)
    print("here", flush=True)
    time.sleep(60)
"""


@contextmanager
def dying_server(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that was killed, but whose lock is held until its standard input is closed."""
    with subprocess.Popen(
        [sys.executable, "-c", HEIR, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None and server.stdin is not None
        server.stdout.readline()
        assert running_server(home) is not None
        server.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)
        yield server
        server.stdin.close()


def test_a_dying_server_is_not_found_even_while_it_holds_the_lock(tmp_path: Path) -> None:
    with dying_server(tmp_path):
        assert running_server(tmp_path) is None
        assert stop_server(tmp_path) is None


def test_the_next_server_waits_for_the_lock_of_a_dying_one(tmp_path: Path) -> None:
    with dying_server(tmp_path) as dying:
        assert dying.stdin is not None
        threading.Timer(1.5, dying.stdin.close).start()
        with claim_home(tmp_path) as announce:
            assert announce("https://127.0.0.1:1", tmp_path / "k").pid == os.getpid()


def test_a_lock_that_is_never_released_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidfile, "_DYING_SECONDS", 0.2)
    refused = pytest.raises(ServerError, match="another process still holds its lock")
    with dying_server(tmp_path), refused, claim_home(tmp_path):
        pass


def test_up_does_not_take_another_server_for_the_one_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` right after kill -9 said "up" and showed the address of the killed server."""
    other = ServerInfo(os.getpid(), "https://127.0.0.1:1", "k", time.time())
    monkeypatch.setattr(pidfile, "running_server", lambda home: other)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ServerError, match="exit code 1"):
        start_detached(tmp_path)


def test_a_server_that_starts_names_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pidfile, "_LOOKING_SECONDS", 0.05)
    refused = pytest.raises(ServerError, match=rf"already runs in .* \(process {os.getpid()}\)")
    with claim_home(tmp_path), refused, claim_home(tmp_path):
        pass


def test_whether_a_process_is_the_server() -> None:
    now = time.time()
    assert is_alive(ServerInfo(os.getpid(), "", "", now))
    assert not is_alive(ServerInfo(os.getpid(), "", "", now - 10**6)), "the number belongs to a later process"
    assert not is_alive(ServerInfo(2**22 + 1, "", "", now))
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert not is_alive(ServerInfo(ended.pid, "", "", now)), "it is a zombie"
