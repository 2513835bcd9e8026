"""The engine does no I/O, and takes time and randomness only from what it is given."""

from __future__ import annotations

import ast
import random
import time
from pathlib import Path

import pytest

from muster.workflows.engine import clock
from tests.workflows.engine.simulation import Simulation

MODULES = sorted(Path(clock.__file__).parent.glob("*.py"))
FORBIDDEN_IMPORTS = {
    "asyncio", "builtins", "contextvars", "functools", "io", "os", "pathlib", "random", "secrets", "socket",
    "subprocess", "sys", "tempfile", "threading", "time", "uuid",
}  # fmt: skip
ALLOWED = {("clock.py", "random")}
"""It defines the generator that is seeded with the names of nodes."""
FORBIDDEN_METHODS = {"now", "utcnow", "today", "time", "time_ns", "monotonic", "uuid4", "SystemRandom"}
FORBIDDEN_FUNCTIONS = {"open", "print", "input", "eval", "exec"}

WORKFLOW = """
metadata: {name: wf}
spec:
  entrypoint: main
  templates:
  - name: main
    steps:
    - - name: roll
        template: work
        withSequence: {count: "3"}
  - name: work
    inputs:
      parameters:
      - {name: text, value: "{{=sprig.randAlphaNum(8)}} {{=sprig.uuidv4()}} {{=string(now().Unix())}}"}
    retryStrategy: {limit: 1}
    container: {image: busybox, args: ["{{inputs.parameters.text}}"]}
"""


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.name)
def test_nothing_impure_is_imported_or_called(module: Path) -> None:
    problems = []
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0]}
        else:
            names = set()
        problems += [name for name in names & FORBIDDEN_IMPORTS if (module.name, name) not in ALLOWED]
        if isinstance(node, ast.Global):
            problems.append(f"global {', '.join(node.names)}")
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(attr=name) if name in FORBIDDEN_METHODS:
                    problems.append(name)
                case ast.Name(id=name) if name in FORBIDDEN_FUNCTIONS:
                    problems.append(name)
    assert problems == []


def texts(run: Simulation) -> dict[str, str]:
    found = {}
    for node in run.stored.values():
        for parameter in (node.get("inputs") or {}).get("parameters") or ():
            found[node["name"]] = parameter["value"]
    return found


def test_time_and_randomness_are_handed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = Simulation(WORKFLOW)
    expected.finish()

    def refuse(*_: object) -> None:
        raise AssertionError("the engine must not ask the operating system")

    for module, name in ((time, "time"), (time, "time_ns"), (time, "monotonic"), (random, "_urandom")):
        monkeypatch.setattr(module, name, refuse)
    for reload in (False, True):
        run = Simulation(WORKFLOW, reload=reload)
        run.finish()
        assert texts(run) == texts(expected)
    assert len(set(texts(expected).values())) == 3
