"""Confines this process for good: it reaches only the files that it is given, has limits, and gains no rights.

Landlock (Linux 5.13) decides about files, also for root and for programs that this process starts. Without Landlock,
the other limits remain. Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_READ: Final = 0b1101
"""Execute, read files, read folders."""
_ALL_BY_VERSION: Final = {1: 0x1FFF, 2: 0x3FFF, 3: 0x7FFF, 4: 0x7FFF}
_NEWEST: Final = 0xFFFF
_OF_FILES: Final = 0b111 | 1 << 14 | 1 << 15
"""The rights that a rule about a file, not a folder, may contain."""
_SCOPED: Final = 0b11
"""Abstract sockets and signals do not reach other processes, from version 6 on."""
_SET_NO_NEW_PRIVS, _CAPBSET_DROP, _SET_PDEATHSIG = 38, 24, 1
_KEPT_CAPABILITIES: Final = (1, 2)
"""Read and write the files of others. Landlock still decides which."""

SYSTEM_FILES: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt/python", "/nix/store",
    "/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/resolv.conf", "/run/systemd/resolve",
    "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols",
    "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/ssh/ssh_known_hosts", "/etc/mime.types", "/proc/self", "/proc/meminfo", "/proc/cpuinfo",
    "/sys/devices/system/cpu", "/sys/fs/cgroup",
)  # fmt: skip
"""What Python, git and ssh need of the machine. Nothing in it is secret."""
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random", "/dev/tty")


@dataclass(frozen=True, slots=True)
class Confinement:
    writable: tuple[str, ...]
    readable: tuple[str, ...] = ()
    file_bytes: int = 10 << 30
    """The size of one file."""
    memory_bytes: int = 2 << 30
    cpu_seconds: int = 3600


def confined_command(words: Sequence[str], wanted: Confinement) -> list[str]:
    """Returns the command that runs a program confined."""
    return [sys.executable, "-I", "-S", __file__, json.dumps(asdict(wanted)), *words]


def confine(wanted: Confinement) -> None:
    """There is no way back."""
    _limit(wanted)
    _prctl(_SET_NO_NEW_PRIVS, 1)
    _drop_capabilities()
    _restrict_files(wanted)


def _limit(wanted: Confinement) -> None:
    for name, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, wanted.file_bytes),
        (resource.RLIMIT_DATA, wanted.memory_bytes),
        (resource.RLIMIT_CPU, wanted.cpu_seconds),
        (resource.RLIMIT_NOFILE, 512),
    ):
        hard = resource.getrlimit(name)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (most, most))


_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Rule(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """Returns 0 if this kernel has no Landlock."""
    return max(0, int(_libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def _restrict_files(wanted: Confinement) -> None:
    version = landlock_version()
    if not version:
        return
    rights = _ALL_BY_VERSION.get(version, _NEWEST)
    attributes = _Ruleset(rights, 0, _SCOPED if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _check(
        _libc.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), ctypes.c_uint32(0))
    )
    try:
        _allow(ruleset, (*SYSTEM_FILES, sys.prefix, sys.base_prefix, *wanted.readable), _READ)
        _allow(ruleset, _DEVICES, (_READ | 0b10) & rights)
        _allow(ruleset, wanted.writable, rights)
        _check(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint32(0)))
    finally:
        os.close(ruleset)


def _allow(ruleset: int, paths: Iterable[str], rights: int) -> None:
    for path in dict.fromkeys(paths):
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                given = rights if Path(path).is_dir() else rights & _OF_FILES
                rule = _Rule(given, descriptor)
                _check(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0)))
            finally:
                os.close(descriptor)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def _drop_capabilities() -> None:
    for number in range(64):
        if number not in _KEPT_CAPABILITIES:
            _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)  # fails beyond the last one, and for other users than root
    if os.geteuid() != 0:
        return
    kept = sum(1 << number for number in _KEPT_CAPABILITIES)
    header = _CapabilityHeader(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    _check(_libc.capset(ctypes.byref(header), ctypes.byref(data)))


def die_with_parent() -> None:
    _prctl(_SET_PDEATHSIG, 9)


def _prctl(option: int, value: int) -> None:
    _check(_libc.prctl(option, value, 0, 0, 0))


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return int(result)


def _run_confined(options: str, words: list[str]) -> None:
    given = json.loads(options)
    program = shutil.which(words[0]) or words[0]
    readable = (*given.pop("readable"), str(Path(program).resolve().parent.parent))
    die_with_parent()
    confine(Confinement(tuple(given.pop("writable")), readable, **given))
    os.execv(program, words)  # noqa: S606


if __name__ == "__main__":
    _run_confined(sys.argv[1], sys.argv[2:])
