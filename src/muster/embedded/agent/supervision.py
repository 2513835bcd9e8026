"""Whether a Pod has a supervisor, and what may be done while it has none.

No Pod may ever run twice, whatever is killed when. The order of writes is what keeps it so:

1. The Pod's file (pod.json) is complete before anybody is asked to start a supervisor, and is never written again.
2. A supervisor takes the lock before it reads the journal, and notes `starting` before it starts a container. It ends
   at once if the lock is taken or the journal says `finished`. So any number of supervisors may be asked for: one runs.
3. The folder stays until the Pod's object has gone for good. As long as the object is there, so is the journal, and a
   Pod with a journal is never begun anew.
4. Before a folder goes, whoever removes it holds the lock and has read, or written, `finished` in the journal; then the
   Pod's file goes first. A supervisor that was asked for earlier and comes late finds the one or misses the other.
5. A status is written after the journal entry it tells of. A Pod whose status tells of a container, and which has no
   folder, has lost its folder: it fails rather than run a second time.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from muster.embedded.agent.contract import LOCK, POD_FILE, Entry
from muster.embedded.agent.journal import Journal, Progress, append, progress_of
from muster.kube.objects import Object, status_of


def was_begun(folder: str) -> bool:
    """Whether a supervisor may have been asked for."""
    return os.path.exists(f"{folder}/{POD_FILE}")


def has_supervisor(folder: str) -> bool:
    """Looking takes the lock for a moment, which would send away a supervisor that comes just then: whoever hears False
    has to ask for another, or end the Pod."""
    with lock(folder) as taken:
        return not taken


@contextmanager
def lock(folder: str) -> Iterator[bool]:
    """Yields whether the Pod's lock could be taken, and gives it back."""
    try:
        descriptor = os.open(f"{folder}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # not even the folder is there
        yield True
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def close_journal(folder: str, reason: str, message: str) -> bool:
    """Ends a Pod that nobody supervises: what was running is gone, and nothing will be started. False if somebody
    supervises it after all."""
    with lock(folder) as taken:
        if not taken:
            return False
        progress = progress_of(Journal(folder).read())
        if progress.finished is None and os.path.isdir(folder):
            append(folder, ending(progress, reason, message, time.time()))
        return True


def ending(progress: Progress, reason: str, message: str, now: float) -> list[Entry]:
    """The last entries of a journal whose supervisor was killed."""
    entries: list[Entry] = [
        {
            "t": now,
            "e": "exited",
            "c": name,
            "a": attempt,
            "code": 137,
            "reason": "ContainerStatusUnknown",
            "message": "The container could not be located when the pod was terminated",
        }
        for name, attempt in progress.unended()
    ]
    finished: Entry = {"t": now, "e": "finished", "phase": "Failed"}
    if reason:
        finished["reason"], finished["message"] = reason, message
    return [*entries, finished]


def has_lost_its_folder(pod: Object) -> bool:
    """For a Pod without one: whether its status tells of containers that have been started."""
    status = status_of(pod)
    statuses = (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))
    return any(s.get("containerID") for s in statuses)
