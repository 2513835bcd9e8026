from __future__ import annotations

from errno import EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT
from struct import iter_unpack

import pytest

from muster.embedded.node.supervisor.seccomp import DENIED, container_filter

X86, ARM = "x86_64", "aarch64"
ARCHITECTURES = {X86: 0xC000003E, ARM: 0xC00000B7}
ALLOWED = 0


def decide(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """Runs the filter as the kernel does. Returns the error of the call, or ALLOWED."""
    data = {0: number, 4: architecture} | {16 + 8 * index: value for index, value in enumerate(arguments)}
    instructions = list(iter_unpack("<HBBI", program))
    position = loaded = 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        match code:
            case 0x20:
                loaded = data.get(value, 0) & 0xFFFFFFFF
            case 0x05:
                position += value
            case 0x15 | 0x35 | 0x45:
                holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
                position += if_true if holds else if_false
            case 0x06:
                return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("refuse_set_id", [False, True])
def test_exactly_the_listed_calls_are_denied(machine: str, refuse_set_id: bool) -> None:
    program = container_filter(machine, refuse_set_id=refuse_set_id)
    column = list(ARCHITECTURES).index(machine)
    found = {number for number in range(600) if decide(program, ARCHITECTURES[machine], number) == EPERM}
    assert found == {numbers[column] for numbers in DENIED.values()} - {None}


@pytest.mark.parametrize(
    ("number", "arguments", "result"),
    [
        (56, (0x01200011,), ALLOWED),  # clone as in fork
        (56, (0x003D0F00,), ALLOWED),  # clone as in a new thread
        (56, (0x4111,), ALLOWED),  # clone as in posix_spawn
        (56, (0x10000011,), EPERM),
        (56, (0x40000011,), EPERM),
        (272, (0x200,), ALLOWED),  # unshare its folders
        (272, (0x80,), EPERM),  # unshare the time namespace
        (435, (), ENOSYS),  # clone3
        (16, (0, 0x5401), ALLOWED),  # ioctl TCGETS
        (16, (0, 0x5412), EPERM),  # ioctl TIOCSTI
        (16, (0, 0xFFFFFFFF00005412), EPERM),  # the kernel ignores the upper half, and so does the filter
        (41, (1, 1, 0), ALLOWED),
        (41, (10, 1, 0), ALLOWED),
        (41, (16, 3, 0), ALLOWED),  # netlink: routes
        (41, (16, 3, 9), EPROTONOSUPPORT),
        (41, (17, 3, 0), EAFNOSUPPORT),
        (41, (40, 1, 0), EAFNOSUPPORT),
        (135, (0xFFFFFFFF,), ALLOWED),  # personality: ask
        (135, (0x0040000,), EPERM),
        (0x40000000 + 165, (), ENOSYS),  # x32
    ],
)
def test_arguments_decide(number: int, arguments: tuple[int, ...], result: int) -> None:
    assert decide(container_filter(X86), ARCHITECTURES[X86], number, *arguments) == result


@pytest.mark.parametrize(
    ("machine", "number", "arguments", "result"),
    [
        (X86, 90, (0, 0o755), ALLOWED),  # chmod
        (X86, 90, (0, 0o4755), EPERM),
        (X86, 91, (0, 0o2755), EPERM),  # fchmod
        (X86, 268, (0, 0, 0o4755), EPERM),  # fchmodat
        (X86, 452, (0, 0, 0o6755), EPERM),  # fchmodat2
        (X86, 2, (0, 0, 0o4755), ALLOWED),  # open without O_CREAT: the mode is not used
        (X86, 2, (0, 0o100, 0o4755), EPERM),
        (X86, 257, (0, 0, 0o101, 0o4755), EPERM),  # openat
        (X86, 257, (0, 0, 0o101, 0o644), ALLOWED),
        (X86, 257, (0, 0, 0o20200000, 0o4755), EPERM),  # openat with O_TMPFILE
        (X86, 437, (), ENOSYS),  # openat2
        (X86, 133, (0, 0o104755), EPERM),  # mknod
        (ARM, 53, (0, 0, 0o4755), EPERM),
        (ARM, 56, (0, 0, 0o100, 0o4755), EPERM),
        (ARM, 0, (0, 0o4755), ALLOWED),  # io_setup
    ],
)
def test_members_cannot_make_setuid_files(machine: str, number: int, arguments: tuple[int, ...], result: int) -> None:
    program = container_filter(machine, refuse_set_id=True)
    assert decide(program, ARCHITECTURES[machine], number, *arguments) == result


def test_calls_of_another_architecture_do_not_exist() -> None:
    assert decide(container_filter(X86), 0x40000003, 20) == ENOSYS
    assert decide(container_filter(ARM), ARCHITECTURES[X86], 1) == ENOSYS
    assert container_filter("riscv64") == b""


def test_jumps_stay_inside_the_program() -> None:
    for machine in ARCHITECTURES:
        for refuse_set_id in (False, True):
            instructions = list(iter_unpack("<HBBI", container_filter(machine, refuse_set_id=refuse_set_id)))
            assert len(instructions) < 4096
            for position, (code, if_true, if_false, value) in enumerate(instructions):
                longest = value if code == 0x05 else max(if_true, if_false) if code & 7 == 5 else 0
                assert position + 1 + longest <= len(instructions)
