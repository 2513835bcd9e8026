"""Every Workflow of Argo's examples can be loaded and ends."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.objects import Object
from muster.workflows.model import Launch, Outcome
from tests.workflows.engine.simulation import FakeView, Simulation, manifest


def _folder() -> Path | None:
    """Argo's examples: in the folder that MUSTER_CONFORMANCE names, or next to the project."""
    named = os.environ.get("MUSTER_CONFORMANCE")
    places = [Path(named) / "argo"] if named else [p / "shared/conformance/argo" for p in Path(__file__).parents]
    return next((place for place in places if place.is_dir()), None)


_FOLDER = _folder()
_NEEDS_MORE = {
    "synchronization-db-tmpl-level.yaml": "takes its limit from a database",
    "synchronization-db-wf-level.yaml": "takes its limit from a database",
}
_RESULTS = {"odd-or-even": '{"num": 2, "evenness": "even"}', "divide-by-2": "1"}
_VALUES = {"evenness": "even"}


@cache
def _documents() -> list[tuple[str, Object]]:
    if _FOLDER is None:
        return []
    found = []
    for path in sorted(_FOLDER.rglob("*.yaml")):
        for index, document in enumerate(d for d in yaml.safe_load_all(path.read_text()) if isinstance(d, dict)):
            found.append((f"{path.relative_to(_FOLDER)}{f'#{index}' if index else ''}", document))
    return found


def _workflows() -> list[str]:
    return [name for name, document in _documents() if document.get("kind") == "Workflow"]


def _world() -> FakeView:
    view = FakeView()
    view.config_maps = {"my-config": {"workflow": "1", "template": "2"}, "simple-parameters": {"msg": "hello"}}
    for _, document in _documents():
        kind = document.get("kind")
        if kind in ("WorkflowTemplate", "ClusterWorkflowTemplate"):
            view.templates[document["metadata"]["name"], kind == "ClusterWorkflowTemplate"] = document
        elif kind == "ConfigMap":
            view.config_maps[document["metadata"]["name"]] = document["data"]
    return view


def _answers(document: Object) -> Callable[[Launch], Outcome]:
    """Results are lists where a loop may run over them."""
    return partial(_answer, '["1"]' if "withParam" in str(document) else "1")


def _answer(result: str, launch: Launch) -> Outcome:
    """Returns a plausible outcome with every declared output."""
    if launch.template.get("daemon"):
        return Outcome("Running", ready=True, address="10.0.0.1")
    declared = launch.template.get("outputs") or {}
    step = launch.node["displayName"].partition("(")[0]
    outputs: Any = {
        "parameters": [
            {"name": p["name"], "value": _VALUES.get(p["name"], "1")} for p in declared.get("parameters") or ()
        ],
        "artifacts": [{"name": a["name"], "s3": {"key": f"k/{a['name']}"}} for a in declared.get("artifacts") or ()],
    }
    if launch.wants_result:
        outputs["result"] = _RESULTS.get(step, "heads" if step.startswith("flip") else result)
    return Outcome("Succeeded", exit_code=0, outputs=outputs)


def _resume(sim: Simulation) -> bool:
    """Resumes suspended nodes, as a user would."""
    waiting = [n for n in sim.run.nodes.values() if n["type"] == "Suspend" and n["phase"] == "Running"]
    for node in waiting:
        resumed = copy.deepcopy(node)
        resumed["phase"] = "Succeeded"
        for parameter in (resumed.get("outputs") or {}).get("parameters") or ():
            parameter.pop("valueFrom", None)
            parameter["value"] = "yes"
        sim.stored[node["id"]] = resumed
    if waiting:
        sim.restart()
        sim.step()
    return bool(waiting)


@pytest.mark.skipif(_FOLDER is None, reason="Argo's examples are not here (shared/conformance/argo)")
@pytest.mark.parametrize("name", _workflows())
@pytest.mark.parametrize("reload", [False, True], ids=["", "restarted"])
def test_an_example_comes_to_an_end(name: str, reload: bool) -> None:
    document = dict(_documents())[name]
    sim = Simulation(manifest(yaml.safe_dump(document)), _answers(document), view=_world(), reload=reload)
    sim.finish(200)
    while not sim.run.finished and _resume(sim):
        sim.finish(200)
    assert sim.run.finished, sim.names()
    assert "internal error" not in sim.message
    if name in _NEEDS_MORE:
        assert _NEEDS_MORE[name] in sim.message
        return
    wrong = {n["name"]: n.get("message") for n in sim.run.nodes.values() if n["phase"] == "Error"}
    assert not wrong or name in ("recursive-for-loop.yaml",), wrong
    assert sim.phase == "Succeeded" or name == "recursive-for-loop.yaml", sim.message
