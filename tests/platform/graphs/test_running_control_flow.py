"""Timeouts, conditions and loops of compiled graphs, run on a complete Muster."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.objects import Object, status_of
from muster.platform.graphs.compile import to_workflow
from muster.platform.graphs.context import AvailableModule, Context
from muster.platform.graphs.model import Document
from muster.platform.runs.status import RunStatus, read_status
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from tests.platform.graphs.samples import graph, node, training
from tests.platform.graphs.test_running import ended, log, run

NASTY = [
    "plain",
    "",
    'it\'s "quoted" \\ `id` $(id) $$ $HOME ; exit 1 #',
    "two\nlines\n",
    "{{workflow.name}} {{=1+1}} {{item}}",
    "(0:x) [b] {c} , 中文 \x07",
]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with run_server(read_settings(tmp_path / "home", {"durability": "process"})) as server:
        yield server.cluster


def text(name: str = "out", path: str = "/tmp/out") -> dict[str, Any]:
    return {"name": name, "path": path}


def output(of: str, name: str = "out") -> dict[str, Any]:
    return {"from": {"node": of, "output": name}}


def compare(left: dict[str, Any], operator: str, right: Any) -> dict[str, Any]:
    return {"left": left, "operator": operator, "right": right if isinstance(right, dict) else {"value": right}}


def only_if(*comparisons: dict[str, Any], match: str = "all") -> dict[str, Any]:
    return {"match": match, "comparisons": list(comparisons)}


def states(status: RunStatus) -> dict[str, tuple[str, str]]:
    return {each.name: (each.state, each.message) for each in status.nodes}


def printed_inputs(workflow: Object, name: str) -> dict[str, str]:
    """The inputs of the node with this path in the Workflow."""
    (found,) = (n for n in status_of(workflow)["nodes"].values() if n["name"].endswith(f".{name}"))
    return {p["name"]: p["value"] for p in found["inputs"]["parameters"]}


async def test_conditions_decide_on_values_that_no_expression_contains(cluster: EmbeddedCluster) -> None:
    evil = "' == '' || true || '{{=1+1}}"
    document = graph(
        node("measure", command="printf 0.91 > /tmp/out; printf %s \"$evil\" > /tmp/evil",
             inputs=[{"name": "evil", "value": evil}], outputs=[text(), text("evil", "/tmp/evil")]),
        node("deploy", condition=only_if(compare(output("measure"), ">=", "0.9")), outputs=[text()],
             command="echo deployed > /tmp/out"),
        node("alarm", condition=only_if(compare(output("measure"), "<", "0.9")), outputs=[text()]),
        node("evil", condition=only_if(compare(output("measure", "evil"), "!=", evil))),
        node("same", condition=only_if(compare(output("measure", "evil"), "==", {"from": {"parameter": "p"}}))),
        node("either", condition=only_if(compare(output("measure", "evil"), ">", "1"),
                                         compare({"from": {"parameter": "p"}}, "contains", "|| true"), match="any")),
        node("report", inputs=[{"name": "x", **output("alarm")}], command="echo $x"),
        node("after", command="echo after"),
        node("join", condition=only_if(compare(output("alarm"), "==", ""),
                                       compare(output("deploy"), "==", "deployed"), match="any")),
        edges="measure>deploy measure>alarm measure>evil measure>same measure>either alarm>report alarm>after "
        "alarm>join deploy>join",
        parameters=[{"name": "p"}],
    )  # fmt: skip
    workflow = await run(cluster, document, p=evil)
    status = read_status(workflow)
    assert status.state == "succeeded", status
    assert states(status) == {
        "measure": ("succeeded", ""),
        "deploy": ("succeeded", ""),
        "alarm": ("skipped", "Skipped because its condition was not met"),
        "evil": ("skipped", "Skipped because its condition was not met"),
        "same": ("succeeded", ""),
        "either": ("succeeded", ""),
        "report": ("skipped", "Skipped because alarm was skipped"),
        "after": ("succeeded", ""),
        "join": ("succeeded", ""),
    }


@pytest.mark.parametrize("source", ["items", "parameter", "output"])
async def test_a_loop_runs_once_per_item(cluster: EmbeddedCluster, source: str) -> None:
    wanted = NASTY if source != "output" else ["a b", 'it\'s "x" $(id) $$', "二"]
    loops = {
        "items": {"items": wanted},
        "parameter": {"from": {"parameter": "list"}, "variable": "item"},
        "output": output("make"),
    }
    document = graph(
        node("make", command='printf %s "$list" > /tmp/out', outputs=[text()],
             inputs=[{"name": "list", "from": {"parameter": "list"}}]),
        node("各项", command='printf %s "$item" > /tmp/out; printf %s "$item" | od -An -tx1 | tr -d " \\n" > /tmp/hex',
             outputs=[text(), text("hex", "/tmp/hex")], loop=loops[source]),
        node("all", command='printf %s "$hex"', inputs=[{"name": "hex", **output("各项", "hex")}]),
        edges="make>各项 各项>all",
        parameters=[{"name": "list"}],
    )  # fmt: skip
    workflow = await run(cluster, document, list=json.dumps(wanted))
    status = read_status(workflow)
    assert status.state == "succeeded", status
    hexes = json.loads(await log(cluster, "all"))
    assert [bytes.fromhex(each).decode() for each in hexes] == wanted
    names = [each.name for each in status.nodes if each.name.startswith("各项(")]
    assert [name.partition(":")[0] for name in names] == [f"各项({number}" for number in range(len(wanted))]
    assert {name: state for name, (state, _) in states(status).items()}["各项"] == "succeeded"


async def test_loops_and_conditions_together(cluster: EmbeddedCluster) -> None:
    document = graph(
        node("count", command='echo "$n" > /tmp/out', outputs=[text()],
             loop={"count": 3, "start": 8, "variable": "n"}),
        node("none", loop={"from": {"parameter": "empty"}}, command="echo $item", outputs=[text()]),
        node("not", loop={"items": ["a", "b"]}, command="echo $item > /tmp/out", outputs=[text()],
             condition=only_if(compare(output("count"), "==", "x"))),
        node("yes", loop={"items": ["a", "b"]}, command="echo $item > /tmp/out", outputs=[text()],
             condition=only_if(compare(output("count"), "contains", "\"8\""))),
        node("second", loop=output("count"), command='test "$item" -ne 9'),
        node("uses", command="echo $x", inputs=[{"name": "x", **output("not")}]),
        node("shows", command="echo $x", inputs=[{"name": "x", **output("yes")}]),
        node("empty", command="echo $x", inputs=[{"name": "x", **output("none")}]),
        edges="count>not count>yes count>second not>uses yes>shows none>empty",
        parameters=[{"name": "empty"}],
    )  # fmt: skip
    status = read_status(await run(cluster, document))
    found = states(status)
    assert status.state == "failed"
    assert status.cause == "second(1:9)"
    assert found["not"] == ("skipped", "Skipped because its condition was not met")
    assert found["uses"] == ("skipped", "Skipped because not was skipped")
    assert found["none"] == ("skipped", "Skipped because its list is empty")
    assert found["empty"] == ("skipped", "Skipped because none was skipped")
    assert found["second"][0] == "failed"
    assert [found[f"second({n}:{n + 8})"][0] for n in range(3)] == ["succeeded", "failed", "succeeded"]
    assert await log(cluster, "shows") == "[a,b]\n" or await log(cluster, "shows") == '["a","b"]\n'


async def test_a_timeout_ends_each_attempt(cluster: EmbeddedCluster) -> None:
    document = graph(
        node("slow", command="sleep 60", timeout="1s", retries=1),
        node("fast", command="true", timeout="1h"),
        node("each", command="sleep $item", timeout="2", loop={"items": ["0", "60"]}),
        training("job", "PyTorchJob", ("Master", 1), command="sleep 60", timeout="2s"),
    )
    status = read_status(await run(cluster, document))
    by_name = {each.name: each for each in status.nodes}
    late = "Ran longer than its timeout of {} seconds"
    assert [attempt.message for attempt in by_name["slow"].attempts] == [late.format(1)] * 2
    assert by_name["fast"].state == "succeeded"
    assert by_name["each(0:0)"].state == "succeeded"
    assert by_name["each(1:60)"].message == late.format(2)
    assert by_name["job"].message == late.format(2)


async def test_modules_and_training_jobs_take_the_item(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import sys\nopen('/tmp/out', 'w').write(sys.argv[1])\n")
    module = AvailableModule("show", "1", "show:1", ("python3", "main.py"), ("text",), folder=str(tmp_path))
    document = graph(
        {"name": "m", "kind": "module", "module": {"name": "show", "version": "1"},
         "loop": {"items": NASTY, "variable": "text"}},
        training("job", "PyTorchJob", ("Master", 1), loop={"items": ["0.1", "{{0.2}}"]},
                 command='case "$item" in 0.1|"{"{0.2}}) ;; *) exit 1;; esac'),
        training("none", "PyTorchJob", ("Master", 1), condition=only_if(compare({"value": "a"}, "==", "b"))),
    )  # fmt: skip
    status = read_status(await run(cluster, document, Context(modules={("show", "1"): module})))
    assert status.state == "succeeded", states(status)
    assert states(status)["none"] == ("skipped", "Skipped because its condition was not met")


async def test_an_export_decides_and_repeats_the_same(cluster: EmbeddedCluster) -> None:
    document: Document = graph(
        node("each", command='echo "$item" > /tmp/out', outputs=[text()], loop={"from": {"parameter": "list"}}),
        node("on", command="echo $x", inputs=[{"name": "x", **output("each")}],
             condition=only_if(compare({"from": {"parameter": "mode"}}, "==", "it's on"))),
        node("off", condition=only_if(compare({"from": {"parameter": "mode"}}, "==", "off"))),
        edges="each>on each>off",
        parameters=[{"name": "list", "default": '["a", "b"]'}, {"name": "mode", "default": "it's on"}],
    )  # fmt: skip
    workflow = to_workflow(document, Context(), "demo")
    created = await cluster.create({**workflow, "metadata": {**workflow["metadata"], "namespace": "default"}})
    status = read_status(await ended(cluster, created))
    assert status.state == "succeeded", states(status)
    assert {name: state for name, (state, _) in states(status).items()} == {
        "each": "succeeded", "each(0:a)": "succeeded", "each(1:b)": "succeeded", "on": "succeeded", "off": "skipped",
    }  # fmt: skip
