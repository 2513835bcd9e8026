"""Output paths of a Pod, which the supervisor copies with more rights than the Pod has."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
import pytest_asyncio

from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.operations import AgentFiles
from muster.embedded.node.supervisor.output_files import PROBLEM_FILE, CopyBudget, copy_outputs
from muster.embedded.node.supervisor_client import zygote_environment
from muster.kube.budgets import Budgets
from muster.kube.builtin import POD
from muster.kube.cluster import KEEP_FILES_ANNOTATION, LogQuery, NodeFilesError
from muster.kube.objects import name_of, status_of, uid_of
from tests.embedded.node.harness import Node
from tests.embedded.waiting import wait_for

ISOLATION, WHY = probe_isolation()
pytestmark = pytest.mark.skipif(ISOLATION == "none", reason=WHY)
on_node = pytest.mark.asyncio(loop_scope="module")
_NUMBERS = count()
SECRET = "postgresql://muster:hunter2@db/muster"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Node]:
    """A server with a password in its environment and small budgets. All tests share it: every Pod has its own name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_DATABASE", SECRET)
        found = Node(tmp_path_factory.mktemp("node"), budgets=Budgets(output_files=50, output_megabytes=1))
        await found.start()
        yield found
        await found.clean_up()


@pytest.fixture
def name() -> str:
    return f"thief-{next(_NUMBERS)}"


async def outputs(node: Node, name: str, script: str, *paths: str, **more: Any) -> tuple[dict[str, bytes], str]:
    """Runs a script as a Pod. Returns the copied files by `index/path`, and the problem with them."""
    metadata = {"annotations": {KEEP_FILES_ANNOTATION: json.dumps({"main": list(paths)})}}
    await node.create(name, "sh", "-c", script, metadata=metadata, **more)
    pod = await node.ended(name)
    folder = node.settings.pods / uid_of(pod) / "kept" / "main"
    found = {
        str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if not p.is_symlink() and p.is_file()
    }
    problem = found.pop(PROBLEM_FILE, b"").decode()
    if problem:
        with pytest.raises(NodeFilesError, match=problem[:20]):
            AgentFiles(node.settings).output(pod, "main", 0)
    return found, problem


LINKS = {
    "a link to the environment of the supervisor": ("ln -s /proc/1/environ /tmp/x", "/tmp/x"),
    "a link through /proc/self/root": ("ln -s /proc/self/root/proc/1/environ /tmp/x", "/tmp/x"),
    "a link through the working directory of another process": ("ln -s /proc/1/cwd/proc/1/environ /tmp/x", "/tmp/x"),
    "a chain of links": ("ln -s /tmp/b /tmp/x; ln -s c /tmp/b; ln -s ../proc/1/environ /tmp/c", "/tmp/x"),
    "a folder that is a link to /proc": ("ln -s /proc /tmp/x", "/tmp/x/1/environ"),
    "a folder that is a link to /proc/1": ("ln -s /proc/1 /tmp/x", "/tmp/x"),
    "a link to the memory of a process": ("ln -s /proc/1/mem /tmp/x", "/tmp/x"),
    "a link to the settings of the kernel": ("ln -s /sys/kernel /tmp/x", "/tmp/x"),
    "a link to a device that never ends": ("ln -s /dev/zero /tmp/x", "/tmp/x"),
    "a link to a device that blocks": ("ln -s /dev/tty /tmp/x", "/tmp/x"),
    "a link to a descriptor of the supervisor": ("ln -s /proc/1/fd/3 /tmp/x", "/tmp/x"),
}


@on_node
@pytest.mark.parametrize(("script", "path"), LINKS.values(), ids=list(LINKS))
async def test_an_output_path_leads_to_the_kernel(node: Node, name: str, script: str, path: str) -> None:
    """An output path leads to files of the kernel"""
    found, problem = await outputs(node, name, script, path)
    assert found == {}
    assert "file of the kernel" in problem or problem == ""
    assert "hunter2" not in problem


@on_node
async def test_a_folder_of_links_is_copied_as_links(node: Node, name: str) -> None:
    """A member's output folder contains links to /proc, to a secret of the machine and out of the folder."""
    script = (
        "mkdir -p /tmp/x/deep; ln -s /proc/1/environ /tmp/x/a; ln -s /etc/shadow /tmp/x/b; ln -s /proc /tmp/x/deep/c;"
        "ln -s ../../../../etc/shadow /tmp/x/deep/d; echo fine > /tmp/x/f"
    )
    found, problem = await outputs(node, name, script, "/tmp/x")
    assert (found, problem) == ({"0/f": b"fine\n"}, "")


@on_node
async def test_an_output_folder_holds_pipes_and_sockets(node: Node, name: str) -> None:
    """An output folder holds pipes and sockets, which block their readers"""
    script = (
        "mkdir /tmp/x; mkfifo /tmp/x/pipe /tmp/pipe; echo fine > /tmp/x/f;"
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"/tmp/x/socket\")'"
    )
    found, problem = await outputs(node, name, script, "/tmp/pipe", "/tmp/x")
    assert (found, problem) == ({"1/f": b"fine\n"}, "")


@on_node
@pytest.mark.skipif(os.getuid() != 0, reason="only a server that runs as root has more rights than its Pods")
@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/../etc/shadow", "/tmp/link"])
async def test_a_member_obtains_a_file_that_only_root_can_read(node: Node, name: str, path: str) -> None:
    """A member obtains a file as an output that only root can read"""
    found, problem = await outputs(
        node, name, "ln -s /etc/shadow /tmp/link; cat /etc/shadow", path, securityContext={"runAsUser": 12345}
    )
    assert found == {}
    assert problem == ("Permission denied" if path == "/tmp/link" else "")
    assert "root:" not in await node.logs(name)


@on_node
@pytest.mark.skipif(os.getuid() != 0, reason="only a server that runs as root has more rights than its Pods")
async def test_a_member_who_is_root_in_a_container_obtains_a_file_of_the_machine(
    node: Node, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root in a Pod of a restricted namespace obtains a file as an output that only the machine's root can read"""
    monkeypatch.setattr("muster.embedded.node.agent.is_restricted", lambda namespace: name_of(namespace) == "eve")
    await node.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "eve"}})
    with NamedTemporaryFile(dir="/opt" if os.path.isdir("/opt") else "/usr", suffix=".secret") as secret:
        secret.write(b"hunter2")
        secret.flush()
        script = f"id -u; cat {secret.name}; ln -s {secret.name} /tmp/s; umask 077; echo mine > /tmp/own"
        keep = {KEEP_FILES_ANNOTATION: json.dumps({"main": ["/tmp/s", "/tmp/own"]})}
        await node.create(name, "sh", "-c", script, metadata={"namespace": "eve", "annotations": keep})
        ended = ("Succeeded", "Failed")
        pod = await wait_for(node.cluster, POD, name, lambda pod: status_of(pod).get("phase") in ended, "eve")
        folder = node.settings.pods / uid_of(pod) / "kept" / "main"
        found = b"".join(path.read_bytes() for path in folder.iterdir())
        log = b"".join([piece async for piece in node.cluster.logs(name, "eve", LogQuery())])
    assert b"hunter2" not in found + log
    assert b"Permission denied" in found


@on_node
@pytest.mark.skipif(os.getuid() != 0, reason="only a server that runs as root has more rights than its Pods")
async def test_a_member_still_gets_what_its_own_user_wrote(node: Node, name: str) -> None:
    """Kept working: a member gets what its own user wrote"""
    found, problem = await outputs(
        node, name, "umask 077; mkdir /tmp/x; echo mine > /tmp/x/f", "/tmp/x", securityContext={"runAsUser": 12345}
    )
    assert (found, problem) == ({"0/f": b"mine\n"}, "")


BUDGETS = {
    "too many bytes": ("head -c 2000000 /dev/zero > /tmp/x", "budgets.outputMegabytes"),
    "a sparse file of a terabyte": ("truncate -s 1T /tmp/x", "budgets.outputMegabytes"),
    "many files that are large together": (
        "mkdir /tmp/x; for i in 1 2 3 4 5 6; do head -c 300000 /dev/zero > /tmp/x/$i; done", "budgets.outputMegabytes",
    ),
    "the same large file by many names": (
        "mkdir /tmp/x; head -c 300000 /dev/zero > /tmp/x/0; for i in 1 2 3 4 5; do ln /tmp/x/0 /tmp/x/$i; done",
        "budgets.outputMegabytes",
    ),
    "too many files": ("mkdir /tmp/x; seq 200 | xargs -I+ touch /tmp/x/+", "budgets.outputFiles"),
    "too many folders": ("mkdir -p $(seq -f /tmp/x/%g 200)", "budgets.outputFiles"),
    "too many links": ("mkdir /tmp/x; seq 200 | xargs -I+ ln -s x /tmp/x/+", "budgets.outputFiles"),
}  # fmt: skip


@on_node
@pytest.mark.parametrize(("script", "setting"), BUDGETS.values(), ids=list(BUDGETS))
async def test_outputs_fill_the_disk_of_the_server(node: Node, name: str, script: str, setting: str) -> None:
    """Outputs fill the disk of the server"""
    found, problem = await outputs(node, name, script, "/tmp/x")
    assert found == {}
    assert setting in problem


@on_node
async def test_an_output_folder_is_nested_without_end(node: Node, name: str) -> None:
    """An output folder is nested so deeply that copying it ends the supervisor"""
    script = 'python3 -c \'import os\nos.chdir("/tmp")\nfor i in range(3000): os.mkdir("x"); os.chdir("x")\''
    found, problem = await outputs(node, name, script, "/tmp/x")
    assert found == {}
    assert problem
    assert status_of(await node.get(name))["phase"] == "Succeeded"


@on_node
async def test_the_environment_of_the_supervisors_has_the_servers_password(node: Node) -> None:
    """The environment of a supervisor contains the server's database password"""
    await node.create("long", "sleep", "60")
    pod = await node.phase("long", "Running")
    worker = node.agent._workers[uid_of(pod)]
    supervisor = worker.progress.supervisor
    seen = [Path(f"/proc/{pid}/environ").read_bytes() for pid in (supervisor, _parent(supervisor))]
    await node.delete("long", grace=0)
    assert all(b"hunter2" not in text and b"MUSTER_DATABASE" not in text for text in seen)
    assert "MUSTER_DATABASE" not in zygote_environment()


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_file_grows_while_it_is_copied(tmp_path: Path) -> None:
    """A file in a volume grows as fast as it is copied"""
    budget = CopyBudget(10, 1 << 20)
    (tmp_path / "root").mkdir()
    (tmp_path / "root/f").write_bytes(bytes(100))
    budget.left = 50  # as if the rest had grown
    root = os.open(tmp_path / "root", os.O_PATH)
    try:
        copy_outputs(root, ["/f"], str(tmp_path / "k"), budget)
    finally:
        os.close(root)
    assert [p.name for p in (tmp_path / "k").iterdir()] == [PROBLEM_FILE]


def test_a_socket_of_the_server_is_in_the_output_folder(tmp_path: Path) -> None:
    """An output folder contains the socket of another process"""
    (tmp_path / "root").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "root/s"))
        root = os.open(tmp_path / "root", os.O_PATH)
        try:
            copy_outputs(root, ["/s", "/"], str(tmp_path / "k"), CopyBudget(10, 10))
        finally:
            os.close(root)
    assert [p.name for p in (tmp_path / "k").iterdir()] == ["1"]
    assert list((tmp_path / "k/1").iterdir()) == []
