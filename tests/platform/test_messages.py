"""The message catalog, and the same messages in the Chinese web UI."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from muster.dispatch import Capacity, Job, JobFault, NoCapacity, Resources, Retry, Transient, Unclear
from muster.dispatch.admission import Candidate, Limits, admit, demand_of
from muster.dispatch.aihc.request import STATES as AIHC_STATES
from muster.dispatch.aihc.request import describe_status as aihc_status
from muster.dispatch.lifecycle import (
    CancelRequested,
    Cleaned,
    Described,
    Finished,
    StartFailed,
    StopSent,
    advance,
    resolved,
    restarted,
)
from muster.dispatch.model import JobDescription, OnUnclear, State, Tracking
from muster.dispatch.timaker.task import STATES as TIMAKER_STATES
from muster.dispatch.timaker.task import describe_status as timaker_status
from muster.kube.pod_diagnosis import diagnose_pod
from muster.platform.messages import CATALOG, catalog_document, field_error, make_finding
from muster.platform.status_messages import PHRASES, SENTENCES, explain, format_parts

ROOT = Path(__file__).parents[2]
CHINESE: dict[str, list[str]] = json.loads((ROOT / "ui/src/i18n/server-messages.zh.json").read_text(encoding="utf-8"))
ENGLISH = {
    **{code: template.message + template.fix for code, template in CATALOG.items()},
    **SENTENCES,
    **PHRASES,
    "text": "{text}",
    "about": "{name}: ",
}


def values_in(text: str) -> set[str]:
    return set(re.findall(r"(?<!\{)\{(\w+)\}", text))


def test_every_message_is_translated() -> None:
    assert CHINESE.keys() == ENGLISH.keys()


@pytest.mark.parametrize("code", ENGLISH)
def test_a_translation_uses_only_known_values(code: str) -> None:
    message, fix = CHINESE[code]
    assert values_in(message + fix) <= values_in(ENGLISH[code])


def test_the_document_is_generated_from_the_catalog() -> None:
    """To update it: python -m muster.platform.messages > docs/messages.json"""
    assert json.loads((ROOT / "docs/messages.json").read_text()) == catalog_document()


@pytest.mark.parametrize("code", sorted({c for c in CATALOG if c.endswith(".name")} - {"image.name"}))
def test_an_empty_name_is_asked_for(code: str) -> None:
    assert field_error("name", code, name="", most=63).message == "enter a name"
    assert make_finding("name", code, name="", most=63).code == "name.missing"
    assert make_finding("name", code, name="/", most=63).code == code


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("", []),
        ("train: No more retries left", ["about", "status.retries-used"]),
        ("main: Error (exit code 1): boom", ["about", "status.error-exit", "text"]),
        (
            "PyTorchJob j is failed because 1 Worker replica(s) failed. Pod j-worker-0, container main: exit code 3",
            ["status.job-failed", "text", "status.pod-exit"],
        ),
        (
            "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; minResources not met: "
            "nvidia.com/gpu: 4 asked, 2 free",
            ["status.gang-unschedulable", "status.gang-not-ready", "status.gang-resources", "status.resource-amount"],
        ),
        (
            "Unschedulable: 0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu.",
            ["about", "status.no-nodes", "status.insufficient", "text", "status.insufficient", "text"],
        ),
        (
            "0/1 nodes are available: 1 node(s) had capacity kept for waiting Pod user-ann/serve-1.",
            ["status.no-nodes", "status.capacity-kept", "text"],
        ),
        ("Downloading jupyterlab (package 3)", ["status.environment-downloads"]),
        ("TFJob t is restarting because Worker replica(s) failed.", ["status.job-restarting"]),
        ("train failed", ["status.node-failed"]),
        ("Skipped because train the model failed", ["status.skipped-failed"]),
        ("Stopped by ann", ["status.stopped-by"]),
        ("what a program printed", ["text"]),
        ("a: " * 600 + "b", ["text"]),
        ("x" * 5000, ["text"]),
    ],
)
def test_a_status_message_has_parts_that_are_codes_with_values(text: str, codes: list[str]) -> None:
    parts = explain(text)
    assert [part.code for part in parts] == codes
    assert format_parts(parts) == text, "nothing is lost"


@pytest.mark.parametrize(
    ("exit_code", "reason", "code"),
    [
        (137, "OOMKilled", "status.memory"),
        (126, "Error", "status.not-executable"),
        (127, "Error", "status.no-command"),
        (134, "Error", "status.aborted"),
        (137, "Error", "status.killed"),
        (139, "Error", "status.segfault"),
        (143, "Error", "status.terminated"),
    ],
)
def test_messages_about_containers_are_known(exit_code: int, reason: str, code: str) -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": exit_code, "reason": reason}}}
    (text,) = diagnose_pod({"status": {"phase": "Failed", "containerStatuses": [ended]}})
    found = [part.code for part in explain(text) if part.code != "text"]
    assert found == ["status.container-exit", code], text


def test_messages_about_waiting_pods_are_known() -> None:
    (text,) = diagnose_pod({"status": {"phase": "Pending"}})
    assert [part.code for part in explain(text)] == ["status.no-node"], text


def reasons_of_jobs() -> Iterator[str]:
    """What the dispatcher says about jobs, from its own code."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    job = Job("1m7", "train", {}, "aihc", "starting", now, external_name="train-1m7-1", retry=Retry(2))
    yield restarted(replace(job, state="failed"), now).reason
    for error in (NoCapacity("the queue is full"), Unclear("connection reset; no answer")):
        for finds, on_unclear in ((True, "hold"), (False, "hold"), (False, "again")):
            fault = JobFault("x", error.message)
            yield advance(job, StartFailed(error, fault, finds, cast(OnUnclear, on_unclear)), now).reason
    held = replace(job, tracking=Tracking(sent=True, unclear=True, on_hold=True))
    for how in ("again", "adopt"):
        yield resolved(held, how, "x-1", now).reason
    for before in (job, held, replace(job, state="waiting"), replace(job, state="running")):
        yield advance(before, CancelRequested(), now).reason
    running = replace(job, state="running", external_id="job-1", timeout=5, started=now - timedelta(seconds=9))
    yield advance(running, Described(None), now).reason
    yield advance(replace(running, tracking=Tracking(lost_since=now - timedelta(hours=1))), Described(None), now).reason
    yield advance(running, Described(JobDescription("running")), now).reason
    yield advance(running, Described(JobDescription("cancelled")), now).reason
    stopping = replace(running, state="stopping", fault=JobFault("x", "exit code 1", retryable=True))
    yield advance(stopping, StopSent(Transient("gateway is down")), now).reason
    yield advance(replace(stopping, tracking=Tracking(off_cluster=True)), Cleaned(), now).reason
    yield advance(replace(running, state="submitting"), Finished(note="clean failed: ValueError: no"), now).reason

    def waiting(**more: Any) -> Candidate:
        return Candidate("2", "train", "shop", "aihc", 0, now, demand_of(Resources(gpu=2)))._replace(**more)

    few, none = Capacity({"gpu": 4}, {"gpu": 1}), Capacity({"gpu": 1}, {"gpu": 1})
    cases: list[tuple[Candidate, dict[str, Capacity | None], Limits]] = [
        (waiting(), {"aihc": few}, {}),
        (waiting(), {"aihc": none}, {}),
        (waiting(), {}, {}),
        (waiting(at=now + timedelta(hours=1)), {"aihc": None}, {}),
        (waiting(next_at=now + timedelta(hours=1)), {"aihc": None}, {}),
        (waiting(after=("7",)), {"aihc": None}, {}),
        (waiting(after=("7", "8")), {"aihc": None}, {}),
        (waiting(), {"aihc": None}, {"train": 0}),
        (waiting(), {"aihc": None}, {("shop", "train"): 0}),
    ]
    for candidate, capacity, limits in cases:
        states: dict[str, State] = {"7": "running", "8": "running"}
        yield from admit([candidate], now=now, capacity=capacity, limits=limits, dependencies=states).reasons.values()
    for state in ("failed", "cancelled"):
        lost: dict[str, State] = {"7": state}
        faults = admit([waiting(after=("7",))], now=now, capacity={"aihc": None}, dependencies=lost).faults
        yield from (fault.message for fault in faults.values())
    for status in AIHC_STATES:
        yield aihc_status(status, "q-1")
    for status in TIMAKER_STATES:
        yield timaker_status(status)
    yield aihc_status("Dreaming", "q-1")
    yield timaker_status("Dreaming")


def test_reasons_of_dispatched_jobs_are_known() -> None:
    unknown = [text for text in reasons_of_jobs() if text and explain(text)[0].code in ("text", "about")]
    assert unknown == []
    assert len(set(reasons_of_jobs())) > 40
