"""Limits that every process of a Pod inherits from its supervisor: processes, open files, core dumps."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

from muster.embedded.node.supervisor.cgroups import ProcessLimit
from muster.embedded.node.supervisor.contract import PodLimits

_ENDLESS = 1 << 62


class ResourceLimits:
    """A supervisor runs several Pods, one after the other, so limits can also be raised again."""

    def __init__(self) -> None:
        self._processes = ProcessLimit()
        self._applied: PodLimits | None = None
        self._open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_processes = resource.getrlimit(resource.RLIMIT_NPROC)

    def apply(self, limits: PodLimits) -> None:
        """Applies the limits to this process, and so to the ones that it starts from now on."""
        self._processes.forget_failures()
        if limits == self._applied:
            return
        self._applied = limits
        _set(resource.RLIMIT_CORE, (0, 0), 0)
        _set(resource.RLIMIT_NOFILE, self._open_files, limits.get("openFiles") or 0)
        processes = limits.get("processes") or 0
        if processes and limits.get("inOwnGroup") and self._processes.set(processes):
            processes = 0
        # Without a control group, the kernel counts all processes of the same user. It does not limit root.
        _set(resource.RLIMIT_NPROC, self._most_processes, processes)

    @property
    def explanation(self) -> str:
        """Why processes could not be started, or ''."""
        if not self._processes.was_reached() or self._applied is None:
            return ""
        return (
            f"the Pod reached its limit of {self._applied.get('processes')} processes and threads; start fewer, "
            f"or raise {self._applied.get('processesSetting')}"
        )


def _set(kind: int, original: tuple[int, int], wanted: int) -> None:
    """Sets the hard limit, so that no process of the Pod can raise it again; 0 for the original one. This process can
    if it has CAP_SYS_RESOURCE. Otherwise later Pods of this supervisor keep the lower one."""
    soft, hard = (_ENDLESS if number == resource.RLIM_INFINITY else number for number in original)
    hard = min(hard, wanted or _ENDLESS)
    now = resource.getrlimit(kind)[1]
    if os.geteuid() != 0 and now != resource.RLIM_INFINITY:
        hard = min(hard, now)
    soft = min(soft, hard)
    soft, hard = (resource.RLIM_INFINITY if number == _ENDLESS else number for number in (soft, hard))
    with suppress(OSError, ValueError):
        resource.setrlimit(kind, (soft, hard))
