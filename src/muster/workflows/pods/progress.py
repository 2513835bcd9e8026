"""What running Pods say of their own progress, in the file that ARGO_PROGRESS_FILE names.

That file lies in the container's own /tmp, which is a folder of this machine: looking at it needs nobody's help.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from muster.embedded.agent.requests import scratch_folder
from muster.workflows.pods.building import PROGRESS_FILE
from muster.workflows.pods.templates import MAIN

SECONDS = 3.0
"""Between two looks, as Argo does it."""

_FORM = re.compile(r"(\d+)/(\d+)")
_TAIL = 256


def progress_file(pods: Path, uid: str) -> str:
    """`pods` is AgentSettings.pods."""
    return f"{scratch_folder(f'{pods}/{uid}', MAIN)}/{Path(PROGRESS_FILE).name}"


def reported_progress(path: str) -> str:
    """The last line of the file, if it is a progress such as `3/10`; '' otherwise."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).decode("ascii", "replace").split()
    except OSError:
        return ""
    finally:
        os.close(descriptor)
    return as_progress(lines[-1]) if lines else ""


def as_progress(text: str) -> str:
    """'' unless it is a share of something: `3/10`, not `4/3` nor `0/0`."""
    found = _FORM.fullmatch(text.strip())
    return text.strip() if found and 0 <= int(found[1]) <= int(found[2]) and int(found[2]) > 0 else ""
