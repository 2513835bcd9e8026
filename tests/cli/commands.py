"""The `muster` command as users run it: a real process with its own data directory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

PATIENCE = 60.0


@dataclass
class Result:
    code: int
    out: str
    err: str

    def ok(self) -> Result:
        assert self.code == 0, f"exit code {self.code}\n{self.out}\n{self.err}"
        return self


@dataclass
class Muster:
    """Runs commands in one data directory."""

    home: Path
    folder: Path
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __call__(self, *words: str, input: str | None = None, timeout: float = PATIENCE) -> Result:
        done = subprocess.run(
            self.command(*words),
            input=input,
            stdin=subprocess.DEVNULL if input is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment,
            cwd=self.folder,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Starts it in the background, with its output in pipes."""
        process = subprocess.Popen(
            self.command(*words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )
        self.processes.append(process)
        return process

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(dedent(text))
        return name

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "muster", *words]

    @property
    def environment(self) -> dict[str, str]:
        # Python may write compiled files, as it does by default. Otherwise a command spends most of its time compiling.
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "MUSTER_HOME": str(self.home), "COLUMNS": "200"}

    def end(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Returns what the process prints, up to and including the line that contains the text."""
    assert process.stdout is not None
    lines = []
    deadline = time.monotonic() + PATIENCE
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
        assert time.monotonic() < deadline, "".join(lines)
    error = process.stderr.read() if process.stderr is not None else ""
    raise AssertionError(f"{text!r} never came; there was:\n{''.join(lines)}\n{error}")


WAIT_FOR_GATE = "while [ ! -e /tmp/gate ]; do sleep 0.05; done"


def open_gate(muster: Muster, name: str) -> None:
    """Opens the gate of a Pod that waits with WAIT_FOR_GATE. Its /tmp is private, so this runs in the container."""
    muster("exec", name, "--", "touch", "/tmp/gate").ok()


def pod(name: str, script: str, *, restart: str = "Never", labels: str = "", more: str = "") -> str:
    """A Pod that runs a shell script. `more` are fields of its container."""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{{labels}}}\n"
        f"spec:\n  restartPolicy: {restart}\n  containers:\n"
        f"    - name: main\n      image: busybox\n      command: [sh, -c, {script!r}]\n{more}"
    )
