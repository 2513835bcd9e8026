"""Environments that stand for images: which one, what pip says about its progress, and installing one at a time."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import pytest

from muster.workspaces.environments import (
    READY,
    Environments,
    environments_folder,
    install_commands,
    last_error,
    read_progress,
)
from muster.workspaces.images import (
    DEFAULT_IMAGES,
    TENSORBOARD,
    WorkspaceImage,
    WorkspaceSettings,
    find_image,
    read_workspace_settings,
)
from tests.embedded.waiting import run_components, wait_until

IMAGE = WorkspaceImage("small", "Small", "example/small:1", requirements=("jupyterlab",))
SETTINGS = WorkspaceSettings(images=(IMAGE,))


def complete(folder: Path) -> None:
    """As the last steps of an installation."""
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python3").touch()
    (folder / ".complete").touch()


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("kubeflownotebookswg/jupyter-scipy:v1.9.2", "minimal"),
        ("ghcr.io/kubeflow/kubeflow/notebook-servers/jupyter-scipy:v1.10.0", "minimal"),
        ("gcr.io/kubeflow-images-public/tensorflow-1.10.1-notebook-cpu:v0.3.0", "minimal"),
        ("jupyter/base-notebook", "minimal"),
        ("kubeflownotebookswg/jupyter-pytorch-cuda-full:v1.7.0", "pytorch"),
        ("public.ecr.aws/j1r0q0g6/notebooks/notebook-servers/jupyter-tensorflow-full:v1.5.0", "tensorflow"),
        ("paddlepaddle/paddle:2.6.2-jupyter", "paddle"),
        ("quay.io/jupyter/scipy-notebook:latest", "xgboost"),
        ("paddlepaddle/paddle:2.6.2", None),
        ("tensorflow/tensorflow:2.16.1", None),
        ("python:3.12", None),
    ],
)
def test_the_images_of_kubeflow_stand_for_environments_and_others_do_not(image: str, name: str | None) -> None:
    found = find_image(image, (*DEFAULT_IMAGES, TENSORBOARD))
    assert (found.name if found is not None else None) == name


def test_progress_is_read_from_what_pip_prints_and_never_goes_back() -> None:
    lines = [
        "",
        "Collecting jupyterlab>=4.2",
        "  Downloading jupyterlab-4.5.0",
        "Collecting tornado>=6",
        "Collecting x",
        "Installing collected packages: x, tornado",
        "Successfully installed x-1",
    ]
    told = [read_progress("\n".join(lines[:count])) for count in range(1, len(lines) + 1)]
    assert [fraction for _, fraction in told] == sorted(fraction for _, fraction in told)
    assert told[0][0] == "Creating the environment"
    assert told[3][0] == "Downloading tornado (package 2)"
    assert told[5][0] == "Installing 3 packages"
    output = "Collecting nothing\nERROR: No matching distribution found for nothing\n"
    assert last_error(output) == "ERROR: No matching distribution found for nothing"


def test_the_folder_is_not_the_one_that_the_node_cleans_up(tmp_path: Path) -> None:
    """The node removes the environments of single Pods that it does not know."""
    assert environments_folder(tmp_path).name != "environments"


def test_the_marker_is_written_last() -> None:
    steps = install_commands(IMAGE, "/data/environments/small", "/usr/bin/python3", "https://pypi.example/simple")
    assert steps.startswith("/usr/bin/python3 -m venv /data/environments/small && ")
    assert "--index-url https://pypi.example/simple jupyterlab" in steps
    assert steps.endswith("&& touch /data/environments/small/.complete")


def test_mapped_and_unknown_images_need_no_environment(tmp_path: Path) -> None:
    environments = Environments(tmp_path, SETTINGS, is_mapped=lambda image: image.endswith(":mapped"))
    assert environments.status_of("example/small:mapped") == READY
    assert environments.status_of("python:3.12") == READY
    complete(environments.folder_of(IMAGE))
    assert environments.status_of("example/small:1").state == "ready"
    (environments.folder_of(IMAGE) / "bin/python3").unlink()  # as after an update of the machine's Python
    assert environments.status_of("example/small:1").state == "waiting"


async def test_an_environment_that_another_process_still_installs_is_waited_for(tmp_path: Path) -> None:
    """As after kill -9 of the server: the installer goes on, and holds the lock."""
    environments = Environments(tmp_path, SETTINGS, poll=0.02)
    lock = os.open(tmp_path / f"{IMAGE.environment}.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (tmp_path / f"{IMAGE.environment}.log").write_text("Collecting jupyterlab\n")
    try:
        assert environments.status_of("example/small:1").state == "waiting"
        async with run_components(environments):
            await wait_until(lambda: environments.status_of("example/small:1").state == "installing")
            assert environments.status_of("example/small:1").message == "Downloading jupyterlab (package 1)"
            complete(environments.folder_of(IMAGE))
            await wait_until(lambda: environments.status_of("example/small:1").state == "ready")
    finally:
        os.close(lock)


async def test_a_failed_installation_says_why_and_is_tried_again(tmp_path: Path) -> None:
    environments = Environments(tmp_path, SETTINGS, python="/nonexistent/python3", patience=0.2, poll=0.02)
    changed = asyncio.Event()
    environments.on_change = changed.set
    async with run_components(environments):
        environments.status_of("example/small:1")
        await wait_until(lambda: "not found" in environments._statuses.get(IMAGE.name, READY).message)
        await wait_until(lambda: environments.status_of("example/small:1").state in ("waiting", "installing"))
    assert changed.is_set()


def test_the_list_of_images_is_a_setting() -> None:
    given = {"name": "mine", "image": "registry.example/mine:1", "requirements": ["jupyterlab"]}
    settings = read_workspace_settings({"workspaces": {"images": [given], "cullIdleMinutes": 90}})
    assert [(each.name, each.title, each.image) for each in settings.images] == [
        ("mine", "mine", "registry.example/mine:1")
    ]
    assert settings.cull_idle_minutes == 90
    assert read_workspace_settings({}).images == DEFAULT_IMAGES
    with pytest.raises(ValueError, match='two images are named "mine"'):
        read_workspace_settings({"workspaces": {"images": [given, given]}})
