"""Environments that stand for the images of workspaces where no image engine runs them.

An environment is a folder with a Python of its own (venv) below the data directory. It is installed once, by a process
that holds a lock and writes a marker file at the very end. If the server is killed meanwhile, that process goes on; the
next server finds the lock taken, and follows the same log. If the process is killed, too, the folder without a marker
is removed and installed again.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from muster.workspaces.images import (
    HOME,
    JUPYTER_PORT,
    TENSORBOARD,
    WorkspaceImage,
    WorkspaceSettings,
    find_image,
)

log = logging.getLogger(__name__)

EnvironmentState: TypeAlias = Literal["ready", "waiting", "installing", "failed"]

_COMPLETE: Final = ".complete"
_POLL_SECONDS: Final = 1.0
_TRY_AGAIN_SECONDS: Final = 60.0
_TAIL_BYTES: Final = 200_000
_EXPECTED_PACKAGES: Final = 90
"""About how many packages an environment with JupyterLab has: pip does not know it before the end."""


@dataclass(frozen=True, slots=True)
class EnvironmentStatus:
    name: str
    """The name of the image in the list; '' if the image needs no environment."""
    state: EnvironmentState = "ready"
    message: str = ""
    fraction: float = 1.0


READY: Final = EnvironmentStatus("")


def read_progress(output: str) -> tuple[str, float]:
    """Returns what pip is doing, and about how much of it is done, from its output so far. The fraction never gets
    smaller when output is added."""
    names = re.findall(r"^Collecting ([A-Za-z0-9._-]+)", output, re.MULTILINE)
    if re.search(r"^Successfully installed ", output, re.MULTILINE):
        return "Finishing", 0.98
    if re.search(r"^Installing collected packages:", output, re.MULTILINE):
        return f"Installing {len(set(names))} packages", 0.75
    if names:
        part = min(len(set(names)) / _EXPECTED_PACKAGES, 1.0)
        return f"Downloading {names[-1]} (package {len(set(names))})", round(0.05 + 0.65 * part, 3)
    return "Creating the environment", 0.02


def last_error(output: str) -> str:
    """Returns the line of pip's output that says why it failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR:", "error:"))]
    return (errors[-1] if errors else lines[-1] if lines else "no output")[:500]


def jupyter_command() -> tuple[str, ...]:
    """How the environment of an image starts JupyterLab: on the Pod's own address, because Pods share the loopback
    interface; with the token from the environment; and for an origin of its own, so without a path prefix, unless the
    notebook sets Kubeflow's NB_PREFIX."""
    options = (
        '--ServerApp.ip="${MUSTER_POD_IP:-127.0.0.1}"',
        f"--ServerApp.port={JUPYTER_PORT}",
        "--ServerApp.port_retries=0",
        '--ServerApp.base_url="${NB_PREFIX:-/}"',
        '--ServerApp.root_dir="$HOME"',
        "--ServerApp.open_browser=False",
        "--ServerApp.allow_remote_access=True",
        "--ServerApp.allow_root=True",
        "--ServerApp.quit_button=False",
        # By itself it starts a login shell, for which /etc/profile sets PATH without the environment's programs.
        "--ServerApp.terminado_settings=shell_command=/bin/bash",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.news_url=None",
    )
    return ("sh", "-c", f"exec jupyter lab {' '.join(options)}")


def jupyter_variables() -> dict[str, str]:
    return {"HOME": HOME, "SHELL": "/bin/bash", "PYTHONUNBUFFERED": "1", "JUPYTER_PLATFORM_DIRS": "0"}


def environments_folder(home: Path) -> Path:
    """Where the environments of a server are, in its data directory. Not in `environments`: there the node keeps those
    of single Pods, and removes what it does not know."""
    return home / "workspace-environments"


def is_installed(home: Path, image: WorkspaceImage) -> bool:
    """Whether the environment of an image is ready."""
    return _is_whole(environments_folder(home) / image.environment)


def _is_whole(folder: Path) -> bool:
    """Whether an environment was installed to the end, and its Python still exists: it is a link to the machine's."""
    return (folder / _COMPLETE).exists() and (folder / "bin/python3").exists()


class Environments:
    """The environments below `folder`. `run()` installs those that were asked for, until it is cancelled."""

    def __init__(
        self,
        folder: Path,
        settings: WorkspaceSettings,
        *,
        is_mapped: Callable[[str], bool] = lambda image: False,
        on_change: Callable[[], None] = lambda: None,
        python: str = sys.executable,
        patience: float = _TRY_AGAIN_SECONDS,
        poll: float = _POLL_SECONDS,
    ) -> None:
        """`is_mapped` says whether the settings map an image: they take precedence. `on_change` is called whenever the
        status of an environment changes."""
        self._folder = folder
        self._settings = settings
        self._is_mapped = is_mapped
        self.on_change = on_change
        self._python = python
        self._patience, self._poll = patience, poll
        self._images = (*settings.images, TENSORBOARD)
        self._statuses: dict[str, EnvironmentStatus] = {}
        self._wanted: asyncio.Queue[WorkspaceImage] = asyncio.Queue()

    def folder_of(self, image: WorkspaceImage) -> Path:
        return self._folder / image.environment

    def is_installed(self, image: WorkspaceImage) -> bool:
        return _is_whole(self.folder_of(image))

    def status_of(self, image: str) -> EnvironmentStatus:
        """Returns whether the environment of an image can be used, and starts to install it if it cannot."""
        found = None if self._is_mapped(image) else find_image(image, self._images)
        if found is None:
            return READY
        known = self._statuses.get(found.name)
        if known is None or known.state == "ready":
            if self.is_installed(found):
                known = EnvironmentStatus(found.name)
            else:
                known = EnvironmentStatus(found.name, "waiting", "Waiting for another environment to be installed", 0.0)
                self._wanted.put_nowait(found)
            self._statuses[found.name] = known
        return known

    async def run(self) -> None:
        """Runs until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.environments_at_once):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            image = await self._wanted.get()
            try:
                await self._install(image)
            except OSError as error:
                self._fail(image, str(error))

    def _set(self, status: EnvironmentStatus) -> None:
        if self._statuses.get(status.name) != status:
            self._statuses[status.name] = status
            self.on_change()

    def _fail(self, image: WorkspaceImage, why: str) -> None:
        log.warning("the environment %s could not be installed: %s", image.name, why)
        again = f"it is tried again in {self._patience:.0f} s"
        self._set(EnvironmentStatus(image.name, "failed", f"pip could not install {image.title}: {why}; {again}", 0.0))
        asyncio.get_running_loop().call_later(self._patience, self._forget, image.name)

    def _forget(self, name: str) -> None:
        """The next question starts another attempt."""
        if self._statuses.get(name, READY).state == "failed":
            del self._statuses[name]
            self.on_change()

    async def _install(self, image: WorkspaceImage) -> None:
        folder, output = self.folder_of(image), self._folder / f"{image.environment}.log"
        await asyncio.to_thread(self._folder.mkdir, parents=True, exist_ok=True)
        lock = os.open(self._folder / f"{image.environment}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        process: subprocess.Popen[bytes] | None = None
        try:
            while not self.is_installed(image):
                if process is None and _try_lock(lock):
                    await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                    process = await asyncio.to_thread(self._start, image, folder, output, lock)
                elif process is not None and process.poll() is not None:
                    if not self.is_installed(image):
                        self._fail(image, last_error(await asyncio.to_thread(_read_tail, output)))
                        return
                    break
                message, fraction = read_progress(await asyncio.to_thread(_read_tail, output))
                self._set(EnvironmentStatus(image.name, "installing", message, fraction))
                await asyncio.sleep(self._poll)
        finally:
            os.close(lock)
            if process is not None and process.poll() is None:
                # It goes on without us, and is ours again after the next start; see the top of this file.
                process.returncode = 0
        self._set(EnvironmentStatus(image.name))

    def _start(self, image: WorkspaceImage, folder: Path, output: Path, lock: int) -> subprocess.Popen[bytes]:
        commands = install_commands(image, str(folder), self._python, self._settings.package_index)
        with output.open("wb") as log_file:
            return subprocess.Popen(
                ["/bin/sh", "-c", commands],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=subprocess.STDOUT,
                pass_fds=[lock],
                start_new_session=True,
                env=_clean_environment(os.environ),
            )


def install_commands(image: WorkspaceImage, folder: str, python: str, index: str = "") -> str:
    """Returns the shell script that installs an environment. The marker comes last, in one step."""
    pip = [f"{folder}/bin/python", "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    pip += ["--progress-bar", "off", *(["--index-url", index] if index else []), *image.requirements]
    # Compiled once, and not by each Pod, which cannot write here.
    compile_all = [f"{folder}/bin/python", "-m", "compileall", "-q", "-j", "1", f"{folder}/lib"]
    return " && ".join([
        shlex.join([python, "-m", "venv", folder]),
        shlex.join(pip),
        f"{{ {shlex.join(compile_all)} || true; }}",
        shlex.join(["touch", f"{folder}/{_COMPLETE}"]),
    ])  # fmt: skip


def _clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what binds Python to the server's own environment."""
    return {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def _try_lock(descriptor: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _read_tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
