"""User namespaces in which the ids of a container are others than those of the machine.

The server is root. A Pod of a restricted namespace has a range of ids of its own that no account of the machine has
(see id_ranges.py): its root is an ordinary user outside. A namespace also makes the kernel show a volume's
files with their owners mapped to these ids (see `syscalls.map_owners`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple

from muster.embedded.node.supervisor.processes import StartError, host_pid
from muster.embedded.node.supervisor.syscalls import NEW_USERS, unshare

FIRST_ID = 0x20000000
"""Above the ids of accounts, of /etc/subuid, of directory services and of systemd's containers."""
RANGE_SIZE = 65536


class IdMap(NamedTuple):
    """`size` ids from `inside` on are those from `outside` on for the machine. Users and groups can differ inside."""

    inside_uid: int
    inside_gid: int
    outside_uid: int
    outside_gid: int
    size: int


def container_map(first: int) -> IdMap:
    """The ids of a container whose range begins at `first`."""
    return IdMap(0, 0, first, first, RANGE_SIZE)


def owner_map(first: int, uid: int, gid: int, owner: int, group: int) -> IdMap:
    """Maps the owner of a folder to the container's user, and nothing else."""
    return IdMap(owner, group, first + uid, first + gid, 1)


class UserNamespaces:
    """Creates each namespace once and keeps a descriptor of it."""

    def __init__(self) -> None:
        self._open: dict[IdMap, int] = {}

    def get(self, ids: IdMap) -> int:
        """Returns a descriptor of a namespace with these ids. Raises StartError."""
        if ids not in self._open:
            if len(self._open) >= _MAX_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            self._open[ids] = _create(ids)
        return self._open[ids]


_MAX_OPEN = 64


def _create(ids: IdMap) -> int:
    """A namespace exists as long as a process is in it or a descriptor is open. So a child creates it and ends."""
    ready, wake = os.pipe()
    wait, release = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(release)
            unshare(NEW_USERS)
            os.write(wake, b"+")
            os.read(wait, 1)
        except OSError as error:
            os.write(wake, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    try:
        os.close(wake)
        answer = os.read(ready, 200)
        if answer != b"+":
            reason = answer.decode(errors="replace").lower() or "it ended"
            raise StartError(f"cannot create a user namespace for a restricted Pod: {reason} (see: muster doctor)")
        folder = f"/proc/{host_pid(child)}"
        for name, inside, outside in (
            ("uid_map", ids.inside_uid, ids.outside_uid),
            ("gid_map", ids.inside_gid, ids.outside_gid),
        ):
            with open(f"{folder}/{name}", "w") as file:
                file.write(f"{inside} {outside} {ids.size}")
        return os.open(f"{folder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise StartError(f"cannot create a user namespace: {(error.strerror or str(error)).lower()}") from None
    finally:
        for descriptor in (ready, wait, release):
            os.close(descriptor)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)
