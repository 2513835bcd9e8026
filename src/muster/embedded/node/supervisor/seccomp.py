"""The system calls that a container may not make, as a seccomp filter: a BPF program that the kernel runs before each.

It follows the default profile of Docker, turned around: what is listed here is denied, everything else is allowed. A
denied call fails with EPERM, as it does without the rights for it, or with ENOSYS if programs then fall back to another
one. Calls of another architecture (32-bit programs) fail with ENOSYS.

The numbers are those of x86-64 and AArch64, where the box runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from errno import EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT
from functools import cache
from struct import pack
from typing import NamedTuple

DENIED: Mapping[str, tuple[int | None, int | None]] = {
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "fspick": (433, 433), "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "setns": (308, 268),
    # the kernel itself
    "bpf": (321, 280), "perf_event_open": (298, 241), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "create_module": (174, None), "get_kernel_syms": (177, None),
    "query_module": (178, None), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "syslog": (103, 116), "acct": (163, 89), "swapon": (167, 224), "swapoff": (168, 225), "iopl": (172, None),
    "ioperm": (173, None), "_sysctl": (156, None), "sysfs": (139, None), "ustat": (136, None), "uselib": (134, None),
    "vhangup": (153, 58), "lookup_dcookie": (212, 18), "nfsservctl": (180, 42), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "fanotify_init": (300, 262), "sethostname": (170, 161), "setdomainname": (171, 162),
    "settimeofday": (164, 170), "clock_settime": (227, 112),
    # large interfaces with a history of holes, which no job needs
    "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # keys and files of others
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "open_by_handle_at": (304, 265),
}  # fmt: skip
"""Name -> its number on x86-64 and on AArch64, or None if there is none. Each fails with EPERM."""

_CLONE, _UNSHARE, _CLONE3 = (56, 220), (272, 97), (435, 435)
_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
_IOCTL, _TERMINAL_REQUESTS = (16, 29), (0x5412, 0x541C, 0x541D)  # TIOCSTI, TIOCLINUX, TIOCCONS
_SOCKET, _FAMILIES = (41, 198), (1, 2, 10)  # Unix, IPv4, IPv6
_NETLINK, _NETLINK_PROTOCOLS = 16, (0, 4, 15, 16)  # routes, sockets, devices, generic
_PERSONALITY, _PERSONALITIES = (135, 92), (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)

_MODE_ARGUMENTS: Sequence[tuple[tuple[int | None, int], int]] = (
    ((90, 0), 1), ((91, 52), 1), ((268, 53), 2), ((452, 452), 2), ((133, 0), 1), ((259, 33), 2), ((85, 0), 1),
)  # fmt: skip
"""(numbers, the argument that is a mode) of chmod, fchmod, fchmodat, fchmodat2, mknod, mknodat, creat. 0 if AArch64 has
no such call."""
_OPENS: Sequence[tuple[tuple[int, int], int]] = (((2, 0), 1), ((257, 56), 2))
"""(numbers, the argument with the flags) of open and openat; the mode follows."""
_OPENAT2 = (437, 437)
_SET_ID_BITS = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _RETURN = 0x20, 0x06
_JUMP_ALWAYS, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT = 0x05, 0x15, 0x35, 0x45
_MAX_JUMP = 255


class _Instruction(NamedTuple):
    code: int
    value: int
    if_true: int = 0
    if_false: int = 0


@cache
def container_filter(machine: str = os.uname().machine, *, refuse_set_id: bool = False) -> bytes:
    """Returns the filter for a container, or b'' for a machine of an unknown architecture. With `refuse_set_id`, files
    cannot be made setuid or setgid: a folder of the machine may be mounted with its owner's rights."""
    architecture = _ARCHITECTURES.get(machine)
    if architecture is None:
        return b""
    column = 0 if machine == "x86_64" else 1
    program = [
        _Instruction(_LOAD, _ARCHITECTURE),
        _Instruction(_JUMP_EQUAL, architecture, 1, 0),
        _deny(ENOSYS),
        _Instruction(_LOAD, _NUMBER),
    ]
    if column == 0:
        program += [_Instruction(_JUMP_GREATER_EQUAL, _X32, 0, 1), _deny(ENOSYS)]
    rules = {number: [_deny(EPERM)] for numbers in DENIED.values() if (number := numbers[column])}
    rules |= {number: rule for numbers, rule in _rules(refuse_set_id) if (number := numbers[column])}
    program += _decide(sorted(rules.items()))
    return b"".join(pack("<HBBI", code, true, false, value) for code, value, true, false in program)


def _rules(refuse_set_id: bool) -> list[tuple[tuple[int | None, int], list[_Instruction]]]:
    """The calls that need more than their number. Each rule ends the program."""
    rules: list[tuple[tuple[int | None, int], list[_Instruction]]] = [
        (_CLONE, _deny_bits(0, _NAMESPACES)),
        (_UNSHARE, _deny_bits(0, _NAMESPACES | _NEW_TIME)),
        (_CLONE3, [_deny(ENOSYS)]),  # its flags are in memory, where a filter cannot look
        (_IOCTL, [_load(1), *_choose(_TERMINAL_REQUESTS, _deny(EPERM), _allow())]),
        (_PERSONALITY, [_load(0), *_choose(_PERSONALITIES, _allow(), _deny(EPERM))]),
        (_SOCKET, _socket_rule()),
    ]
    if refuse_set_id:
        rules += [(numbers, _deny_bits(mode, _SET_ID_BITS)) for numbers, mode in _MODE_ARGUMENTS]
        for numbers, flags in _OPENS:
            creates = [_load(flags), _Instruction(_JUMP_ANY_BIT, _CREATES, 1), _allow()]
            rules.append((numbers, [*creates, *_deny_bits(flags + 1, _SET_ID_BITS)]))
        rules.append((_OPENAT2, [_deny(ENOSYS)]))
    return rules


def _decide(rules: Sequence[tuple[int, list[_Instruction]]]) -> list[_Instruction]:
    """A binary search for the number: when a filter is installed, the kernel tries it with every system call."""
    if len(rules) == 1:
        number, rule = rules[0]
        return [_Instruction(_JUMP_EQUAL, number, 1), _allow(), *rule]
    middle = len(rules) // 2
    lower, upper = _decide(rules[:middle]), _decide(rules[middle:])
    if len(lower) <= _MAX_JUMP:
        return [_Instruction(_JUMP_GREATER_EQUAL, rules[middle][0], len(lower)), *lower, *upper]
    return [
        _Instruction(_JUMP_GREATER_EQUAL, rules[middle][0], 0, 1),
        _Instruction(_JUMP_ALWAYS, len(lower)),
        *lower,
        *upper,
    ]


def _socket_rule() -> list[_Instruction]:
    netlink = [_load(2), *_choose(_NETLINK_PROTOCOLS, _allow(), _deny(EPROTONOSUPPORT))]
    others = _choose(_FAMILIES, _allow(), _deny(EAFNOSUPPORT))
    return [_load(0), _Instruction(_JUMP_EQUAL, _NETLINK, 0, len(netlink)), *netlink, *others]


def _choose(values: Sequence[int], chosen: _Instruction, otherwise: _Instruction) -> list[_Instruction]:
    tests = [_Instruction(_JUMP_EQUAL, value, len(values) - index) for index, value in enumerate(values)]
    return [*tests, otherwise, chosen]


def _deny_bits(argument: int, bits: int) -> list[_Instruction]:
    return [_load(argument), _Instruction(_JUMP_ANY_BIT, bits, 1), _allow(), _deny(EPERM)]


def _load(argument: int) -> _Instruction:
    """Loads the lower half: these arguments are ints, of which the kernel ignores the other one."""
    return _Instruction(_LOAD, _ARGUMENTS + 8 * argument)


def _allow() -> _Instruction:
    return _Instruction(_RETURN, _ALLOW)


def _deny(error: int) -> _Instruction:
    return _Instruction(_RETURN, _ERRNO | error)
