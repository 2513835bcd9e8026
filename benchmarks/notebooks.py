"""The cold start of a notebook whose environment exists, beside `jupyter lab` alone in the same environment.

    python -m benchmarks.notebooks [--times 5] [--home .environments/bench-home]

Alone: from the start of the process to its first answer. With Muster: from the request that creates the notebook to the
first answer through the proxy; that has the home volume, scheduling and the sandbox in it. The first run installs the
environment, which is not measured, and is kept in the data directory for later ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from benchmarks.proxy import muster

from muster.workspaces.environments import environments_folder
from muster.workspaces.images import WorkspaceImage

_IMAGE = WorkspaceImage("jupyter", "JupyterLab", "muster.dev/jupyter-bench", requirements=("jupyterlab>=4.2,<5",))
_PATIENCE = 1800.0
_POLL = 0.02


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--home", type=Path, default=Path(".environments/bench-home"))
    wanted = parser.parse_args()
    home: Path = wanted.home.resolve()
    home.mkdir(parents=True, exist_ok=True)
    listed = {"name": _IMAGE.name, "image": _IMAGE.image, "requirements": list(_IMAGE.requirements)}
    (home / "config.yaml").write_text(json.dumps({"workspaces": {"images": [listed]}}))
    muster(home, "up", "-d")
    try:
        platform = Platform(home)
        platform.start_notebook("warm")  # it installs the environment
        program = environments_folder(home) / _IMAGE.environment / "bin" / "jupyter"
        alone, notebooks = [], []
        for number in range(wanted.times):
            alone.append(start_alone(program))
            notebooks.append(platform.start_notebook(f"bench-{number}"))
    finally:
        muster(home, "delete", "notebooks,pods", "--all", "-A", "--now", "--timeout=60s")
        muster(home, "down")
    report(alone, notebooks)
    return 0


class Platform:
    def __init__(self, home: Path) -> None:
        self._port = (home / "web-port").read_text().strip()
        self._url = f"http://127.0.0.1:{self._port}"
        self._token = {"Authorization": f"Bearer {(home / 'platform' / 'local-token').read_text().strip()}"}

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        headers = {**self._token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(f"{self._url}/api/v1/{path}", data, headers, method=method), timeout=60) as response:
            return json.loads(response.read() or b"null")

    def start_notebook(self, name: str) -> float:
        """Returns the seconds to its first answer, and deletes it."""
        begun = time.perf_counter()
        made = self.ask("POST", "notebooks", {"name": name, "image": _IMAGE.name})
        path = f"notebooks/{made['namespace']}/{name}"
        until(lambda: self.ask("GET", path)["state"] == "running")
        host = {"Host": f"{made['uid']}.localhost:{self._port}", **self._token}
        until(lambda: answers(f"{self._url}/api", host))
        taken = time.perf_counter() - begun
        self.ask("DELETE", f"{path}?home=true")
        return taken


def start_alone(program: Path) -> float:
    """Returns the seconds to the first answer of JupyterLab as a process of its own."""
    port = 20000 + os.getpid() % 10000
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        command = [str(program), "lab", "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.port_retries=0"]
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "HOME": folder},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{port}/api", {}))
            if process.poll() is not None:
                sys.exit(f"jupyter lab ended with {process.returncode}; is port {port} in use?")
            return time.perf_counter() - begun
        finally:
            process.terminate()
            process.wait()


def answers(url: str, headers: Mapping[str, str]) -> bool:
    try:
        with urlopen(Request(url, headers=dict(headers)), timeout=10) as response:
            return bool("version" in json.loads(response.read()))
    except (URLError, HTTPException, OSError, ValueError):
        return False


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not done():
        if time.monotonic() > deadline:
            sys.exit("it did not start in time")
        time.sleep(_POLL)


def report(alone: list[float], notebooks: list[float]) -> None:
    print(f"{'seconds to the first answer':32}{'median':>10}{'fastest':>10}{'slowest':>10}")
    for name, times in (("jupyter lab alone", alone), ("a notebook of Muster", notebooks)):
        print(f"{name:32}{statistics.median(times):>10.2f}{min(times):>10.2f}{max(times):>10.2f}")
    print(f"ratio of the medians: {statistics.median(notebooks) / statistics.median(alone):.2f}")


if __name__ == "__main__":
    sys.exit(main())
