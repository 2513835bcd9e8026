"""What a container sees of the machine, and what it cannot touch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.embedded.node.supervisor.conftest import Pods

pytestmark = pytest.mark.skipif(
    os.getuid() != 0, reason="checks what root could do to the machine, were it not prevented"
)


def bind(source: Path | str, target: str, **more: Any) -> dict[str, Any]:
    return {"type": "bind", "source": str(source), "target": target, **more}


@pytest.fixture(params=["namespaces", "user-namespaces"])
def isolation(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_two_pods_write_the_same_file_of_their_own(pods: Pods) -> None:
    script = "echo $0 > /tmp/out.txt; while ! test -e /go/go; do sleep 0.01; done; cat /tmp/out.txt"
    go = pods.home / "signal"
    go.mkdir()
    folders = [await pods.start(f"pod-{i}", "sh", "-c", script, str(i), mounts=[bind(go, "/go")]) for i in range(2)]
    for folder in folders:
        await pods.event(folder, "started")
    (go / "go").touch()
    for i, folder in enumerate(folders):
        await pods.finished(folder)
        assert pods.log(folder) == [str(i)]
        assert (folder / "tmp-main/out.txt").read_text() == f"{i}\n"
    assert not os.path.exists("/tmp/out.txt")


async def test_a_pod_has_its_own_host_name_processes_and_ipc(pods: Pods) -> None:
    script = "hostname; echo $$; ls -d /proc/[0-9]* | wc -l; ipcmk -Q > /dev/null; ipcs -q | grep -c 0x; kill -9 -1"
    here = os.uname().nodename
    folder = await pods.start("my-pod", "sh", "-c", script)
    await pods.finished(folder)
    name, pid, processes, queues, *_ = pods.log(folder)
    assert (name, queues) == ("my-pod", "1")
    assert int(pid) < 10
    assert int(processes) < 10
    assert os.uname().nodename == here
    again = await pods.start("other", "sh", "-c", "hostname; ipcs -q | grep -c 0x")
    await pods.finished(again)
    assert pods.log(again) == ["other", "0"]


async def test_missing_mount_points_appear_only_in_the_container(pods: Pods, isolation: str) -> None:
    folder = pods.home / "volume"
    (folder / "sub").mkdir(parents=True)
    (folder / "file").write_text("hello\n")
    mounts = [
        bind(folder, "/muster-test-data"),
        bind(folder, "/muster-test-deep/er/and/deeper"),
        bind(folder / "file", "/etc/muster-test-config/settings.txt"),
        bind(folder / "file", "/muster-test-file"),
        bind(folder, "/var/run/muster-test/secrets"),
        bind(folder, "/home/muster-test/deep"),
    ]
    before = {top: sorted(os.listdir(top)) for top in ("/", "/etc", "/run", "/home")}
    script = """
    cat /muster-test-data/file /etc/muster-test-config/settings.txt /muster-test-file /run/muster-test/secrets/file
    echo new > /muster-test-deep/er/and/deeper/new
    touch /home/muster-test-new 2>/dev/null && echo layer || echo read-only
    touch /muster-test-new /etc/muster-test-new /run/muster-test-new && echo scratch
    id -un; test -d /usr/bin && test -e /etc/passwd && test -d /proc/self && test -c /dev/null && echo whole
    """
    pod = await pods.start("pod", "sh", "-c", script, mounts=mounts)
    await pods.finished(pod)
    writable = "layer" if isolation == "namespaces" else "read-only"
    assert pods.log(pod) == ["hello"] * 4 + [writable, "scratch", "root", "whole"]
    assert (folder / "new").read_text() == "new\n"
    assert {top: sorted(os.listdir(top)) for top in before} == before


async def test_a_mount_point_inside_a_volume_is_made_there_as_kubernetes_does(pods: Pods) -> None:
    outer, inner = pods.home / "outer", pods.home / "inner"
    outer.mkdir()
    inner.mkdir()
    (inner / "file").write_text("inner\n")
    mounts = [bind(outer, "/muster-test"), bind(inner, "/muster-test/a/b"), bind(inner / "file", "/muster-test/c/file")]
    pod = await pods.start(
        "pod", "sh", "-c", "cat /muster-test/a/b/file /muster-test/c/file; touch /muster-test/kept", mounts=mounts
    )
    await pods.finished(pod)
    assert pods.log(pod) == ["inner", "inner"]
    assert sorted(str(path.relative_to(outer)) for path in outer.rglob("*")) == ["a", "a/b", "c", "c/file", "kept"]


async def test_a_mount_point_inside_a_read_only_volume_leaves_the_volume_alone(pods: Pods) -> None:
    outer, inner = pods.home / "outer", pods.home / "inner"
    outer.mkdir()
    inner.mkdir()
    (outer / "old").write_text("old\n")
    (inner / "file").write_text("inner\n")
    mounts = [bind(outer, "/muster-test", readOnly=True), bind(inner, "/muster-test/sub")]
    script = "cat /muster-test/old /muster-test/sub/file; cd /muster-test; touch sub/x; touch y; echo >> old"
    pod = await pods.start("pod", "sh", "-c", script, mounts=mounts)
    await pods.finished(pod)
    assert pods.log(pod)[:2] == ["old", "inner"]
    assert sum("Read-only file system" in line for line in pods.log(pod)) == 2
    assert os.listdir(outer) == ["old"] and (outer / "old").read_text() == "old\n"
    assert sorted(os.listdir(inner)) == ["file", "x"]


async def test_read_only_is_read_only_and_sources_are_the_machines(pods: Pods) -> None:
    shared = pods.home / "shared"
    shared.mkdir()
    (shared / "file").write_text("shared\n")
    # Below /tmp, where the container has its own folder.
    mounts = [bind(shared, "/mnt", readOnly=True), bind(shared, str(shared))]
    pod = await pods.start(
        "pod", "sh", "-c", f"cat /mnt/file {shared}/file; touch /mnt/x || touch {shared}/y; ls /tmp", mounts=mounts
    )
    await pods.finished(pod)
    lines = pods.log(pod)
    assert lines[:2] == ["shared", "shared"] and any("Read-only file system" in line for line in lines)
    assert sorted(os.listdir(shared)) == ["file", "y"]


async def test_links_in_a_volume_lead_nowhere_else(pods: Pods, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    (volume / "etc").mkdir(parents=True)
    (volume / "etc/passwd").write_text("of the volume\n")
    (volume / "link").symlink_to("/etc")
    (volume / "up").symlink_to("../../../../../../etc")
    for name in ("link", "up"):
        mounts = [bind(volume / name / "passwd", "/mnt/x", within=str(volume))]
        pod = await pods.start(name, "cat", "/mnt/x", mounts=mounts)
        await pods.finished(pod)
        assert pods.log(pod) == ["of the volume"]
    mounts = [bind(volume / "../outside", "/mnt/x", within=str(volume))]
    (tmp_path / "outside").mkdir()
    *_, end, _ = await pods.run("outside-pod", mounts=mounts)
    assert end["reason"] == "StartError"
    assert end["message"] == f'mount of "{volume}/../outside" at "/mnt/x": no such file or directory'


async def test_a_mount_point_behind_a_planted_link_is_not_made_on_the_machine(pods: Pods) -> None:
    volume, inner = pods.home / "volume", pods.home / "inner"
    volume.mkdir()
    inner.mkdir()
    (volume / "link").symlink_to("/etc")
    mounts = [bind(volume, "/mnt"), bind(inner, "/mnt/link/muster-test-planted")]
    entries = await pods.run("pod", "ls", "-d", "/etc/muster-test-planted", mounts=mounts)
    assert entries[-1]["phase"] == "Succeeded"
    assert not os.path.exists("/etc/muster-test-planted")


@pytest.mark.parametrize(
    ("mount", "message"),
    [
        (bind("/no/such", "/mnt"), 'mount of "/no/such" at "/mnt": no such file or directory'),
        (bind("/etc/passwd", "/mnt"), 'mount of "/etc/passwd" at "/mnt": a file cannot be mounted on a folder'),
        (bind("/usr", "/etc/passwd"), 'mount of "/usr" at "/etc/passwd": a folder cannot be mounted on a file'),
        (bind("/usr", "/etc/passwd/x"), 'mount point "/etc/passwd/x": not a directory'),
    ],
)
async def test_a_mount_that_cannot_be_is_named(pods: Pods, mount: dict[str, Any], message: str) -> None:
    *_, end, _ = await pods.run("pod", mounts=[mount])
    assert (end["code"], end["reason"], end["message"]) == (128, "StartError", message)


async def test_memory_of_the_pod_is_shared_by_its_containers_and_goes_with_it(pods: Pods) -> None:
    folder = pods.home / "pod"
    volume = f"{folder}/volumes/cache"
    shared = [{"type": "tmpfs", "target": volume, "size": 1 << 20}, {"type": "tmpfs", "target": "/dev/shm"}]
    cache = [bind(volume, "/cache"), bind(f"{volume}/deep/er", "/deeper")]
    name = f"/dev/shm/{pods.home.name}-x"
    write = f"echo cached > /cache/x; echo shared > {name}; echo deep > /deeper/y; "
    write += "head -c 2M /dev/zero > /cache/big 2>/dev/null || echo full"
    read = f"cat /cache/x {name} /cache/deep/er/y"
    containers = [
        ("first", "init", ["sh", "-c", write], {"mounts": cache}),
        ("second", "main", ["sh", "-c", read], {"mounts": cache}),
    ]
    written = pods.write("pod", containers=containers, pod_mounts=shared)
    os.makedirs(volume)
    await pods.zygote.start(written)
    await pods.finished(written)
    assert pods.log(written, "first") == ["full"]
    assert pods.log(written, "second") == ["cached", "shared", "deep"]
    assert os.listdir(volume) == []
    assert not os.path.exists(name)
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()


async def test_a_root_of_its_own(pods: Pods) -> None:
    root = pods.home / "root"
    root.mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "hello").write_text("from the root\n")
    before = sorted(os.listdir(root))
    script = "cat /hello; ls /; test -e /proc/self && echo proc; test -c /dev/null && echo dev; cd /..; ls"
    mounts = [bind("/usr", "/usr"), bind("/etc/hosts", "/etc/hosts", readOnly=True)]
    pod = await pods.start(
        "pod", "sh", "-c", script, rootfs=str(root), rootfsLayer=str(pods.home / "layer"), mounts=mounts
    )
    await pods.finished(pod)
    whole = sorted([*before, "dev", "etc", "proc", "sys", "tmp", "usr"])
    assert pods.log(pod) == ["from the root", *whole, "proc", "dev", *whole]
    assert sorted(os.listdir(root)) == before


async def test_pods_of_one_root_file_system_do_not_see_what_the_others_write(pods: Pods) -> None:
    root = pods.home / "root"
    (root / "folder").mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "data").write_text("original\n")
    (root / "folder/gone").touch()
    before = snapshot(root)
    script = (
        "cat /data; ls /folder; echo $0 >> /data; rm /folder/gone; echo $0 > /folder/$0; touch /written; "
        "while ! test -e /go/go; do sleep 0.01; done; cat /data; ls /folder"
    )
    go = pods.home / "signal"
    go.mkdir()
    mounts = [bind("/usr", "/usr"), bind(go, "/go")]
    started = [
        await pods.start(
            name,
            "sh",
            "-c",
            script,
            name,
            rootfs=str(root),
            rootfsLayer=str(pods.home / f"layer-{name}"),
            mounts=mounts,
        )
        for name in ("one", "two")
    ]
    for pod in started:
        await pods.event(pod, "started")
        await pods.printed(pod, "original")
    (go / "go").touch()
    for name, pod in zip(("one", "two"), started, strict=True):
        await pods.finished(pod)
        assert pods.log(pod) == ["original", "gone", "original", name, name]
    assert snapshot(root) == before


async def test_every_attempt_starts_with_the_root_file_system_as_it_is(pods: Pods) -> None:
    root = pods.home / "root"
    root.mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    layer = pods.home / "layer"
    pod = await pods.start(
        "pod", "sh", "-c", "ls -d /left 2>/dev/null; touch /left; echo x >> /state/n; test $(wc -l < /state/n) = 3",
        rootfs=str(root), rootfsLayer=str(layer), restartPolicy="OnFailure",
        mounts=[bind("/usr", "/usr"), bind(pods.home, "/state")],
    )  # fmt: skip
    await pods.finished(pod)
    assert pods.log(pod, attempt=2) == []
    assert [path.name for path in layer.iterdir()] == ["2"]
    assert not (root / "left").exists()


def snapshot(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() and not path.is_symlink() else ""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("mounts", [[], [bind("/usr", "/muster-test-usr")]])
async def test_another_identity(pods: Pods, isolation: str, mounts: list[dict[str, Any]]) -> None:
    script = (
        "id -u; id -g > /dev/stdout; touch /tmp/mine && stat -c %u /tmp/mine; test -w /etc/passwd || echo powerless"
    )
    pod = await pods.start("pod", "sh", "-c", script, uid=1234, gid=2345, groups=[2345], mounts=mounts)
    await pods.finished(pod)
    lines = pods.log(pod)
    assert lines[:3] == ["1234", "2345", "1234"]
    if isolation == "namespaces":
        assert lines[3:] == ["powerless"]


async def test_the_environment_is_the_containers_alone(pods: Pods) -> None:
    pod = await pods.start("pod", "env", env={"ONLY": "this"}, cwd="/usr")
    await pods.finished(pod)
    assert {line.partition("=")[0] for line in pods.log(pod)} <= {"PATH", "ONLY", "PWD"}


async def test_what_appears_on_the_machine_later_is_seen_by_later_pods(pods: Pods) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        (place / "old").write_text("old\n")
        mounts = [bind("/usr", f"{folder}/made/up")]
        for number, names in enumerate([["old"], ["old"], ["new", "old"], ["new"]]):
            if names != ["old"]:
                (place / "new").write_text("new\n")
            if names == ["new"]:
                (place / "old").unlink()
            pod = await pods.start(
                f"pod-{number}", "sh", "-c", f"ls {folder}; ls {folder}/made/up | grep bin$", mounts=mounts
            )
            await pods.finished(pod)
            assert pods.log(pod) == [*sorted([*names, "made"]), "bin", "sbin"]
            assert sorted(path.name for path in place.iterdir()) == names


async def test_what_a_pod_leaves_in_memory_is_not_seen_by_the_next(pods: Pods) -> None:
    mounts = [bind("/usr", "/run/muster-test/usr")]
    scripts = [
        "ls /run/muster-test; touch /run/left /run/muster-test/left && ls -d /run/left",
        "ls -d /run/left; ls /run/muster-test; chmod 700 /run/muster-test",
        "ls /run/muster-test; stat -c %a /run/muster-test",
        "ls /run/muster-test; rm -rf /run/muster-test/x; ln -s /etc /run/link",
        "ls -d /run/link /run/left /run/muster-test/*",
    ]
    found = []
    for number, script in enumerate(scripts):
        pod = await pods.start(f"pod-{number}", "sh", "-c", f"({script}) 2>/dev/null", mounts=mounts)
        await pods.finished(pod)
        found.append(pods.log(pod))
    assert found == [["usr", "/run/left"], ["usr"], ["usr", "755"], ["usr"], ["/run/muster-test/usr"]]


async def test_what_a_pod_writes_outside_of_its_volumes_never_reaches_the_machine(pods: Pods, isolation: str) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        (Path(folder) / "old").write_text("old\n")
        script = f"cd {folder}; echo more >> old; touch new; cat old; ls"
        for name in ("first", "second"):
            pod = await pods.start(name, "sh", "-c", f"({script}) 2>/dev/null", env={"HOME": folder})
            await pods.finished(pod)
            assert pods.log(pod) == ["old", "more", "new", "old"]
        assert (Path(folder) / "old").read_text() == "old\n"
        assert os.listdir(folder) == ["old"]


async def test_a_file_that_is_replaced_on_the_machine_is_seen_by_the_next_pod(pods: Pods) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        script = Path(folder, "script")
        for number in range(3):
            fresh = Path(folder, "fresh")
            fresh.write_text(f"echo {number}\n")
            fresh.rename(script)
            pod = await pods.start(f"pod-{number}", "sh", str(script))
            await pods.finished(pod)
            assert pods.log(pod) == [str(number)]
