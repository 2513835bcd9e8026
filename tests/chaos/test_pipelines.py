"""kill -9 of the server while pipelines run: no succeeded task runs again, and every run ends right."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.kube.objects import Object, name_of, spec_of, status_of
from muster.kube.remote.client import RemoteCluster
from muster.pipelines.compile import to_workflow
from muster.pipelines.spec import parse_pipeline
from muster.pipelines.status import task_details
from muster.workflows.kinds import WORKFLOW
from tests.chaos.real_server import RealServer, eventually
from tests.chaos.storm import CONFIG

NewServer = Callable[..., RealServer]
RUNS, ITEMS, KILLS = 10, 4, 5
SCRIPT = 'echo "$0" >> /books/book && sleep 0.2 && { test ! -e /books/closed || exit 3; } && printf %s "$0" > "$1"'
"""Notes what it does, and fails while the book is closed."""
CLAIM: Object = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "books", "namespace": "default"},
    "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
}


def _component(**inputs: str) -> dict[str, Any]:
    return {
        "executorLabel": "exec-note",
        "inputDefinitions": {"parameters": {name: {"parameterType": kind} for name, kind in inputs.items()}},
        "outputDefinitions": {"parameters": {"Output": {"parameterType": "STRING"}}},
    }


def _output(producer: str, key: str = "Output") -> dict[str, Any]:
    return {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": key}}


PIPELINE = {
    "pipelineInfo": {"name": "books"},
    "schemaVersion": "2.1.0",
    "components": {
        "comp-note": _component(text="STRING"),
        "comp-join": _component(text="LIST"),
        "comp-loop": {
            "dag": {
                "tasks": {
                    "note": {
                        "componentRef": {"name": "comp-note"},
                        "inputs": {"parameters": {"text": {"componentInputParameter": "item"}}},
                    }
                },
                "outputs": {
                    "parameters": {
                        "all": {"valueFromParameter": {"producerSubtask": "note", "outputParameterKey": "Output"}}
                    }
                },
            },
            "inputDefinitions": {"parameters": {"item": {"parameterType": "STRING"}}},
            "outputDefinitions": {"parameters": {"all": {"parameterType": "LIST"}}},
        },
    },
    "deploymentSpec": {
        "executors": {
            "exec-note": {
                "container": {
                    "image": "busybox",
                    "command": ["sh", "-c", SCRIPT],
                    "args": [
                        "{{$.pipeline_job_name}}:{{$.pipeline_task_name}}:{{$.inputs.parameters['text']}}",
                        "{{$.outputs.parameters['Output'].output_file}}",
                    ],
                }
            }
        }
    },
    "root": {
        "dag": {
            "tasks": {
                "first": {
                    "componentRef": {"name": "comp-note"},
                    "inputs": {"parameters": {"text": {"runtimeValue": {"constant": "x"}}}},
                },
                "loop": {
                    "componentRef": {"name": "comp-loop"},
                    "dependentTasks": ["first"],
                    "parameterIterator": {"itemInput": "item", "items": {"raw": str(list(range(ITEMS)))}},
                },
                "join": {
                    "componentRef": {"name": "comp-join"},
                    "inputs": {"parameters": {"text": _output("loop", "all")}},
                },
            }
        }
    },
}
PLATFORM = {
    "platforms": {
        "kubernetes": {
            "deploymentSpec": {
                "executors": {
                    "exec-note": {
                        "pvcMount": [
                            {"mountPath": "/books", "pvcNameParameter": {"runtimeValue": {"constant": "books"}}}
                        ]
                    }
                }
            }
        }
    }
}


@pytest.mark.smoke
@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_kills_of_the_server_while_ten_pipelines_run(new_server: NewServer) -> None:
    random = Random(1917)
    server = new_server(**CONFIG)
    await server.start()
    pipeline = parse_pipeline({"pipeline_spec": PIPELINE, "platform_spec": PLATFORM})
    async with server.client() as cluster:
        await cluster.create(CLAIM)
        for number in range(RUNS):
            await cluster.create(
                to_workflow(
                    pipeline, run_id=f"{number:010}", display_name=f"r{number}", parameters={}, namespace="default"
                )
            )
        book = await _folder(cluster) / "book"
    tasks = RUNS * (ITEMS + 2)
    for kill in range(KILLS):
        await _grown(book, tasks * (kill + 1) // (KILLS + 2))
        await asyncio.sleep(random.uniform(0.0, 0.2))
        server.kill()
        await server.start()
    async with server.client() as cluster:
        ended = [await _ended(cluster, number) for number in range(RUNS)]
    assert [status_of(workflow)["phase"] for workflow in ended] == ["Succeeded"] * RUNS
    lines = Counter(book.read_text().splitlines())
    assert len(lines) == tasks
    assert set(lines.values()) == {1}
    for number, workflow in enumerate(ended):
        (join,) = [each for each in task_details(workflow, pipeline) if each.display_name == "join"]
        assert join.inputs.parameters["text"] == [f"r{number}:note:{item}" for item in range(ITEMS)]
    assert "Traceback" not in server.log()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_retry_of_a_run_keeps_what_succeeded(new_server: NewServer) -> None:
    server = new_server(**CONFIG)
    await server.start()
    pipeline = parse_pipeline({"pipeline_spec": PIPELINE, "platform_spec": PLATFORM})
    workflow = to_workflow(pipeline, run_id="0" * 10, display_name="r", parameters={}, namespace="default")
    async with server.client() as cluster:
        await cluster.create(CLAIM)
        await cluster.create(workflow)
        folder = await _folder(cluster)
        await _grown(folder / "book", 2)
        (folder / "closed").touch()  # some iterations succeed, others do not
        failed = await _ended(cluster, 0)
        assert status_of(failed)["phase"] == "Failed"
        (folder / "closed").unlink()
        before = {each.node_name for each in task_details(failed) if each.state == "SUCCEEDED"}
        ran = Counter((folder / "book").read_text().splitlines())
        done = server.muster("retry", name_of(workflow))
        assert done.returncode == 0, done.stderr
        ended = await _ended(cluster, 0)
    assert status_of(ended)["phase"] == "Succeeded"
    again = Counter((folder / "book").read_text().splitlines()) - ran
    kept = {name.partition(".")[2] for name in before}
    for item in range(ITEMS):
        assert again[f"r:note:{item}"] == (0 if f"loop({item}).note" in kept else 1)
    assert again["r:first:x"] == (0 if "first" in kept else 1)
    (join,) = [each for each in task_details(ended, pipeline) if each.display_name == "join"]
    assert join.inputs.parameters["text"] == [f"r:note:{item}" for item in range(ITEMS)]


async def _folder(cluster: RemoteCluster) -> Path:
    """Returns where the claim is on this machine."""
    while True:
        claim = await cluster.get(PERSISTENT_VOLUME_CLAIM, "books", "default")
        if spec_of(claim).get("volumeName"):
            volume = await cluster.get(PERSISTENT_VOLUME, spec_of(claim)["volumeName"], "")
            return Path(spec_of(volume)["hostPath"]["path"])
        await asyncio.sleep(0.05)


async def _grown(book: Path, lines: int) -> None:
    await eventually(lambda: book.exists() and len(book.read_text().splitlines()) >= lines)


async def _ended(cluster: RemoteCluster, number: int) -> Object:
    name = name_of(
        to_workflow(
            parse_pipeline(PIPELINE), run_id=f"{number:010}", display_name="", parameters={}, namespace="default"
        )
    )
    while True:
        workflow = await cluster.get(WORKFLOW, name, "default")
        if status_of(workflow).get("phase") in ("Succeeded", "Failed", "Error"):
            return workflow
        await asyncio.sleep(0.2)
