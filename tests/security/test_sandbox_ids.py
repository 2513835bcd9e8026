"""The user ids of members' Pods, and what they mean for volumes, outputs and further processes of a container."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from muster.embedded.node.id_ranges import IdRanges
from muster.embedded.node.pod_context import MachineError
from muster.embedded.node.supervisor.contract import ControlRequest
from muster.embedded.node.supervisor.user_namespaces import FIRST_ID, RANGE_SIZE
from tests.embedded.node.supervisor.conftest import ISOLATION, WHY, Pods

pytestmark = pytest.mark.skipif(ISOLATION != "namespaces", reason=f"needs a server that runs as root: {WHY}")

OTHERS = FIRST_ID + RANGE_SIZE


@pytest.fixture
async def pods() -> AsyncIterator[Pods]:
    """Not in pytest's folder, which only root can enter."""
    home = Path(tempfile.mkdtemp(prefix="muster-ids-", dir="/var/tmp"))
    home.chmod(0o755)
    found = Pods(home, "namespaces")
    yield found
    await found.close()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def storage() -> Iterator[Path]:
    """A folder of the machine that belongs to user 4321, with a file that only root may read."""
    folder = Path(tempfile.mkdtemp(prefix="muster-storage-", dir="/var/tmp"))
    (folder / "of-root").write_text("hunter2")
    (folder / "of-root").chmod(0o600)
    (folder / "shared").write_text("shared\n")
    os.chown(folder, 4321, 4321)
    os.chown(folder / "shared", 4321, 4321)
    folder.chmod(0o700)
    yield folder
    shutil.rmtree(folder)


def member(**more: Any) -> dict[str, Any]:
    return {"restricted": True, "firstId": FIRST_ID, **more}


async def lines(pods: Pods, name: str, script: str, **more: Any) -> list[str]:
    pod = await pods.start(name, "sh", "-c", f"({script}) 2>&1", **more)
    await pods.finished(pod)
    return pods.log(pod)


async def run_command(pods: Pods, pod: Path, *argv: str) -> str:
    """Returns what a command prints that runs in the container."""
    reading, writing = os.pipe()
    with open(os.devnull) as nothing:
        request: ControlRequest = {"op": "exec", "container": "main", "argv": list(argv)}
        with await pods.ask(pod, request, nothing.fileno(), writing, writing) as control:
            os.close(writing)
            assert "pid" in await control.answer()
            assert (await control.answer())["code"] == 0
    with open(reading) as said:
        return said.read()


async def test_a_member_is_an_ordinary_user_of_the_machine(pods: Pods) -> None:
    """A member's process sends signals to, or reads files of, root or of members of another namespace."""
    secret = pods.home / "secret"
    secret.write_text("hunter2")
    os.chown(secret, OTHERS, OTHERS)
    secret.chmod(0o600)
    found = await lines(pods, "pod", f"id -u; cat {secret}; touch /tmp/mine && stat -c %u /tmp/mine", **member())
    assert found[0] == found[-1] == str(FIRST_ID)
    assert "Permission denied" in found[1]


async def test_root_of_a_member_is_nobody_outside(pods: Pods) -> None:
    """A member asks for runAsUser: 0 and uses root's rights on the machine's files."""
    found = await lines(
        pods, "pod", "id -u; head -c1 /etc/shadow; echo x >> /usr/bin/env; touch /tmp/mine", uid=0, **member()
    )
    assert found[0] == "0"
    assert sum("Permission denied" in line for line in found) == 2
    assert (pods.home / "pod/tmp-main/mine").stat().st_uid == FIRST_ID


@pytest.mark.parametrize("uid", [None, 0, 1000], ids=["the usual user", "root", "another user"])
async def test_a_member_has_the_owners_rights_in_a_storage_root(pods: Pods, storage: Path, uid: int | None) -> None:
    """A member reads what only root may read in a storage root, through the mapping of its owner."""
    mount = {"type": "bind", "source": str(storage), "target": "/storage", "owners": "folder"}
    script = "cat /storage/shared; cat /storage/of-root; echo new > /storage/new; mkdir /storage/sub && echo made"
    found = await lines(pods, "pod", script, mounts=[mount], uid=uid, gid=uid, **member())
    assert found[0] == "shared" and found[-1] == "made"
    assert "Permission denied" in found[1]
    assert [(path.stat().st_uid, path.stat().st_gid) for path in (storage / "new", storage / "sub")] == [
        (4321, 4321)
    ] * 2


async def test_claims_keep_the_ids_of_their_files(pods: Pods) -> None:
    """A member leaves files in a claim that belong to accounts of the machine or that others cannot use."""
    claim = pods.home / "claim"
    claim.mkdir()
    mount = {"type": "bind", "source": str(claim), "target": "/claim", "owners": "same"}
    assert (
        await lines(pods, "one", "echo x > /claim/x; ln -s /etc/shadow /claim/link", mounts=[mount], **member()) == []
    )
    assert (claim / "x").stat().st_uid == 0
    other = {"restricted": True, "firstId": OTHERS}
    found = await lines(pods, "two", "cat /claim/x; cat /claim/link", mounts=[mount], **other)
    assert found[0] == "x" and "Permission denied" in found[1]


async def test_a_volume_has_neither_devices_nor_setuid_programs(pods: Pods, storage: Path) -> None:
    """A member uses a device node, or a setuid program of root, that is in a volume."""
    os.mknod(storage / "disk", 0o60666, os.makedev(254, 0))
    shutil.copy("/usr/bin/id", storage / "id")
    (storage / "id").chmod(0o4755)
    mount = {"type": "bind", "source": str(storage), "target": "/storage", "owners": "folder"}
    found = await lines(pods, "pod", "/storage/id -u; head -c1 /storage/disk", mounts=[mount], **member())
    assert found[0] == str(FIRST_ID)
    assert "Permission denied" in found[1]


async def test_a_working_directory_is_made_with_the_members_rights(pods: Pods) -> None:
    """A member's workingDir leads through a link in a volume, and root creates folders where it points."""
    claim = pods.home / "claim"
    claim.mkdir()
    (claim / "link").symlink_to("/var/tmp")
    mount = {"type": "bind", "source": str(claim), "target": "/claim", "owners": "same"}
    for name, cwd in (("inside", "/claim/a/b"), ("linked", "/claim/link/muster-planted")):
        pod = await pods.start(name, "pwd", mounts=[mount], cwd=cwd, createsCwd=True, **member())
        await pods.finished(pod)
        assert pods.log(pod)[0].endswith(cwd.rpartition("/")[2])
    assert (claim / "a/b").is_dir()
    assert not os.path.exists("/var/tmp/muster-planted")


@pytest.mark.parametrize("more", [{}, {"restricted": True, "firstId": FIRST_ID}], ids=["admin", "member"])
async def test_a_working_directory_is_a_descriptor_of_the_supervisor(pods: Pods, more: dict[str, Any]) -> None:
    """A container's workingDir leads through /proc/self/fd to a folder that the supervisor has open."""
    volume = pods.home / "volume"
    volume.mkdir()
    containers = []
    for number in range(3, 24):
        (volume / f"{number}").symlink_to(f"/proc/self/fd/{number}")
        mount = {"type": "bind", "source": str(volume), "target": "/volume"}
        fields = {"cwd": f"/volume/{number}", "mounts": [mount], "createsCwd": True}
        containers.append((f"c{number}", "main", ("sh", "-c", "ls -d $PWD /proc/self/cwd/.."), fields))
    entries = await pods.run("pod", containers=containers, **more)
    ends = [entry for entry in entries if entry["e"] == "exited"]
    assert len(ends) == len(containers)
    assert {entry["reason"] for entry in ends} == {"StartError"}


@pytest.mark.parametrize("more", [{}, member()], ids=["admin", "member"])
async def test_a_script_is_interpreted_by_the_supervisors_program(pods: Pods, more: dict[str, Any]) -> None:
    """A container gets hold of the machine's Python through /proc/self/exe, to write to it later."""
    volume = pods.home / "volume"
    volume.mkdir()
    script = volume / "script"
    script.write_text(
        "#!/proc/self/exe\nimport os\nprogram = os.open('/proc/self/exe', os.O_PATH)\n"
        "print('read-only' if os.fstatvfs(program).f_flag & os.ST_RDONLY else 'writable')\n"
    )
    script.chmod(0o755)
    pod = await pods.start("pod", "/v/script", mounts=[{"type": "bind", "source": str(volume), "target": "/v"}], **more)
    await pods.finished(pod)
    assert pods.log(pod) == ["read-only"]


@pytest.mark.parametrize("target", ["/proc", "/proc/self", "/proc/self/fd", "/volume/link/self/fd"])
async def test_a_volume_hides_proc_from_the_supervisor(pods: Pods, target: str) -> None:
    """A container mounts a volume over /proc, so that the supervisor reads what the container has prepared."""
    volume = pods.home / "volume"
    volume.mkdir()
    (volume / "link").symlink_to("/proc")
    mounts = [{"type": "bind", "source": str(volume), "target": path} for path in ("/volume", target)]
    *_, end, _ = await pods.run("pod", mounts=mounts)
    assert end["reason"] == "StartError"
    assert target in end["message"] or "nothing can be mounted over /proc" in end["message"]


@pytest.mark.parametrize("more", [{}, member(), member(uid=0)], ids=["admin", "member", "member as root"])
async def test_an_exec_is_confined_like_its_container(pods: Pods, more: dict[str, Any]) -> None:
    """A command of `muster exec` has rights that the container does not have."""
    fields = "grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
    pod = await pods.start("pod", "sh", "-c", f"{fields}; sleep 60", **more)
    await pods.event(pod, "started")
    await pods.printed(pod, "Seccomp:\t2")
    said = await run_command(pods, pod, "sh", "-c", fields)
    assert said.splitlines() == pods.log(pod)
    assert "NoNewPrivs:\t1" in said
    await pods.stop(pod, 0.0)


async def test_a_probe_is_confined_like_its_container(pods: Pods) -> None:
    """The command of a member's probe has rights that the container does not have."""
    script = "grep -E '^(Uid|CapEff|Seccomp):' /proc/self/status > /tmp/probe"
    wait = "while ! test -s /tmp/probe; do sleep 0.05; done; cat /tmp/probe"
    probe = {"kind": "exec", "command": ["sh", "-c", script], "initialDelay": 0.0, "period": 0.1, "timeout": 5.0,
             "successThreshold": 1, "failureThreshold": 3}  # fmt: skip
    pod = await pods.start("pod", "sh", "-c", wait, readinessProbe=probe, **member())
    await pods.finished(pod)
    found = {line.split()[0]: line.split()[1] for line in pods.log(pod)}
    assert found == {"Uid:": str(FIRST_ID), "CapEff:": "0" * 16, "Seccomp:": "2"}


async def test_the_outputs_of_a_member_are_read_with_the_members_rights(pods: Pods) -> None:
    """A member names as an output what only root may read, through a link."""
    folder = pods.home / "kept"
    keep = {"keep": ["/tmp/out", "/tmp/link"], "keepFolder": str(folder)}
    secret = pods.home / "secret"
    secret.write_text("hunter2")
    secret.chmod(0o600)
    await lines(pods, "pod", f"echo x > /tmp/out; ln -s {secret} /tmp/link", **keep, **member())
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert b"hunter2" not in b"".join(found.values())
    assert found["0"] == b"x\n"


def test_every_namespace_has_a_range_of_its_own(tmp_path: Path) -> None:
    """Two namespaces share user ids, or one gets the ids of another after a restart."""
    file = tmp_path / "ranges.json"
    ranges = IdRanges(file)
    first = {name: ranges.first_id(name) for name in ("a", "b", "c")}
    assert sorted(first.values()) == [FIRST_ID, FIRST_ID + RANGE_SIZE, FIRST_ID + 2 * RANGE_SIZE]
    again = IdRanges(file)
    assert again.first_id("d") == FIRST_ID + 3 * RANGE_SIZE
    assert {name: again.first_id(name) for name in first} == first


def test_lost_ranges_are_not_given_to_others(tmp_path: Path) -> None:
    """The file of the ranges is damaged, and namespaces get ids that others have used."""
    file = tmp_path / "ranges.json"
    file.write_text("{")
    with pytest.raises(MachineError, match="cannot read"):
        IdRanges(file).first_id("a")
    file.write_bytes(orjson.dumps({"a": 24573}))
    with pytest.raises(MachineError, match="in use"):
        IdRanges(file).first_id("b")
