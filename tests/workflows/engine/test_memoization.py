from __future__ import annotations

from datetime import timedelta

import pytest

from muster.workflows.model import Outcome
from tests.workflows.engine.simulation import FakeView, Simulation, manifest, run_to_end

TEXT = """
entrypoint: main
templates:
- name: main
  steps: [[{name: a, template: slow}], [{name: b, template: slow}]]
- name: slow
  memoize: {key: "k-{{workflow.parameters.p}}", maxAge: 1h, cache: {configMap: {name: cache}}}
  container: {image: busybox}
  outputs: {parameters: [{name: out, valueFrom: {path: /out}, globalName: final}]}
arguments: {parameters: [{name: p, value: "1"}]}
"""
ANSWER = Outcome("Succeeded", exit_code=0, outputs={"parameters": [{"name": "out", "value": "42"}]})


def test_what_was_answered_once_is_not_asked_again() -> None:
    sim = run_to_end(TEXT, lambda launch: ANSWER)
    assert sim.launched == ["wf[0].a"]
    assert sim.node("a")["memoizationStatus"] == {"hit": False, "key": "k-1", "cacheName": "cache"}
    hit = sim.node("b")
    assert hit["memoizationStatus"] == {"hit": True, "key": "k-1", "cacheName": "cache"}
    assert (hit["type"], hit["phase"], hit["progress"]) == ("Pod", "Succeeded", "1/1")
    assert hit["outputs"]["parameters"][0]["value"] == "42"
    assert [(m.cache, m.key, m.node) for m in sim.memos] == [("cache", "k-1", sim.node("a")["id"])]
    assert sim.run.status["outputs"]["parameters"] == [{"name": "final", "value": "42"}]


@pytest.mark.parametrize(("age", "launched"), [(timedelta(minutes=59), 0), (timedelta(minutes=61), 1)])
def test_answers_grow_old(age: timedelta, launched: int) -> None:
    view = FakeView()
    run_to_end(TEXT, lambda launch: ANSWER, view=view)
    view.now += age
    again = Simulation(manifest(TEXT, "again"), lambda launch: ANSWER, view=view).finish()
    assert again.phase == "Succeeded"
    assert len(again.launched) == launched


def test_failures_are_not_remembered() -> None:
    sim = run_to_end(TEXT, lambda launch: Outcome("Failed"))
    assert sim.memos == []


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("k-{{workflow.parameters.p}}", "no spaces please", "invalid cache key"),
        ("maxAge: 1h", "maxAge: soon", "memoize.maxAge"),
        ("cache: {configMap: {name: cache}}", "cache: {}", "cache.configMap.name"),
    ],
)
def test_memos_that_cannot_be(old: str, new: str, part: str) -> None:
    view = FakeView()
    run_to_end(TEXT, lambda launch: ANSWER, view=view)
    sim = run_to_end(TEXT.replace(old, new), lambda launch: ANSWER, view=view)
    assert sim.phase == "Failed"
    assert part in sim.message


def test_an_entry_that_cannot_be_read_is_an_error() -> None:
    sim = run_to_end(TEXT, lambda launch: ANSWER, view=FakeView(config_maps={"cache": {"k-1": "{"}}))
    assert "malformed cache entry 'k-1'" in sim.message


def test_whole_templates_can_be_remembered() -> None:
    before, after = TEXT.index("  container:"), TEXT.index("arguments:")
    steps = "  steps: [[{name: x, template: leaf}]]\n- {name: leaf, container: {image: busybox}}\n"
    text = TEXT[:before] + steps + TEXT[after:]
    sim = run_to_end(text)
    assert sim.launched == ["wf[0].a[0].x"]
    assert (sim.node("b")["type"], sim.node("b")["phase"]) == ("Steps", "Succeeded")
    assert sim.node("wf")["outboundNodes"] == [sim.node("b")["id"]]


def test_retries_are_remembered_once() -> None:
    text = TEXT.replace("  container:", "  retryStrategy: {limit: 1}\n  container:")
    sim = run_to_end(text, lambda launch: ANSWER)
    assert sim.launched == ["wf[0].a(0)"]
    assert len(sim.memos) == 1
    assert sim.node("b")["type"] == "Retry"
    assert sim.node("b")["outputs"]["parameters"][0]["value"] == "42"
