"""Compiled graphs run on a complete Muster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.cluster import EmbeddedCluster
from muster.kube.builtin import POD
from muster.kube.objects import Object, annotations_of, name_of, status_of
from muster.platform.graphs.compile import compile_run, secret_for, to_workflow
from muster.platform.graphs.context import AvailableModule, Context
from muster.platform.graphs.model import Document
from muster.server.embedded_server import run_server
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW
from tests.platform.graphs.samples import RUN, SEED_LOG, graph, node, seed_example, training

NASTY = "a b\"c' $HOME `id` $(id) $$ ; exit 1 #\n{{workflow.name}} {{=1+1}} 中"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with run_server(read_settings(tmp_path / "home", {"durability": "process"})) as server:
        yield server.cluster


async def run(
    cluster: EmbeddedCluster, document: Document, context: Context | None = None, **parameters: str
) -> Object:
    """Returns the Workflow when it has ended."""
    context = context or Context()
    wanted = replace(RUN, parameters=parameters)
    await cluster.create(secret_for(document, wanted, context, "mst_token"))
    return await ended(cluster, await cluster.create(compile_run(document, wanted, context)))


async def ended(cluster: EmbeddedCluster, workflow: Object) -> Object:
    async with asyncio.timeout(60):
        while True:
            found = await cluster.get(WORKFLOW, name_of(workflow), "default")
            if status_of(found).get("phase") in ("Succeeded", "Failed", "Error"):
                return cluster.with_status_rows(found)
            await asyncio.sleep(0.05)


async def log(cluster: EmbeddedCluster, task: str) -> str:
    """Returns the log of a task's Pod."""
    pods = (await cluster.list(POD, namespace="default")).items
    (pod,) = (p for p in pods if annotations_of(p).get("workflows.argoproj.io/node-name", "").endswith(f".{task}"))
    return await printed(cluster, name_of(pod))


async def printed(cluster: EmbeddedCluster, pod: str) -> str:
    return b"".join([line async for line in cluster.logs(pod, "default")]).decode()


async def test_the_example_prints_its_five_lines(cluster: EmbeddedCluster) -> None:
    workflow = await run(cluster, seed_example())
    assert status_of(workflow)["phase"] == "Succeeded"
    assert (await log(cluster, "step2")).splitlines() == SEED_LOG


async def test_an_export_runs_by_itself(cluster: EmbeddedCluster) -> None:
    workflow = to_workflow(seed_example(), Context(), "demo")
    created = await cluster.create({**workflow, "metadata": {**workflow["metadata"], "namespace": "default"}})
    assert status_of(await ended(cluster, created))["phase"] == "Succeeded"
    assert (await log(cluster, "step2")).splitlines() == SEED_LOG


async def test_values_arrive_unchanged(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import sys\nprint(sys.argv[1:])\n")
    module = AvailableModule("show", "1", "show:1", ("python3", "main.py"), ("text", "more"), folder=str(tmp_path))
    document = graph(
        node(
            "a",
            command='printf %s "$text" > /tmp/same; printf "%s|" "$text" "$E" "$(pwd)" "$AI_HUB_TOKEN"; '
            "echo '{{pod.name}}'",
            inputs=[{"name": "text", "from": {"parameter": "p"}}],
            env=[{"name": "E", "value": NASTY}],
            outputs=[{"name": "same", "path": "/tmp/same"}],
        ),
        {
            "name": "m",
            "kind": "module",
            "module": {"name": "show", "version": "1"},
            "inputs": [
                {"name": "text", "from": {"parameter": "p"}},
                {"name": "more", "from": {"node": "a", "output": "plain"}},
            ],
        },
        edges="a>m",
        parameters=[{"name": "p"}],
    )
    document["nodes"][0]["outputs"].append({"name": "plain", "path": "/tmp/plain"})
    document["nodes"][0]["command"] += "; printf '%s' 'x $$ $(y) \"z' > /tmp/plain"
    workflow = await run(cluster, document, Context(modules={("show", "1"): module}), p=NASTY)
    assert status_of(workflow)["phase"] == "Succeeded", status_of(workflow)
    assert await log(cluster, "a") == f"{NASTY}|{NASTY}|/tmp/workflow_space|mst_token|{{{{pod.name}}}}\n"
    words = [f"--text={NASTY}", '--more=x $$ $(y) "z']
    assert await log(cluster, "m") == f"{words!r}\n"


async def test_the_error_names_an_output_of_1000_characters(cluster: EmbeddedCluster) -> None:
    write = "head -c {} /dev/zero | tr '\\0' x > /tmp/long"
    fits = graph(node("a", command=write.format(999), outputs=[{"name": "long", "path": "/tmp/long"}]))
    assert status_of(await run(cluster, fits))["phase"] == "Succeeded"
    more = graph(node("a", command=write.format(1000), outputs=[{"name": "long", "path": "/tmp/long"}]))
    again = replace(RUN, id="r2", name="run-2")
    workflow = await ended(cluster, await cluster.create(compile_run(more, again, Context())))
    assert status_of(workflow)["phase"] == "Error"
    (failed,) = (n for n in _nodes(workflow) if n["displayName"] == "a")
    assert "output parameter 'long'" in failed["message"]
    assert "1000 characters" in failed["message"]


async def test_a_training_job_reads_and_writes_files(cluster: EmbeddedCluster) -> None:
    document = graph(
        node(
            "数据",
            command="mkdir /tmp/data; echo 1 > /tmp/data/x; echo 0.1 > /tmp/lr",
            outputs=[
                {"name": "data", "path": "/tmp/data", "type": "file"},
                {"name": "lr", "path": "/tmp/lr", "type": "text"},
            ],
        ),
        training(
            "train",
            "JAXJob",
            ("Worker", 2),
            command='echo "$PROCESS_ID $NUM_PROCESSES $lr $(cat $data/x)" > part-$PROCESS_ID',
            inputs=[
                {"name": "data", "from": {"node": "数据", "output": "data"}},
                {"name": "lr", "from": {"node": "数据", "output": "lr"}},
            ],
            outputs=[
                {"name": "zero", "path": "/tmp/workflow_space/part-0"},
                {"name": "one", "path": "/tmp/workflow_space/part-1", "type": "file"},
            ],
        ),
        node(
            "show",
            command='echo "$zero"; cat $one',
            inputs=[
                {"name": "zero", "from": {"node": "train", "output": "zero"}},
                {"name": "one", "from": {"node": "train", "output": "one"}},
            ],
        ),
        edges="数据>train train>show",
    )
    workflow = await run(cluster, document)
    assert status_of(workflow)["phase"] == "Succeeded", _nodes(workflow)
    assert await log(cluster, "show") == "0 2 0.1 1\n1 2 0.1 1\n"


async def test_a_failed_training_job_fails_its_node(cluster: EmbeddedCluster) -> None:
    document = graph(training("train", "JAXJob", ("Worker", 2), command="exit 3"), node("after"), edges="train>after")
    workflow = await run(cluster, document)
    assert status_of(workflow)["phase"] == "Failed"
    phases = {n["displayName"]: n["phase"] for n in _nodes(workflow)}
    assert (phases["train"], phases["after"]) == ("Failed", "Omitted")


def _nodes(workflow: Object) -> list[dict[str, Any]]:
    return list((status_of(workflow).get("nodes") or {}).values())
