"""What kind of isolation this machine allows Pods to have: found out by trying, in a process that is thrown away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import muster
from muster.embedded.agent.contract import Isolation

_SOURCES = str(Path(muster.__file__).parent.parent)
_ATTEMPT = """
import os, sys
sys.path.insert(0, sys.argv[1])
from muster.embedded.agent import syscalls as s
if sys.argv[2] == "user-namespaces":
    from muster.embedded.agent.launching import rename_user
    rename_user(os.getuid(), os.getgid())
s.unshare(s.NEW_MOUNTS | s.NEW_HOSTNAME | s.NEW_IPC | s.NEW_PIDS)
s.follow_mounts_of_parent()
"""


def find_isolation() -> Isolation:
    """The best there is."""
    kinds: tuple[Isolation, ...] = ("namespaces", "user-namespaces")
    return next((kind for kind in kinds if _works(kind)), "none")


def _works(isolation: Isolation) -> bool:
    command = [sys.executable, "-I", "-S", "-c", _ATTEMPT, _SOURCES, isolation]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0
