"""`muster workflows ...` against a complete Muster, as users run them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Muster
from tests.platform.graphs.samples import graph, node, seed_example


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "graph.json").write_text(json.dumps(seed_example()))
    changed = graph(node("step1", command="echo $oops"))
    (tmp_path / "other.json").write_text(json.dumps(changed))
    (tmp_path / "bad.json").write_text(json.dumps(graph(node("a", task={"type": "compute", "cluster": "A100"}))))
    return tmp_path


def test_the_life_of_a_workflow(cluster: Muster, files: Path) -> None:
    made = cluster(
        "workflows", "create", "数据 demo", "-f", str(files / "graph.json"), "--description", "the seed's"
    ).ok()
    assert made.out == "数据 demo@1 (v1) created\n"
    added = cluster("workflows", "add", "数据 demo", "-f", str(files / "other.json"), "--name", "worse").ok()
    assert "数据 demo@2 (worse) created" in added.out
    assert "warning: nodes[0].command: the command uses $oops" in added.err

    listed = cluster("workflows", "list", "-q", "demo").ok().out.splitlines()
    assert listed[0].split() == ["NAME", "VERSIONS", "OWNER", "TEAM", "UPDATED"]
    assert listed[1].startswith("数据 demo   2 ")
    versions = cluster("workflows", "versions", "数据 demo").ok().out.splitlines()
    assert [line.split()[:4] for line in versions[1:]] == [["2", "worse", "graph", "1"], ["1", "v1", "graph", "2"]]

    changes = cluster("workflows", "diff", "数据 demo", "1", "2").ok().out
    assert "node step2 removed" in changes
    assert "edge step1 -> step2 removed" in changes

    shown = json.loads(cluster("workflows", "get", "数据 demo@1").ok().out)
    assert shown["nodes"][1]["inputs"][0]["name"] == "step1param1"
    manifest = files / "workflow.yaml"
    cluster("workflows", "get", "数据 demo@v1", "--yaml", "--output-file", str(manifest)).ok()
    assert "kind: Workflow" in manifest.read_text()
    copied = cluster("workflows", "copy", "数据 demo@1", "--as", "fork").ok()
    assert copied.out == "fork@1 (v1) created\n"
    cluster("workflows", "add", "fork", "-f", str(manifest)).ok()

    cluster("workflows", "archive", "fork@2").ok()
    assert "fork" in cluster("workflows", "list").ok().out
    cluster("workflows", "archive", "fork").ok()
    assert "fork" not in cluster("workflows", "list").ok().out
    cluster("workflows", "restore", "fork").ok()
    cluster("workflows", "delete", "fork").ok()
    cluster("workflows", "delete", "数据 demo").ok()


def test_errors_say_what_to_write(cluster: Muster, files: Path) -> None:
    refused = cluster("workflows", "create", "x", "-f", str(files / "bad.json"))
    assert refused.code == 1
    assert 'version.document.nodes[0].task.cluster: there is no virtual cluster "A100"' in refused.err
    checked = cluster("workflows", "check", str(files / "bad.json"))
    assert checked.code == 1
    assert 'error: nodes[0].task.cluster: there is no virtual cluster "A100"' in checked.out
    assert cluster("workflows", "check", str(files / "graph.json")).ok().out == "no mistakes\n"
    missing = cluster("workflows", "get", "nobody")
    assert (missing.code, missing.err) == (1, 'error: there is no workflow "nobody"\n')


def test_without_a_platform_the_error_says_how_to_get_one(muster: Muster) -> None:
    refused = muster("workflows", "list")
    assert refused.code == 1
    assert "muster up" in refused.err
