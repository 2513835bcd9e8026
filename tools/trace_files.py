"""Counts the source files of Muster that one task crosses.

    python -m tools.trace_files [--source FOLDER] [--list] [TASK...]

The tasks are a PyTorchJob from its manifest to its exit code (`pytorchjob`), an Argo workflow (`workflow`) and a run of
a platform workflow (`run`). Each task gets a new cluster.

A task crosses a file if it calls a function of that file in any process: the command, the server, the zygote or a
supervisor. A function that an import calls (a decorator, for example) does not count. "WITH START" adds the files that
the start of the server crosses. "IMPORTED" counts all files that were loaded.

The zygote starts with `python -I -S`, which ignores the environment and `sitecustomize`. So the tool copies the package
to a temporary folder and adds the tracer to the copy's `__init__.py`. The tracer marks files in a memory map, which
outlives a fork, closed file descriptors and a changed root folder.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).parent.parent / "src" / "muster"
IMPORTED, CALLED = 1, 2
SETTLE_SECONDS = 3.0
TIMEOUT_SECONDS = 180.0

TRACER = """

def _start_tracer() -> None:
    import mmap, sys, threading
    marks_file, folder, names = {marks!r}, {folder!r}, {names!r}
    with open(marks_file, "r+b") as file:
        marks = mmap.mmap(file.fileno(), 0)
    numbers = {{folder + name: number for number, name in enumerate(names)}}
    inline = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

    def is_import(frame):
        while frame is not None:
            code = frame.f_code
            if code.co_name == "<module>" and code.co_filename in numbers and frame.f_globals["__name__"] != "__main__":
                return True
            frame = frame.f_back
        return False

    def profile(frame, event, argument):
        if event == "call":
            code = frame.f_code
            number = numbers.get(code.co_filename)
            if number is not None and marks[number] < 2:
                # Bodies of modules and classes have no CO_OPTIMIZED flag; comprehensions run wherever they are written.
                is_function = code.co_flags & 1 and code.co_name not in inline
                marks[number] |= 2 if is_function and not is_import(frame) else 1

    sys.setprofile(profile)
    threading.setprofile(profile)


_start_tracer()
"""

PYTORCHJOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: trace}
spec:
  pytorchReplicaSpecs:
    Master: &replica
      replicas: 1
      restartPolicy: OnFailure
      template:
        spec:
          containers:
            - {name: pytorch, image: busybox, command: [sh, -c, 'echo "rank $RANK of $WORLD_SIZE"']}
    Worker: *replica
"""

WORKFLOW = """
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: trace-}
spec:
  entrypoint: main
  templates:
    - name: main
      dag:
        tasks:
          - {name: produce, template: produce}
          - name: consume
            template: consume
            depends: produce
            arguments: {parameters: [{name: text, value: '{{tasks.produce.outputs.result}}'}]}
    - name: produce
      container: {image: busybox, command: [sh, -c, echo hello]}
    - name: consume
      inputs: {parameters: [{name: text}]}
      container: {image: busybox, command: [sh, -c, 'echo "got {{inputs.parameters.text}}"']}
"""

GRAPH = {
    "format": 1,
    "nodes": [
        {
            "name": "produce",
            "image": "busybox",
            "command": "echo hello > /tmp/text",
            "outputs": [{"name": "text", "path": "/tmp/text", "type": "text"}],  # noqa: S108 (a path in the container)
        },
        {
            "name": "consume",
            "image": "busybox",
            "command": 'echo "got $text"',
            "inputs": [{"name": "text", "from": {"node": "produce", "output": "text"}}],
        },
    ],
    "edges": [{"from": "produce", "to": "consume"}],
}


@dataclass(frozen=True)
class Task:
    title: str
    files: dict[str, str]
    prepare: Sequence[Sequence[str]]
    """Commands that run before the count begins."""
    command: Sequence[str]


TASKS = {
    "pytorchjob": Task("PyTorchJob", {"job.yaml": PYTORCHJOB}, (), ("run", "job.yaml")),
    "workflow": Task("Argo workflow", {"workflow.yaml": WORKFLOW}, (), ("submit", "workflow.yaml", "--wait")),
    "run": Task(
        "platform run",
        {"graph.json": json.dumps(GRAPH)},
        (("workflows", "create", "trace", "-f", "graph.json"),),
        ("runs", "create", "trace", "--wait"),
    ),
}


class TracedPackage:
    """A copy of the package whose processes mark the files that they execute."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        package = folder / "muster"
        shutil.copytree(source, package, ignore=shutil.ignore_patterns("__pycache__", "ui"))
        self.names = sorted(str(path.relative_to(folder)) for path in package.rglob("*.py"))
        marks_file = folder / "marks"
        marks_file.write_bytes(bytes(len(self.names)))
        with (package / "__init__.py").open("a") as file:
            file.write(TRACER.format(marks=str(marks_file), folder=f"{folder}/", names=self.names))
        with marks_file.open("r+b") as marks:
            self._marks = mmap.mmap(marks.fileno(), 0)

    def clear(self) -> None:
        self._marks[:] = bytes(len(self.names))

    def find_files(self, mark: int) -> list[str]:
        return [name for name, marks in zip(self.names, self._marks[:], strict=True) if marks & mark]


class TracedCommand:
    """The `muster` command of a traced package, with its own data directory."""

    def __init__(self, package: TracedPackage, folder: Path) -> None:
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": str(package.folder), "MUSTER_HOME": str(folder / "home")}

    def __call__(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "muster", *words],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        if done.returncode:
            raise SystemExit(f"muster {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


@contextmanager
def running_cluster(package: TracedPackage, folder: Path) -> Iterator[TracedCommand]:
    muster = TracedCommand(package, folder)
    muster("up", "-d")
    try:
        time.sleep(SETTLE_SECONDS)  # what a server does once after its start is not part of the task
        yield muster
    finally:
        muster("down")


def trace(task: Task, source: Path) -> tuple[list[str], int, int]:
    """Returns the files crossed by the task, the number of those the server's start crosses, and of those imported."""
    with TemporaryDirectory(prefix="muster-trace-") as temporary:
        folder = Path(temporary)
        package = TracedPackage(source, folder / "package")
        for name, text in task.files.items():
            (folder / name).write_text(text)
        with running_cluster(package, folder) as muster:
            for command in task.prepare:
                muster(*command)
            started = set(package.find_files(CALLED))
            imported = set(package.find_files(IMPORTED))
            package.clear()
            muster(*task.command)
            crossed = package.find_files(CALLED)
            imported |= set(package.find_files(IMPORTED))
        return crossed, len(started | set(crossed)), len(imported)


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the source files that one task crosses.")
    parser.add_argument("tasks", nargs="*", choices=[*TASKS, []], metavar="TASK", help=f"of {', '.join(TASKS)}; all")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the package's folder; default: this checkout's")
    parser.add_argument("--list", action="store_true", help="print the files, too")
    options = parser.parse_args()
    total = sum(1 for path in options.source.rglob("*.py"))
    print(f"{total} source files")
    print(f"{'TASK':<16}{'CROSSED':>10}{'WITH START':>12}{'IMPORTED':>10}")
    for name in options.tasks or TASKS:
        task = TASKS[name]
        crossed, with_start, imported = trace(task, options.source)
        print(f"{task.title:<16}{len(crossed):>10}{with_start:>12}{imported:>10}", flush=True)
        if options.list:
            print("".join(f"  {file}\n" for file in crossed))


if __name__ == "__main__":
    main()
