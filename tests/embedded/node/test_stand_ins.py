"""The programs that stand in for images of everybody's examples."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from muster.embedded.node.images import match_image, recipe
from muster.embedded.node.stand_ins import make_stand_ins


@pytest.mark.parametrize(
    ("image", "container", "command"),
    [
        ("argoproj/argosay:v2", {"args": ["echo", "a"]}, ("argosay", "echo", "a")),
        ("argoproj/argosay:v2", {}, ("argosay",)),
        ("argoproj/argosay:v1", {}, ("cowsay", "hello")),
        ("argoproj/argosay:v1", {"command": ["sh", "-c"], "args": ["cowsay hi"]}, ("sh", "-c", "cowsay hi")),
        ("nginx:1.13", {"command": ["nginx", "-g", "daemon off;"]}, ("nginx", "-g", "daemon off;")),
        ("curlimages/curl", {"args": ["-s", "url"]}, ("curl", "-s", "url")),
    ],
)
def test_what_an_image_runs(
    tmp_path: Path, image: str, container: dict[str, list[str]], command: tuple[str, ...]
) -> None:
    images = make_stand_ins(tmp_path)
    assert recipe({"image": image, **container}, images, {"PATH": "/bin"}).command == command


def test_other_images_have_none(tmp_path: Path) -> None:
    images = make_stand_ins(tmp_path)
    assert match_image("pytorch/pytorch:2", images) == ""
    assert match_image("library/alpine:3.23", images)
    assert match_image("python:alpine3.23", images)


@pytest.mark.parametrize(
    ("program", "args", "code", "out"),
    [
        ("argosay/argosay", [], 0, "hello argo\n"),
        ("argosay/argosay", ["echo", "a b"], 0, "a b\n"),
        ("argosay/argosay", ["cat", "{folder}/given"], 0, "it is here\n"),
        ("argosay/argosay", ["assert_contains", "{folder}/given", "is he"], 0, "it is here\n"),
        ("argosay/argosay", ["assert_contains", "{folder}/given", "nothing"], 1, ""),
        ("argosay/argosay", ["exit", "3"], 3, ""),
        ("argosay/argosay", ["dance"], 1, ""),
        ("argosay/cowsay", ["moo"], 0, "< moo >"),
        ("alpine/apk", ["update"], 0, ""),
        ("alpine/apk", ["add", "--no-cache", "sed", "grep"], 0, ""),
        ("alpine/apk", ["add", "no-such-thing"], 1, ""),
    ],
)
def test_programs(tmp_path: Path, program: str, args: list[str], code: int, out: str) -> None:
    make_stand_ins(tmp_path)
    (tmp_path / "given").write_text("it is here\n")
    command = [str(tmp_path / program), *(arg.format(folder=tmp_path) for arg in args)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert out in done.stdout


def test_argosay_writes_files_into_new_folders(tmp_path: Path) -> None:
    make_stand_ins(tmp_path)
    subprocess.run([tmp_path / "argosay/argosay", "echo", "kept", tmp_path / "new" / "file"], check=True)
    assert (tmp_path / "new" / "file").read_text() == "kept\n"


def test_the_shell_of_small_images_knows_what_theirs_does(tmp_path: Path) -> None:
    make_stand_ins(tmp_path)
    done = subprocess.run([tmp_path / "busybox/sh", "-c", r"echo -e 'a\tb'"], capture_output=True, text=True)
    assert done.stdout == "a\tb\n"
