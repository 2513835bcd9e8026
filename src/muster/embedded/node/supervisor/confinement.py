"""What a container's processes may ask of the kernel: capabilities, setuid programs and system calls.

All three belong to a thread and are inherited by what it starts. So the supervisor, which needs its own rights, starts
a container from a thread that has given them up (see processes.py).
"""

from __future__ import annotations

import os
import sys
from errno import EINVAL, ENOSYS
from typing import NamedTuple

from muster.embedded.node.supervisor.seccomp import container_filter
from muster.embedded.node.supervisor.syscalls import (
    AT_CWD,
    clone_tree,
    install_filter,
    make_read_only,
    refuse_new_privileges,
    withhold_capabilities,
)

CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 29, 31))
"""The capabilities of root in a container: the default of image engines (chown, dac_override, fowner, fsetid, kill,
setgid, setuid, setpcap, net_bind_service, sys_chroot, audit_write, setfcap), without creating device nodes, and without
raw sockets: Pods share the machine's network. The zygote withholds all others from what it starts."""

_SEALED = "MUSTER_SEALED"

ALL_CAPABILITIES = frozenset(range(64))

_RESTRICTED_CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7))
"""Those of root in a Pod of a restricted namespace: what archives and package managers need to set owners and modes.
They concern the ids of the Pod's user namespace only."""


class Confinement(NamedTuple):
    capabilities: frozenset[int]
    """What root has in the container. No program gets more."""
    filter: bytes
    """A seccomp filter, or b''."""
    allows_new_privileges: bool = False
    """Whether setuid programs work."""


def confinement_of(*, is_restricted: bool, allows_new_privileges: bool) -> Confinement:
    if is_restricted:
        return Confinement(_RESTRICTED_CAPABILITIES, container_filter(refuse_set_id=True))
    return Confinement(CAPABILITIES, container_filter(), allows_new_privileges)


def confine(confinement: Confinement, possible: frozenset[int] = CAPABILITIES) -> None:
    """Confines this thread and what it starts. `possible` are the capabilities that it could have: a process that
    enters a user namespace gets all. Without the rights of root, here or in a user namespace, only a process that
    refuses new privileges can be confined."""
    try:
        withhold_capabilities(possible - confinement.capabilities)
    except PermissionError:
        if os.geteuid() == 0 or confinement.allows_new_privileges:
            raise
    if not confinement.allows_new_privileges:
        refuse_new_privileges()
    if confinement.filter:
        install_filter(confinement.filter)


def seal_program() -> None:
    """Executes this program again, from a read-only mount. A container can reach it as /proc/self/exe, for example as
    the interpreter of a script, and must not be able to replace the machine's Python. Call it before importing much,
    because that is lost."""
    if os.environ.pop(_SEALED, None):
        return
    program = clone_tree(AT_CWD, os.path.realpath("/proc/self/exe"))
    try:
        make_read_only(program)
        os.execve(program, sys.orig_argv, {**os.environ, _SEALED: "1"})  # noqa: S606
    except OSError as error:
        # Kernels before 5.12 cannot do it.
        if error.errno not in (EINVAL, ENOSYS):
            raise
    finally:
        os.close(program)
