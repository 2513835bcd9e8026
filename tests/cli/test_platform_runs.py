"""`muster runs`, `muster clusters` and `muster storage` against a complete Muster, as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Muster
from tests.platform.graphs.samples import graph, node


@pytest.fixture
def files(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    document = graph(
        node(
            "say",
            command=f'echo "hello $who"; cat {place}/wanted',
            inputs=[{"name": "who", "from": {"parameter": "name"}}],
            task={"type": "compute", "cluster": "small"},
            storage=[{"root": "data", "readOnly": True}],
        ),
        parameters=[{"name": "name", "required": True}],
    )
    (tmp_path / "graph.json").write_text(json.dumps(document))
    return tmp_path


def test_the_life_of_a_run(cluster: Muster, files: Path) -> None:
    place = files / "data"
    cluster("clusters", "create", "small", "--sku", "cpu=10m", "--sku", "memory=10M", "--total", "4").ok()
    cluster("storage", "create", "data", str(place), "--read-only").ok()
    assert cluster("clusters", "list").ok().out.splitlines()[1].split() == [
        "small",
        "cpu",
        "10m,",
        "memory",
        "10M",
        "0/4",
    ]
    assert cluster("storage", "list").ok().out.splitlines()[1].split() == ["data", str(place), str(place), "read-only"]
    cluster("workflows", "create", "greet", "-f", str(files / "graph.json")).ok()

    refused = cluster("runs", "create", "greet", "-p", "nmae=Ann")
    assert refused.code == 1
    assert "parameters.nmae: " in refused.err
    tags = ("--tag", "data=june", "--tag", "baseline")
    failed = cluster("runs", "create", "greet", "-p", "name=Ann", "--name", "first", *tags, "--wait")
    assert failed.code == 1
    assert "first: failed (say: " in failed.err
    run = failed.out.strip()
    assert cluster("runs", "logs", run, "say").ok().out.startswith("hello Ann\n")

    (place / "wanted").write_text("now\n")
    cluster("runs", "retry", run, "--wait").ok()
    assert cluster("runs", "logs", run, "say", "-f").ok().out == "hello Ann\nnow\n"
    shown = cluster("runs", "get", run).ok().out
    assert "first (" in shown
    assert "name = Ann" in shown
    assert "say (1)" in shown, "the number of retries"
    assert "tags: baseline, data=june" in shown
    assert cluster("runs", "tag", run, "data=may", "baseline-", "good").ok().out.split() == ["data=may", "good"]
    assert '"a b" is not a tag' in cluster("runs", "tag", run, "a b").err
    detail = cluster("runs", "node", run, "say").ok().out
    assert "1 SKUs of small" in detail
    assert ["who", "text", "Ann"] in [line.split() for line in detail.splitlines()]
    copied = cluster("runs", "copy", run, "-p", "name=Bob", "--wait").ok().out.strip()
    assert cluster("runs", "logs", copied, "say").ok().out == "hello Bob\nnow\n"
    listed = json.loads(cluster("runs", "list", "--workflow", "greet@1", "--state", "succeeded", "--json").ok().out)
    assert [each["id"] for each in listed] == [copied, run]
    cluster("runs", "tag", copied, "data-").ok()
    assert cluster("runs", "tag", copied).ok().out.split() == ["good"], "a copy has the tags of the other run"
    tagged = json.loads(cluster("runs", "list", "--tag", "data", "--tag", "good", "--json").ok().out)
    assert [each["id"] for each in tagged] == [run]

    for each in (run, copied):
        cluster("runs", "delete", each).ok()
    assert cluster("runs", "get", run).code == 1
    cluster("clusters", "edit", "small", "--total", "8").ok()
    assert "of 8 in use" in cluster("clusters", "get", "small").ok().out
    cluster("storage", "edit", "data", "--read-write").ok()
    cluster("clusters", "delete", "small").ok()
    cluster("storage", "delete", "data").ok()


def test_metrics_of_runs_and_jobs(cluster: Muster, tmp_path: Path) -> None:
    step = node("train", command="for i in 1 2 3 4; do echo step $i loss=0.$((9 - i)) acc: nan; done")
    (tmp_path / "graph.json").write_text(json.dumps(graph(step)))
    cluster("workflows", "create", "curves", "-f", str(tmp_path / "graph.json")).ok()
    run = cluster("runs", "create", "curves", "--name", "first", "--wait").ok().out.strip()
    lines = [line.split() for line in cluster("metrics", run).ok().out.splitlines()]
    assert lines == [
        ["METRIC", "OF", "CURVE", "LAST", "MIN", "MAX", "STEP", "POINTS"],
        ["acc", "first/train", "!!!!", "nan", "4", "4"],
        ["loss", "first/train", "█▆▃▁", "0.5", "0.5", "0.8", "4", "4"],
    ]
    assert cluster("metrics", "first", "--tag", "LOSS").ok().out.splitlines()[1].startswith("loss ")
    rows = cluster("metrics", f"{run}/train", "--csv").ok().out.splitlines()
    assert rows[0] == "of,source,tag,step,time,value" and len(rows) == 9
    found = json.loads(cluster("metrics", run, "--json", "--pattern", r"loss=(?P<mine>\S+)").ok().out)
    assert [(each["tag"], each["count"]) for each in found["series"]] == [("mine", 4)]
    assert "missing closing )" in cluster("metrics", run, "--pattern", "(").err
    assert 'no run and no job "nothing"' in cluster("metrics", "nothing").err
