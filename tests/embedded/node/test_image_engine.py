from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node import image_engine
from muster.embedded.node.image_engine import (
    EngineProblem,
    ImageEngine,
    find_engine,
    prepare_engine_container,
    pull_policy,
    run_command,
)
from muster.embedded.node.supervisor.contract import Mount, PreparedContainer
from muster.kube.objects import Object

PODMAN = ImageEngine("podman", "/usr/bin/podman", ("--cgroup-manager=cgroupfs",), ("--ulimit", "nofile=1024:1024"))
DOCKER = ImageEngine("docker", "/usr/bin/docker", limits=False)
POD: Object = {"metadata": {"name": "p", "namespace": "team", "uid": "u-1"}, "spec": {}}


def command(
    engine: ImageEngine, spec: dict[str, Any], mounts: tuple[Mount, ...] = (), devices: str = "", **prepared: Any
) -> list[str]:
    container: PreparedContainer = {"name": "c", "env": {"A": "1"}}
    container.update(prepared)  # type: ignore[typeddict-item]
    return run_command(engine, "name", {"image": "img:1", **spec}, container, mounts, "/env", {}, "host", devices)


@pytest.mark.parametrize(
    ("spec", "ending"),
    [
        ({}, ["--", "img:1"]),
        ({"args": ["a", "$(A)"]}, ["--", "img:1", "a", "1"]),
        ({"command": ["sh", "-c"]}, ["--entrypoint", "sh", "--", "img:1", "-c"]),
        ({"command": ["sh"], "args": ["-c", "x"]}, ["--entrypoint", "sh", "--", "img:1", "-c", "x"]),
    ],
)
def test_command_and_args(spec: dict[str, Any], ending: list[str]) -> None:
    assert command(PODMAN, spec)[-len(ending) :] == ending


def words_after(option: str, found: list[str]) -> list[str]:
    return [found[i + 1] for i, word in enumerate(found) if word == option]


def test_options() -> None:
    mounts: tuple[Mount, ...] = (
        {"type": "bind", "source": "/a", "target": "/b"},
        {"type": "bind", "source": "/c,d", "target": "/e", "readOnly": True},
    )
    found = command(
        PODMAN, {"workingDir": "/w"}, mounts, uid=1, gid=2, groups=[3], memoryLimit=1048576, cpuLimit=1.5
    )  # fmt: skip
    assert found[:3] == ["/usr/bin/podman", "--cgroup-manager=cgroupfs", "run"]
    assert words_after("--ulimit", found) == ["nofile=1024:1024", "core=0"]
    assert words_after("--mount", found) == [
        '"type=bind","src=/a","dst=/b"',
        '"type=bind","src=/c,d","dst=/e","readonly"',
    ]
    assert words_after("--workdir", found) == ["/w"]
    assert "--tty" not in found and "--interactive" not in found
    assert (words_after("--user", found), words_after("--group-add", found)) == (["1:2"], ["3"])
    assert (words_after("--memory", found), words_after("--cpus", found)) == (["1048576"], ["1.5"])
    assert words_after("--pull", found) == ["never"]
    assert words_after("--network", found) == ["host"]


def test_input_and_terminal() -> None:
    assert {"--interactive", "--tty"} <= {*command(PODMAN, {"stdin": True, "tty": True})}
    assert "--tty" not in command(DOCKER, {"stdin": True})


def test_limits_are_left_out_where_the_engine_cannot_set_them() -> None:
    assert "--memory" not in command(DOCKER, {}, memoryLimit=1, cpuLimit=1.0)


def test_security_and_devices() -> None:
    context = {"privileged": True, "readOnlyRootFilesystem": True, "capabilities": {"add": ["A"], "drop": ["ALL"]}}
    found = command(DOCKER, {"securityContext": context}, devices="0,2")
    assert {"--privileged", "--read-only"} <= set(found)
    assert (words_after("--cap-add", found), words_after("--cap-drop", found)) == (["A"], ["ALL"])
    assert words_after("--gpus", found) == ['"device=0,2"']
    by_podman = command(PODMAN, {}, devices="0,2", env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert words_after("--device", by_podman) == ["nvidia.com/gpu=0", "nvidia.com/gpu=2"]


def test_variables_do_not_show_on_the_command_line(tmp_path: Path) -> None:
    prepared: PreparedContainer = {
        "name": "c", "env": {"SECRET": "hush", "LINES": "a\nb"}, "memoryLimit": 5, "cpuLimit": None, "uid": 1, "gid": 2,
    }  # fmt: skip
    prepare_engine_container(PODMAN, POD, {"image": "i", "command": ["x"]}, prepared, [], str(tmp_path))
    assert (tmp_path / "env-c").read_text() == "SECRET=hush\n"
    assert (tmp_path / "env-c").stat().st_mode & 0o777 == 0o600
    assert not [word for word in prepared["argv"] if "hush" in word]
    assert words_after("--env", prepared["argv"]) == ["LINES=a\nb"]
    assert "LINES" not in prepared["env"]
    assert (prepared["uid"], prepared["memoryLimit"]) == (None, None)
    engine = prepared["engine"]
    assert engine is not None
    name = "muster-u-1-c"
    assert engine["name"] == name
    assert engine["exec"] == ["/usr/bin/podman", "--cgroup-manager=cgroupfs", "exec", name]
    assert engine["kill"][-2:] == ["kill", "--signal"]
    assert engine["remove"][-3:] == ["rm", "-f", name]


@pytest.mark.parametrize(
    ("container", "policy"),
    [
        ({"image": "a"}, "Always"),
        ({"image": "a:latest"}, "Always"),
        ({"image": "host:5000/a"}, "Always"),
        ({"image": "host:5000/a:1"}, "IfNotPresent"),
        ({"image": "a@sha256:0"}, "IfNotPresent"),
        ({"image": "a", "imagePullPolicy": "Never"}, "Never"),
    ],
)
def test_pull_policy(container: dict[str, Any], policy: str) -> None:
    assert pull_policy(container) == policy


async def test_an_engine_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await find_engine("podman")
    assert isinstance(found, EngineProblem)
    assert "apt-get install podman" in found.message


def put_docker(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        ("the daemon is asleep", "docker does not work here: the daemon is asleep"),
        (
            "Cannot connect to the Docker daemon. Is the docker daemon running?",
            "docker does not work here: Cannot connect to the Docker daemon. Is the docker daemon running? "
            "Start it with `systemctl start docker`, or open Docker Desktop.",
        ),
        (
            "dial unix: connect: permission denied",
            "docker does not work here: dial unix: connect: permission denied. "
            "Add yourself to the group with `sudo usermod -aG docker $USER`, and log in again.",
        ),
    ],
)
async def test_an_engine_that_does_not_work_says_why_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, problem: str, message: str
) -> None:
    put_docker(monkeypatch, tmp_path, f"echo '{problem}' >&2\nexit 1")
    assert await find_engine("docker") == EngineProblem("docker", message)


async def test_an_engine_that_does_not_respond_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_docker(monkeypatch, tmp_path, "exec sleep 300")
    monkeypatch.setattr(image_engine, "_CHECK_SECONDS", 0.1)
    found = await find_engine("docker")
    assert isinstance(found, EngineProblem)
    assert "did not respond" in found.message
