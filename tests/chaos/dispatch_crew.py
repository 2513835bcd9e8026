"""Dispatchers in processes of their own, to be killed."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

PATIENCE = 120.0
ROOT = Path(__file__).parents[2]
"""Where `python -m tests...` finds its modules."""


class Crew:
    """Dispatcher processes, some of which are killed."""

    def __init__(self, command: list[str], folder: Path, size: int) -> None:
        self._command = command
        self._log = (folder / "dispatchers.log").open("ab")
        self._members = [self._launch() for _ in range(size)]
        self.kills = 0

    def _launch(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=self._log, stderr=self._log, start_new_session=True, cwd=ROOT)

    def kill_one(self) -> None:
        number = random.randrange(len(self._members))
        self._members[number].send_signal(signal.SIGKILL)
        self._members[number].wait()
        self.kills += 1
        self._members[number] = self._launch()

    def end(self) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            code = member.wait(PATIENCE)
            # One that was launched a moment ago does not handle the signal yet.
            assert code in (0, -signal.SIGTERM), f"a dispatcher ended with {code}"
        self._log.close()
