from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.processes import Command, Identity, StartError, find_program, launch


@pytest.fixture(autouse=True)
def _back_to_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """`launch` enters the directory of the command in its own process, which here is that of many other tests."""
    monkeypatch.chdir(Path.cwd())


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for folder in ("first", "second", "second/folder"):
        (tmp_path / folder).mkdir()
    for name, mode in (("first/plain", 0o644), ("second/plain", 0o755), ("second/tool", 0o755), ("first/text", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    (tmp_path / "broken").write_text("#!/no/such/interpreter -x\n")
    (tmp_path / "shapeless").write_text("neither\n")
    for name in ("broken", "shapeless"):
        (tmp_path / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"),
    [("tool", "second/tool"), ("plain", "second/plain"), ("{}/first/text", "first/text")],
)
def test_a_program_is_looked_up_in_path(programs: Path, name: str, found: str) -> None:
    path = f"{programs}/missing:{programs}/first:{programs}/second"
    assert find_program(name.format(programs), path) == f"{programs}/{found}"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("pyhton", 'exec: "pyhton": executable file not found in $PATH'),
        ("folder", 'exec: "folder": executable file not found in $PATH'),
        ("text", 'exec: "text": permission denied: it is in $PATH, but not executable'),
        ("/no/such", 'exec: "/no/such": no such file or directory'),
        ("{}/first", 'exec: "{}/first": is a directory'),
        ("{}/first/text", 'exec: "{}/first/text": permission denied'),
        ("{}/broken", 'exec: "{}/broken": its interpreter "/no/such/interpreter -x" does not exist'),
        (
            "{}/shapeless",
            'exec: "{}/shapeless": exec format error: '
            "neither a program of this machine nor a script that starts with #!",
        ),
    ],
)
@pytest.mark.parametrize("ends_with_parent", [False, True])
def test_what_cannot_be_started_is_named(programs: Path, name: str, message: str, ends_with_parent: bool) -> None:
    env = {"PATH": f"{programs}/first:{programs}/second"}
    command = Command([name.format(programs)], env, "/", (0, 1, 2), Identity(None, None))
    with pytest.raises(StartError) as caught:
        launch(command, ends_with_parent=ends_with_parent)
    assert str(caught.value) == message.format(programs)


@pytest.mark.parametrize("ends_with_parent", [False, True])
def test_a_missing_working_directory_is_named(ends_with_parent: bool) -> None:
    command = Command(["true"], {}, "/no/such", (0, 1, 2), Identity(None, None))
    with pytest.raises(StartError) as caught:
        launch(command, ends_with_parent=ends_with_parent)
    assert str(caught.value) == 'working directory "/no/such": no such file or directory'


@pytest.mark.parametrize("ends_with_parent", [False, True])
def test_a_process_leads_its_own_session_with_only_its_descriptors(tmp_path: Path, ends_with_parent: bool) -> None:
    shell = "echo $$ $(cut -d' ' -f6 /proc/$$/stat) $(ls /proc/$$/fd); grep SigIgn /proc/$$/status"
    inherited = {fd for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}") and _inherits(fd)}
    with open(tmp_path / "out", "w") as file, open("/dev/null") as nothing:
        stdio = (nothing.fileno(), file.fileno(), file.fileno())
        command = Command(["sh", "-c", shell], {"PATH": os.environ["PATH"]}, "/", stdio, Identity(None, None))
        pid = launch(command, ends_with_parent=ends_with_parent)
    assert os.waitpid(pid, 0)[1] == 0
    numbers, ignored = (tmp_path / "out").read_text().splitlines()
    own, session, *descriptors = numbers.split()
    assert own == session == str(pid)
    assert set(descriptors) - inherited <= {"0", "1", "2", "3", "10", "255"}  # shells open one more to read from
    # 32 and 33 belong to the C library. Under nohup this process ignores some that only the zygote resets.
    before = {number for number in range(1, 32) if signal.getsignal(number) == signal.SIG_IGN}
    assert {number for number in range(1, 32) if int(ignored.split()[1], 16) >> (number - 1) & 1} <= before - _PYTHONS


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a process another identity")
def test_a_process_gets_the_identity_it_is_to_have(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as file:
        identity = Identity(1234, 2345, (3456, 4567))
        command = Command(["id"], {"PATH": os.environ["PATH"]}, "/", (0, file.fileno(), 2), identity)
        pid = launch(command, ends_with_parent=False)
    assert os.waitpid(pid, 0)[1] == 0
    assert (tmp_path / "out").read_text() == "uid=1234 gid=2345 groups=2345,3456,4567\n"


_PYTHONS = {signal.SIGPIPE, signal.SIGXFSZ}


def _inherits(descriptor: str) -> bool:
    return int(descriptor) > 2 and os.get_inheritable(int(descriptor))
