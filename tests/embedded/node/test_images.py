from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.images import (
    CONTAINER_PATH,
    PLAIN_IMAGES,
    describe_source,
    enter_environment,
    explain_missing_program,
    has_busybox_shell,
    hidden_folders,
    interpreter_folders,
    machine_environment,
    make_shims,
    match_image,
    plain_name,
    plan_launch,
    required_folders,
)
from muster.embedded.node.pod_context import ImageNeedsCommand
from muster.embedded.settings import ImageSettings

MACHINE = {"PATH": "/usr/bin", "HOME": "/home/u"}
IMAGES = {
    "team/torch": ImageSettings(
        path=("/opt/torch/bin",), env={"OMP_NUM_THREADS": "1"}, command=("python",), args=("-V",)
    ),
    "team/torch:old*": ImageSettings(command=("python2",)),
    "files/*": ImageSettings(rootfs="/srv/rootfs", command=("/entry",), working_dir="/work"),
    "env-only": ImageSettings(path=("/opt/bin",)),
}


@pytest.mark.parametrize(
    ("image", "pattern"),
    [
        ("team/torch", "team/torch"),
        ("team/torch:2.1", "team/torch"),
        ("team/torch@sha256:00", "team/torch"),
        ("team/torch:old-1", "team/torch:old*"),
        ("files/a/b:1", "files/*"),
        ("host:5000/team/torch", ""),
        ("other", ""),
    ],
)
def test_match_image(image: str, pattern: str) -> None:
    assert match_image(image, IMAGES) == pattern


@pytest.mark.parametrize(
    ("container", "command"),
    [
        ({"image": "any", "command": ["a", "b"]}, ("a", "b")),
        ({"image": "any", "command": ["a"], "args": ["b"]}, ("a", "b")),
        ({"image": "team/torch"}, ("python", "-V")),
        ({"image": "team/torch", "args": ["x.py"]}, ("python", "x.py")),
        ({"image": "team/torch", "command": ["sh"]}, ("sh",)),
        ({"image": "env-only", "args": ["train"]}, ("train",)),
    ],
)
def test_command_and_args_work_like_entrypoint_and_cmd(container: dict[str, Any], command: tuple[str, ...]) -> None:
    assert plan_launch(container, IMAGES, MACHINE).command == command


def test_a_mapped_image_brings_its_path_and_variables() -> None:
    found = plan_launch({"image": "team/torch:2"}, IMAGES, MACHINE)
    assert found.env == {"PATH": "/opt/torch/bin:/usr/bin", "HOME": "/home/u", "OMP_NUM_THREADS": "1"}
    assert (found.rootfs, found.cwd) == ("", "/tmp")


def test_a_root_file_system_knows_nothing_of_this_machine() -> None:
    found = plan_launch({"image": "files/x"}, IMAGES, MACHINE)
    assert (found.rootfs, found.cwd, found.env["PATH"]) == ("/srv/rootfs", "/work", CONTAINER_PATH)
    assert plan_launch({"image": "files/x", "workingDir": "/else"}, IMAGES, MACHINE).cwd == "/else"


def test_variables_in_the_command_are_expanded() -> None:
    found = plan_launch({"image": "x", "command": ["echo", "$(A)"], "args": ["$$(A)"]}, {}, MACHINE)
    assert found.argv({"A": "1"}) == ["echo", "1", "$(A)"]


@pytest.mark.parametrize(
    "container", [{"image": "nginx:1"}, {"image": "nginx:1", "args": ["-g"]}, {"image": "env-only"}]
)
def test_an_image_without_a_command_says_what_to_do(container: dict[str, Any]) -> None:
    with pytest.raises(ImageNeedsCommand) as caught:
        plan_launch({"name": "web", **container}, IMAGES, MACHINE)
    message = caught.value.message
    assert container["image"] in message
    assert 'command: ["python", "train.py"]' in message
    assert f'"{container["image"].partition(":")[0]}*":' in message
    assert "--runtime podman" in message
    assert caught.value.container == "web"


def test_the_event_says_where_the_image_runs() -> None:
    assert (
        describe_source("python:3.11", "", "")
        == 'Running "python:3.11" in the environment of this machine (no image is pulled)'
    )
    assert "mapped" in describe_source("a", "a*", "") and "root file system" in describe_source("a", "a*", "/srv")


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("busybox", "busybox"),
        ("python:3.12", "python"),
        ("library/alpine:3.23", "alpine"),
        ("docker.io/library/debian@sha256:00", "debian"),
        ("mirror.example:5000/ubuntu:24.04", "ubuntu"),
        ("public.ecr.aws/docker/library/golang:1.22", "golang"),
        ("team/python:3.12", ""),
        ("ghcr.io/team/node", ""),
        ("nginx", ""),
        ("", ""),
    ],
)
def test_plain_images_are_official_ones_that_only_have_a_shell_or_a_language(image: str, name: str) -> None:
    assert plain_name(image) == name


@pytest.mark.parametrize(
    ("container", "command"),
    [
        ({"image": "busybox"}, ("sh",)),
        ({"image": "busybox:1", "args": ["echo", "hi"]}, ("echo", "hi")),
        ({"image": "python:3.12", "command": ["python", "-c", "1"]}, ("python", "-c", "1")),
        ({"image": "python:3.12"}, ("python3",)),
    ],
)
def test_a_plain_image_runs_what_it_would_run(container: dict[str, Any], command: tuple[str, ...]) -> None:
    assert plan_launch(container, {}, MACHINE).command == command


def test_the_settings_come_before_the_plain_images() -> None:
    images = {"python": ImageSettings(command=("/opt/python",))}
    found = plan_launch({"image": "python:3.12"}, images, MACHINE, "/shims")
    assert (found.command, found.mapped, found.env["PATH"]) == (("/opt/python",), "python", "/usr/bin")


@pytest.mark.parametrize(
    ("image", "expected"),
    [("busybox", True), ("alpine:3.23", True), ("python:alpine3.23", True), ("python:3.12", False), ("debian", False)],
)
def test_the_shell_of_small_images_knows_what_busybox_knows(image: str, expected: bool) -> None:
    assert has_busybox_shell(image) is expected
    path = plan_launch({"image": image, "command": ["sh"]}, {}, MACHINE, "/run/shims").env["PATH"]
    assert path == ("/run/shims-busybox:/usr/bin" if expected else "/usr/bin")


def test_the_plain_images_are_documented() -> None:
    documentation = (Path(__file__).parents[3] / "docs/settings.md").read_text()
    assert [name for name in PLAIN_IMAGES if f"`{name}`" not in documentation] == []


def test_a_missing_program_names_the_three_ways_out() -> None:
    message = explain_missing_program("influxdb:1.2")
    for part in ('"influxdb:1.2"', "config.yaml", "rootfs", "--runtime podman or docker"):
        assert part in message


def test_secrets_of_the_server_stay_with_the_server(tmp_path: Path) -> None:
    env = machine_environment(tmp_path, {"EXTRA": "1"}, {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "TZ": "UTC"})
    assert env["PATH"] == f"/bin:{tmp_path}"
    assert (env["TZ"], env["EXTRA"]) == ("UTC", "1")
    assert "AWS_SECRET_ACCESS_KEY" not in env


def test_shims_fill_only_gaps(tmp_path: Path) -> None:
    binaries, shims = tmp_path / "bin", tmp_path / "shims"
    binaries.mkdir()
    for name in ("python3", "sh"):
        (binaries / name).symlink_to(sys.executable)
    assert make_shims(shims, str(binaries)) == []
    assert {p.name: os.readlink(p) for p in shims.iterdir()} == {
        "python": str(binaries / "python3"),
        "bash": str(binaries / "sh"),
    }
    assert not Path(f"{shims}-busybox").exists()
    (binaries / "bash").symlink_to("/bin/sh")
    assert make_shims(shims, str(binaries)) == []
    assert {p.name for p in shims.iterdir()} == {"python"}
    assert os.readlink(f"{shims}-busybox/sh") == str(binaries / "bash")


def test_without_any_shell_it_says_so(tmp_path: Path) -> None:
    assert make_shims(tmp_path / "shims", str(tmp_path)) == ["sh", "bash"]
    assert os.readlink(tmp_path / "shims" / "python") == sys.executable


@pytest.mark.parametrize(
    ("needed", "found"),
    [
        ((), ()),
        (("/opt/torch", "/srv/project", "/tmp", ""), ()),
        (("/tmp/clone/env",), ("/tmp/clone/env",)),
        (("/tmp/a/env", "/tmp/b"), ("/tmp/a/env", "/tmp/b")),
        (("/tmp/a/env", "/tmp/a", "/tmp/ab"), ("/tmp/a", "/tmp/ab")),
        (("/srv/box/run/shims/", "/srv/boxes"), ("/srv/box/run/shims",)),
    ],
)
def test_folders_below_hidden_ones_have_to_be_mounted(needed: tuple[str, ...], found: tuple[str, ...]) -> None:
    assert hidden_folders(needed, ("/tmp", "/srv/box")) == found


def test_a_container_runs_from_its_environment_a_checkout_and_wherever_programs_are() -> None:
    settings = ImageSettings(path=("/opt/torch/bin/",), working_dir="/srv/project")
    needed = required_folders(settings, {"PATH": "/usr/bin:/bin"}, program=("/venv",))
    assert needed == ("/opt/torch", "/srv/project", "/venv", "/usr/bin", "/bin")


def test_a_container_also_runs_from_where_the_command_of_its_image_is() -> None:
    settings = ImageSettings(command=("python", "/tmp/project/train.py"), args=("/tmp/alone.sh", "-v"))
    assert required_folders(settings, {}, program=()) == ("", "/tmp/project", "/tmp/alone.sh", "")


def test_a_link_in_an_environment_of_users_shows_nothing_of_the_machine(tmp_path: Path) -> None:
    """The interpreters of the machine's own environments are found through links. A user could set one to any `bin`."""
    secret = tmp_path / "account" / "bin" / "tool"
    secret.parent.mkdir(parents=True)
    secret.touch()
    environment = tmp_path / "environment"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "python3").symlink_to(secret)
    plan = plan_launch({"image": "python", "command": ["true"]}, {}, {"PATH": "/bin"})
    entered = enter_environment(plan, str(environment), "/opt/python")
    assert entered.env["PATH"] == f"{environment}/bin:/bin"
    assert entered.required_folders == plan.required_folders
    assert str(secret.parent.parent) not in interpreter_folders(entered.required_folders)
