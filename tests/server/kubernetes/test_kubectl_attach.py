"""The real kubectl on a terminal: `kubectl run -it` and `kubectl attach -it` of Pods that really run."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.cli.commands import PATIENCE, Muster
from tests.server.argo.test_cooker_guide import KUBECTL

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not KUBECTL, reason="there is no kubectl: install one, or name it in MUSTER_TEST_KUBECTL"),
]


class Terminal:
    """A command on a terminal of its own, as a user starts it."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        self._ours, theirs = os.openpty()
        self.resize(24, 80)
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(theirs)
        self.seen = ""

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def expect(self, pattern: str) -> None:
        """Waits for a text after the last one that was expected."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.seen)) is None:
            assert time.monotonic() < deadline and self._read(), f"{pattern!r} is missing: {self.seen!r}"
        self.seen = self.seen[found.end() :]

    def exit_code(self) -> int:
        while self._read():
            pass
        return self.process.wait(PATIENCE)

    def end(self) -> None:
        """Closes the terminal, as a user closes a window."""
        if self._ours >= 0:
            self.process.kill()
            self.process.wait()
            os.close(self._ours)
            self._ours = -1

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 1.0)[0]:
            return self.process.poll() is None
        try:
            self.seen += os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # the command has ended
            return False
        return True


class Terminals:
    def __init__(self, muster: Muster) -> None:
        self._muster = muster
        lines = muster("env").ok().out.splitlines()
        settings = dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in lines)
        self._variables = {**os.environ, **settings, "HOME": str(muster.folder)}
        self._open: list[Terminal] = []

    def __call__(self, *words: str) -> Terminal:
        terminal = Terminal([KUBECTL, *words], self._variables)
        self._open.append(terminal)
        return terminal

    def pipe(self, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
        """Runs kubectl without a terminal."""
        return subprocess.run(
            [KUBECTL, *words], input=given, capture_output=True, text=True, env=self._variables, timeout=PATIENCE
        )

    def end(self) -> None:
        for terminal in self._open:
            terminal.end()


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
    home: Path = tmp_path_factory.mktemp("home")
    found = Muster(home, tmp_path_factory.mktemp("work"))
    found("up", "-d", "--port", "0").ok()
    yield found
    found("delete", "pods", "--all", "--grace-period=0")
    found("down").ok()


@pytest.fixture
def kubectl(muster: Muster) -> Iterator[Terminals]:
    found = Terminals(muster)
    yield found
    found.end()


SHELL = ("--image=busybox", "--restart=Never", "--env=PS1=here$ ", "--command", "--", "sh", "-i")


def test_run_with_a_terminal_and_attach_again_after_a_restart_of_the_server(kubectl: Terminals, muster: Muster) -> None:
    first = kubectl("run", "box", "-it", *SHELL)
    first.expect(r"here\$ |press")
    first.type("tty=$(test -t 0 && echo yes); echo tty=$tty; stty size\n")
    first.expect(r"tty=yes\r\n24 80\r\n")
    first.resize(33, 99)
    first.expect(r"here\$ ")
    # The size arrives on its own; the shell asks until it is there.
    first.type("until stty size | grep 33; do sleep 0.05; done\n")
    first.expect(r"33 99\r\n")
    first.end()
    muster("down").ok()
    muster("up", "-d", "--port", "0").ok()
    again = kubectl("attach", "box", "-it")
    again.type("echo still $tty\n")
    again.expect(r"still yes\r\n")
    again.type("exit 3\n")
    again.exit_code()
    state = kubectl.pipe("get", "pod", "box", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}")
    assert state.stdout == "3"
    assert "still yes" in muster("logs", "box").ok().out


def test_run_passes_the_exit_code_on_and_removes_the_pod(kubectl: Terminals) -> None:
    ran = kubectl("run", "short", "-it", "--rm", *SHELL)
    ran.expect(r"here\$ |press")
    ran.type("exit 5\n")
    assert ran.exit_code() == 5
    assert "not found" in kubectl.pipe("get", "pod", "short").stderr


def test_run_reads_a_pipe_to_its_end(kubectl: Terminals) -> None:
    words = ("--image=busybox", "--restart=Never", "--rm", "--command", "--", "sh", "-c", "wc -l; echo err >&2")
    ran = kubectl.pipe("run", "counts", "-i", *words, given="one\ntwo\n")
    assert (ran.returncode, ran.stdout.split()[0]) == (0, "2"), ran
    assert "err" in ran.stderr


def test_attach_without_a_standard_input_is_explained(kubectl: Terminals) -> None:
    made = kubectl.pipe(
        "run", "silent", "--image=busybox", "--restart=Never", "--command", "--", "sh", "-c", "echo up; sleep 600"
    )
    assert made.returncode == 0, made
    assert kubectl.pipe("wait", "pod/silent", "--for=condition=Ready", "--timeout=60s").returncode == 0
    refused = kubectl.pipe("attach", "silent", "-i", given="x\n")
    assert refused.returncode != 0 and "has no standard input: set its stdin to true" in refused.stderr, refused
