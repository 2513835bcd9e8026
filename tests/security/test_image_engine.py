"""Values of a Pod never become options of podman or docker.

A stub reads the command lines as the engines do: options as Go's pflag, mounts as Go's encoding/csv. Where docker is
installed, its own command reads them, too, and sends the result to a daemon of the test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest

from muster.embedded.node.image_engine import (
    ImageEngine,
    ImageNotReady,
    ImagePulls,
    engine_environment,
    image_present,
    image_problem,
    prepare_engine_container,
    pull,
)
from muster.embedded.node.pod_context import ContainerError
from muster.embedded.node.supervisor.contract import Mount, PreparedContainer
from muster.kube.events import EventRecorder
from muster.kube.objects import Object
from tests.embedded.node.harness import Node

DOCKER = shutil.which("docker")
FLAGS = frozenset({"--rm", "--privileged", "--read-only"})
"""The options without a value."""


class Refused(Exception):
    """The engine would not take the command line."""


def read_csv(text: str) -> list[str]:
    """Reads one record as Go's csv.Reader does."""
    fields, rest = list[str](), text
    while True:
        if rest.startswith('"'):
            value, rest = _quoted(rest[1:])
        else:
            end = min((rest.index(c) for c in ",\n" if c in rest), default=len(rest))
            value, rest = rest[:end], rest[end:]
            if '"' in value:
                raise Refused('bare " in non-quoted field')
        fields.append(value)
        if not rest:
            return fields
        if rest[0] != ",":
            raise Refused("more than one record")
        rest = rest[1:]


def _quoted(rest: str) -> tuple[str, str]:
    value = ""
    while True:
        part, quote, rest = rest.partition('"')
        value += part
        if not quote:
            raise Refused('extraneous or missing " in quoted field')
        if rest.startswith('"'):
            value, rest = value + '"', rest[1:]
            continue
        if rest and rest[0] not in ",\n":
            raise Refused('extraneous " in field')
        return value, rest


class ParsedRun:
    """What an engine makes of `run ...`: its options, and the words after them."""

    def __init__(self, argv: list[str]) -> None:
        self.options: list[tuple[str, str]] = []
        words = argv[argv.index("run") + 1 :]
        while words and words[0].startswith("-"):
            option = words.pop(0)
            if option == "--":
                break
            name, equals, value = option.partition("=")
            if equals:
                self.options.append((name, value))
            elif name in FLAGS:
                self.options.append((name, ""))
            else:
                self.options.append((name, words.pop(0)))
        self.image, *self.command = words

    def values(self, option: str) -> list[str]:
        return [value for name, value in self.options if name == option]

    @property
    def mounts(self) -> list[dict[str, str]]:
        return [dict(field.partition("=")[::2] for field in read_csv(value)) for value in self.values("--mount")]


HONEST = {"--rm", "--name", "--network", "--hostname", "--log-driver", "--pull", "--env-file", "--mount", "--ulimit"}


def command_line(
    folder: Path, spec: dict[str, Any], mounts: tuple[Mount, ...] = (), env: dict[str, str] | None = None
) -> PreparedContainer:
    container: PreparedContainer = {"name": "main", "env": env or {}}
    pod: Object = {"metadata": {"name": "pod", "namespace": "team", "uid": "uid"}, "spec": {}}
    engine = ImageEngine("docker", DOCKER or "/usr/bin/docker")
    prepare_engine_container(engine, pod, {"image": "img:1", **spec}, container, mounts, str(folder))
    return container


TARGETS = {
    "the issue's own: a quote closes the field and mounts /": '/x",src=/,"dst=/host',
    "a comma starts a second field": "/x,src=/",
    "a comma makes the mount writable": "/x,readonly=false",
    "a comma asks for a shared mount": "/x,bind-propagation=rshared",
    "doubled quotes": '/x"",""src=/',
    "a quote at the end": '/x"',
    "only quotes": '/"""',
    "a space before an option": "/x, src=/",
    "an equals sign": "/x=src=/",
    "a colon as in -v": "/x:/host:rw",
    "an option's name as the path": "/--privileged",
}


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_a_mount_path_mounts_something_else(tmp_path: Path, target: str) -> None:
    """A mountPath makes podman or docker mount something else"""
    mount: Mount = {"type": "bind", "source": "/data/volume", "target": target, "readOnly": True}
    found = ParsedRun(command_line(tmp_path, {}, (mount,))["argv"])
    assert found.mounts == [{"type": "bind", "src": "/data/volume", "dst": target, "readonly": ""}]
    assert {name for name, _ in found.options} == HONEST


@pytest.mark.parametrize("source", TARGETS.values(), ids=list(TARGETS))
def test_a_sub_path_mounts_something_else(tmp_path: Path, source: str) -> None:
    """A subPath makes podman or docker mount something else"""
    mount: Mount = {"type": "bind", "source": f"/data/volume{source}", "target": "/x"}
    found = ParsedRun(command_line(tmp_path, {}, (mount,))["argv"])
    assert found.mounts == [{"type": "bind", "src": f"/data/volume{source}", "dst": "/x"}]


CONTROL = {
    "a line break ends the record": '/x\n"type=bind","src=/","dst=/host"',
    "a carriage return, which Go drops": "/x\r\n,src=/",
    "a NUL ends the argument": "/x\0",
    "a relative path": "x,src=/",
}


@pytest.mark.parametrize("target", CONTROL.values(), ids=list(CONTROL))
def test_a_mount_path_that_engines_cannot_take_is_refused_by_name(tmp_path: Path, target: str) -> None:
    """A mountPath that engines read differently"""
    mount: Mount = {"type": "bind", "source": "/data/volume", "target": target}
    with pytest.raises(ContainerError, match="mountPath"):
        command_line(tmp_path, {}, (mount,))


IMAGES = {
    "an option that mounts the machine": "-v/:/host",
    "an option with a value": "--volume=/:/host",
    "an option without a value": "--privileged",
    "the end of the options": "--",
    "a line break": "img\n--privileged",
    "a folder of the machine": "dir:/root",
    "an archive of the machine": "docker-archive:/root/backup.tar",
    "an archive of the machine in the working directory": "oci-archive:backup",
    "an image of another store": "containers-storage:[overlay@/var/lib/other]img",
    "the daemon's images": "docker-daemon:img",
    "a URL": "docker://img",
    "a template of the format option": "{{.Id}}",
    "no image": "",
    "a name of a megabyte": "a" * 1_000_000,
    "the id of an image of another user": "sha256:" + "a" * 64,
    "the beginning of such an id": "sha256:a",
}


@pytest.mark.parametrize("image", IMAGES.values(), ids=list(IMAGES))
def test_an_image_name_is_an_option_or_a_file(tmp_path: Path, image: str) -> None:
    """The name of an image is an option of the engine, or a file of the machine"""
    with pytest.raises(ContainerError, match="image"):
        command_line(tmp_path, {"image": image})


@pytest.mark.parametrize(
    "image",
    ["busybox", "a/b:1", "localhost/x:1", "host.example.com:5000/team/x", "x@sha256:" + "0" * 64, "[::1]:5000/x",
     "Host/x:V1.2_3-4", "oci/x:1", "dir/x", "registry.k8s.io/e2e-test-images/agnhost:2.39"],
)  # fmt: skip
def test_honest_image_names_pass(image: str) -> None:
    """Kept working: an honest image name"""
    assert image_problem(image) == ""


@pytest.mark.parametrize("image", ["a", "deadbeef", "c0ffee", "a" * 64])
async def test_an_image_name_is_the_beginning_of_an_id(tmp_path: Path, image: str) -> None:
    """A member runs an image of another user's module by the beginning of its id"""
    line = ParsedRun(command_line(tmp_path, {"image": image})["argv"])
    assert line.image == f"{image}:latest"
    log = tmp_path / "called"
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    program.chmod(0o755)
    await image_present(ImageEngine("podman", str(program)), image)
    await pull(ImageEngine("podman", str(program)), image)
    assert all(called.endswith(f" {image}:latest") for called in log.read_text().splitlines())


async def test_an_image_name_is_an_option_of_pull(tmp_path: Path) -> None:
    """A Pod's image is called `--authfile=/x`, and the engine is asked to pull it."""
    log = tmp_path / "called"
    program = tmp_path / "engine"
    program.write_text(f"#!/bin/sh\necho called >> {log}\n")
    program.chmod(0o755)
    pod: Object = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "--authfile=/x"}]}}
    node = Node(tmp_path)
    await node.start()
    try:
        with pytest.raises(ImageNotReady, match="invalid reference format") as refused:
            await ImagePulls().ensure(ImageEngine("podman", str(program)), pod, EventRecorder(node.cluster, "x"))
    finally:
        await node.stop()
    assert refused.value.reason == "InvalidImageName"
    assert not log.exists()


WORDS = {
    "a working directory": ({"workingDir": "--privileged"}, "--workdir"),
    "a command": ({"command": ["--privileged"]}, "--entrypoint"),
}


@pytest.mark.parametrize(("spec", "option"), WORDS.values(), ids=list(WORDS))
def test_a_value_is_read_as_an_option(tmp_path: Path, spec: dict[str, Any], option: str) -> None:
    """A value of a container is read as an option of the engine"""
    found = ParsedRun(command_line(tmp_path, spec)["argv"])
    assert found.values(option) == ["--privileged"]
    assert found.image == "img:1"
    assert {name for name, _ in found.options} <= {*HONEST, option}


def test_the_arguments_of_a_container_are_read_as_options(tmp_path: Path) -> None:
    """The arguments of a container are read as options of the engine"""
    found = ParsedRun(command_line(tmp_path, {"args": ["--privileged", "-v", "/:/host"]})["argv"])
    assert (found.image, found.command) == ("img:1", ["--privileged", "-v", "/:/host"])


ENGINE_VARIABLES = ["LD_PRELOAD", "DOCKER_HOST", "CONTAINERS_CONF", "PATH", "HOME", "XDG_RUNTIME_DIR", "GODEBUG"]


@pytest.mark.parametrize("name", ENGINE_VARIABLES)
def test_a_variable_with_a_line_break_changes_the_engine(tmp_path: Path, name: str) -> None:
    """A variable with a line break is set in the engine's own environment and runs code as the server"""
    value = "/data/volumes/team/evil.so:\n"
    found = command_line(tmp_path, {}, env={name: value})
    assert found["env"] == engine_environment()
    assert found["env"].get(name) != value
    assert ParsedRun(found["argv"]).values("--env") == [f"{name}={value}"]


NAMES = {
    "podman copies the server's variables": "MUSTER_*",
    "a second line of the file": "A\nLD_PRELOAD",
    "an equals sign": "A=B",
    "a comment of the file": "#A",
    "a space": "A B",
    "no name": "",
    "a NUL": "A\0",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=list(NAMES))
def test_the_name_of_a_variable_means_something_else(tmp_path: Path, name: str) -> None:
    """The name of a variable means something else to the engine"""
    with pytest.raises(ContainerError, match="env"):
        command_line(tmp_path, {}, env={name: "x"})
    assert not (tmp_path / "env-main").exists()


def test_a_pod_asks_for_devices_by_a_variable(tmp_path: Path) -> None:
    """A member sets NVIDIA_VISIBLE_DEVICES to all, or to something that ends the option of docker."""
    for value in ("all", '0","capabilities=all', "0,1,2,3"):
        found = ParsedRun(command_line(tmp_path, {}, env={"NVIDIA_VISIBLE_DEVICES": value})["argv"])
        assert not found.values("--gpus")


def test_an_engine_command_has_the_servers_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """MUSTER_DATABASE is in the environment of podman, and a proxy's password in that of the container."""
    monkeypatch.setenv("MUSTER_DATABASE", "postgresql://muster:secret@db/muster")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy")
    assert "secret" not in json.dumps(engine_environment())
    assert "HTTPS_PROXY" in engine_environment(pulls=True)
    assert "MUSTER_DATABASE" not in engine_environment(pulls=True)


@pytest.mark.parametrize(
    "context",
    [{}, {"privileged": True}, {"capabilities": {"add": ["SYS_ADMIN", "NET_RAW"]}}, {"allowPrivilegeEscalation": True}],
    ids=["the defaults", "privileged", "more capabilities", "setuid programs"],
)
def test_a_member_is_root_of_the_machine_in_an_engine(tmp_path: Path, context: dict[str, Any]) -> None:
    """Root in a member's container reads what others send on the machine's network, with"""
    container: PreparedContainer = {"name": "main", "env": {}}
    pod: Object = {"metadata": {"name": "pod", "namespace": "member-ada", "uid": "uid"}, "spec": {}}
    spec = {"image": "img:1", "securityContext": context}
    prepare_engine_container(
        ImageEngine("docker", "/usr/bin/docker"), pod, spec, container, (), str(tmp_path), "", 100, restricted=True
    )
    found = ParsedRun(container["argv"])
    assert found.values("--cap-drop") == ["ALL"]
    assert not {"NET_RAW", "NET_ADMIN", "SYS_ADMIN", "MKNOD", "SYS_CHROOT"} & set(found.values("--cap-add"))
    assert found.values("--security-opt") == ["no-new-privileges"]
    assert found.values("--pids-limit") == ["100"]
    assert not found.values("--privileged")


class Daemon(ThreadingUnixStreamServer):
    """Speaks enough of docker's API to see what `docker run` would create."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        self.created: dict[str, Any] = {}
        super().__init__(path, _Api)


class _Api(BaseHTTPRequestHandler):
    server: Daemon

    def do_HEAD(self) -> None:
        self._answer(200, b"")

    def do_GET(self) -> None:
        self._answer(200, b"OK")

    def do_POST(self) -> None:
        self.server.created = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        self._answer(400, b'{"message": "seen"}')

    def address_string(self) -> str:
        return ""

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Api-Version", "1.44")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    path = str(tmp_path_factory.mktemp("docker") / "s")
    with Daemon(path) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.skipif(DOCKER is None, reason="docker is not installed")
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_dockers_own_parser_sees_one_mount(tmp_path: Path, daemon: Daemon, target: str) -> None:
    """A mountPath makes docker itself mount something else"""
    mount: Mount = {"type": "bind", "source": f"/data{target}", "target": target, "readOnly": True}
    found = command_line(tmp_path, {"command": ["--privileged"], "args": ["-v", "/:/host"]}, (mount,))
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "DOCKER_HOST": f"unix://{daemon.server_address!s}"}
    done = subprocess.run(found["argv"], env=variables, capture_output=True, text=True, timeout=30, check=False)
    if "whitespace" in done.stderr:
        return  # it refuses such a path altogether
    assert "seen" in done.stderr
    host = daemon.created["HostConfig"]
    mounts = [{"Type": "bind", "Source": f"/data{target}", "Target": target, "ReadOnly": True}]
    assert (host.get("Mounts"), host.get("Binds")) == (mounts, None)
    assert not host["Privileged"]
    assert daemon.created["Image"] == "img:1"
    assert (daemon.created["Entrypoint"], daemon.created["Cmd"]) == (["--privileged"], ["-v", "/:/host"])
