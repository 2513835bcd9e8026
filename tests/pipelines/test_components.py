"""Components as real Pods: what a container finds, and what becomes of what it leaves."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.embedded.node.isolation import probe_isolation
from muster.kube.builtin import PERSISTENT_VOLUME_CLAIM
from muster.kube.objects import Object, name_of, status_of
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from muster.pipelines.compile import to_workflow
from muster.pipelines.resolver import node_outputs
from muster.pipelines.spec import parse_pipeline, read_pipeline
from muster.pipelines.task import TaskOutputs
from muster.server.embedded_server import RunningServer, run_server
from muster.server.settings import read_settings
from muster.workflows.kinds import WORKFLOW

ISOLATION, WHY = probe_isolation()
pytestmark = pytest.mark.skipif(ISOLATION == "none", reason=WHY)
EXAMPLES = Path(__file__).parents[2] / "examples/pipelines"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with run_server(read_settings(tmp_path / "home", {"durability": "process"})) as found:
        yield found


async def run(
    server: RunningServer, pipeline: Any, parameters: dict[str, Any] | None = None, namespace: str = "default"
) -> Object:
    """Runs a pipeline and returns its Workflow when it has ended."""
    workflow = to_workflow(
        pipeline, run_id=str(uuid.uuid4()), display_name="a run", parameters=parameters or {}, namespace=namespace
    )
    made = await server.cluster.create(workflow)
    async with asyncio.timeout(300):
        async for event in server.cluster.watch(
            WORKFLOW,
            namespace,
            fields=f"metadata.name={name_of(made)}",
            resource_version=made["metadata"]["resourceVersion"],
        ):
            if status_of(event.object).get("phase") in ("Succeeded", "Failed", "Error"):
                return server.cluster.with_status_rows(event.object)
    raise AssertionError("the watch ended")


def outputs(workflow: Object) -> dict[str, TaskOutputs]:
    nodes = (status_of(workflow).get("nodes") or {}).values()
    return {node["displayName"]: node_outputs(node) for node in nodes}


def problem(workflow: Object) -> str:
    return str(status_of(workflow).get("message") or "")


def component(script: str, *args: str, **definitions: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a component and its executor: a shell script with arguments."""
    container = {"image": "debian", "command": ["sh", "-ec", script, "sh"], "args": list(args)}
    return definitions, {"container": container}


def pipeline(tasks: dict[str, Any], **parts: tuple[dict[str, Any], dict[str, Any]]) -> Any:
    components = {f"comp-{name}": {**made[0], "executorLabel": f"exec-{name}"} for name, made in parts.items()}
    return parse_pipeline(
        {
            "pipelineInfo": {"name": "contract"},
            "schemaVersion": "2.1.0",
            "components": components,
            "deploymentSpec": {"executors": {f"exec-{name}": made[1] for name, made in parts.items()}},
            "root": {
                "dag": {
                    "tasks": {
                        key: {"componentRef": {"name": f"comp-{key}"}, "taskInfo": {"name": key}, **task}
                        for key, task in tasks.items()
                    }
                }
            },
        }
    )


def parameters(**types: str) -> dict[str, Any]:
    return {"parameters": {name: {"parameterType": kind} for name, kind in types.items()}}


def artifacts(*names: str, **types: str) -> dict[str, Any]:
    titles = {**dict.fromkeys(names, "system.Artifact"), **types}
    return {"artifacts": {name: {"artifactType": {"schemaTitle": title}} for name, title in titles.items()}}


def of_task(task: str, name: str) -> dict[str, Any]:
    return {"taskOutputArtifact": {"producerTask": task, "outputArtifactKey": name}}


WRITE = component(
    'echo 5 > "$1"; printf "[1, 2]" > "$2"; echo data > "$3"; mkdir "$4"; echo part > "$4/0"; test ! -e "$5"',
    "{{$.outputs.parameters['number'].output_file}}",
    "{{$.outputs.parameters['list'].output_file}}",
    "{{$.outputs.artifacts['file'].path}}",
    "{{$.outputs.artifacts['folder'].path}}",
    "{{$.outputs.artifacts['nothing'].path}}",
    outputDefinitions={
        **parameters(number="NUMBER_INTEGER", list="LIST"),
        **artifacts("file", "folder", "nothing"),
    },
)
READ = component(
    'test "$(cat "$1")" = data; test "$(cat "$2/0")" = part; test ! -e "$3"; echo "it is $4" > "$5"',
    "{{$.inputs.artifacts['file'].path}}",
    "{{$.inputs.artifacts['folder'].path}}",
    "{{$.inputs.artifacts['nothing'].path}}",
    "{{$.inputs.parameters['number']}}",
    "{{$.outputs.parameters['text'].output_file}}",
    inputDefinitions={**parameters(number="NUMBER_INTEGER"), **artifacts("file", "folder", "nothing")},
    outputDefinitions=parameters(text="STRING"),
)
LAZY = component("true", outputDefinitions=parameters(text="STRING"))


async def test_what_one_component_writes_another_one_reads(server: RunningServer) -> None:
    """Folders of outputs are there, outputs are not; files become typed values; an artifact may be a file, a folder, or
    missing. And a component that does not write a parameter fails."""
    number = {"taskOutputParameter": {"producerTask": "write", "outputParameterKey": "number"}}
    inputs = {
        "parameters": {"number": number},
        "artifacts": {name: of_task("write", name) for name in ("file", "folder", "nothing")},
    }
    made = pipeline({"write": {}, "read": {"inputs": inputs, "dependentTasks": ["write"]}}, write=WRITE, read=READ)
    workflow = await run(server, made)
    assert status_of(workflow)["phase"] == "Succeeded", problem(workflow)
    found = outputs(workflow)
    assert found["write"].parameters == {"number": 5, "list": [1, 2]}
    assert found["read"].parameters == {"text": "it is 5"}
    [artifact] = found["write"].artifacts["file"]
    assert artifact.uri.startswith("minio://mlpipeline/v2/artifacts/contract/")
    logs = [
        artifact["name"]
        for node in status_of(workflow)["nodes"].values()
        for artifact in (node.get("outputs") or {}).get("artifacts") or ()
    ]
    assert logs.count("main-logs") == 2

    lazy = await run(server, pipeline({"lazy": {}}, lazy=LAZY))
    assert status_of(lazy)["phase"] == "Failed"
    assert 'did not write its output parameter "text"' in problem(lazy)


LIGHTWEIGHT = """
import kfp
from kfp import dsl
from kfp.dsl import *
from typing import *

def summarize(rows: List[int], table: Output[Dataset], metrics: Output[Metrics]) -> NamedTuple("R", [("total", int)]):
    with open(table.path, "w") as file:
        file.write("\\n".join(map(str, rows)))
    table.metadata["rows"] = len(rows)
    metrics.log_metric("mean", sum(rows) / len(rows))
    return (sum(rows),)
"""


def lightweight(source: str, function: str, packages: str = "") -> dict[str, Any]:
    """The executor of a Python component, as the SDK compiles it."""
    install = "python3 -m pip install --quiet --no-warn-script-location"
    bootstrap = (
        '\nif ! [ -x "$(command -v pip)" ]; then\n    python3 -m ensurepip || python3 -m ensurepip --user\nfi\n\n'
        f"PIP_DISABLE_PIP_VERSION_CHECK=1 {packages and f'{install} {packages} && '}"
        f"{install} 'kfp==2.17.0' '--no-deps' 'typing-extensions>=3.7.4,<5; python_version<\"3.9\"' && \"$0\" \"$@\"\n"
    )
    start = (
        'program_path=$(mktemp -d)\n\nprintf "%s" "$0" > "$program_path/ephemeral_component.py"\n'
        "_KFP_RUNTIME=true python3 -m kfp.dsl.executor_main "
        '--component_module_path "$program_path/ephemeral_component.py" "$@"\n'
    )
    args = ["--executor_input", "{{$}}", "--function_to_execute", function]
    command = ["sh", "-c", bootstrap, "sh", "-ec", start, source]
    return {"container": {"image": "python:3.11", "command": command, "args": args}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "is_member",
    [
        pytest.param(False, id="an admin", marks=pytest.mark.smoke),
        pytest.param(True, id="a member"),  # whose pip does not see a pip.conf in the home of the server's account
    ],
)
async def test_a_lightweight_component_with_the_real_kfp(
    server: RunningServer, tmp_path: Path, is_member: bool
) -> None:
    """The second run finds the environment of the first one, and pip has nothing to do there."""
    namespace = "default"
    if is_member:
        namespace = "alice"
        labels = {ISOLATION_LABEL: RESTRICTED}
        await server.cluster.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
        )
    definitions = {
        "inputDefinitions": parameters(rows="LIST"),
        "outputDefinitions": {
            **parameters(total="NUMBER_INTEGER"),
            **artifacts(table="system.Dataset", metrics="system.Metrics"),
        },
    }
    given = {"inputs": {"parameters": {"rows": {"runtimeValue": {"constant": [1.0, 2.0, 6.0]}}}}}
    table = {"artifacts": {"table": of_task("summarize", "table")}}
    count = component(
        'test "$(grep -c . "$1")" = 3',
        "{{$.inputs.artifacts['table'].path}}",
        inputDefinitions=artifacts(table="system.Dataset"),
    )
    made = pipeline(
        {"summarize": given, "count": {"inputs": table, "dependentTasks": ["summarize"]}},
        summarize=(definitions, lightweight(LIGHTWEIGHT, "summarize")),
        count=count,
    )
    for _ in range(2):
        workflow = await run(server, made, namespace=namespace)
        assert status_of(workflow)["phase"] == "Succeeded", problem(workflow)
        found = outputs(workflow)["summarize"]
        assert found.parameters == {"total": 9}
        assert found.artifacts["table"][0].metadata == {"rows": 3}
        assert found.artifacts["metrics"][0].metadata == {"mean": 3.0}
    environments = tmp_path / "home/environments" / namespace
    assert len(list(environments.iterdir())) == 1


@pytest.mark.slow
async def test_the_example_trains_and_predicts(server: RunningServer) -> None:
    text = (EXAMPLES / "train-and-predict/train_and_predict.yaml").read_text()
    workflow = await run(server, read_pipeline(text), {"trees": 50})
    assert status_of(workflow)["phase"] == "Succeeded", problem(workflow)
    found = outputs(workflow)
    assert found["predict"].parameters["Output"] > 0.9
    matrix = found["predict"].artifacts["matrix"][0].metadata["confusionMatrix"]
    assert len(matrix["rows"]) == 10
    assert (await server.cluster.list(PERSISTENT_VOLUME_CLAIM, "default")).items == []


@pytest.mark.slow
async def test_the_compiled_example_is_that_of_its_source() -> None:
    """Both were committed together: the functions of the source are in the compiled file."""
    folder = EXAMPLES / "train-and-predict"
    source = (folder / "train_and_predict.py").read_text()
    spec, _ = yaml.safe_load_all((folder / "train_and_predict.yaml").read_text())
    for executor in spec["deploymentSpec"]["executors"].values():
        code = executor["container"].get("command", [""])[-1]
        assert "def " not in code or code[code.index("def ") :].strip() in source


async def test_config_maps_reach_a_component(server: RunningServer) -> None:
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
    await server.cluster.create({**data, "data": {"colour": "blue"}})
    made = parse_pipeline(
        {
            "pipeline_spec": {
                "pipelineInfo": {"name": "settings"},
                "schemaVersion": "2.1.0",
                "components": {"comp-use": {"executorLabel": "exec-use"}},
                "deploymentSpec": {
                    "executors": {
                        "exec-use": component('test "$COLOUR" = blue; test "$(cat /settings/colour)" = blue')[1]
                    }
                },
                "root": {
                    "dag": {"tasks": {"use": {"componentRef": {"name": "comp-use"}, "taskInfo": {"name": "use"}}}}
                },
            },
            "platform_spec": {
                "platforms": {
                    "kubernetes": {
                        "deploymentSpec": {
                            "executors": {
                                "exec-use": {
                                    "configMapAsEnv": [
                                        {
                                            "configMapNameParameter": {"runtimeValue": {"constant": "settings"}},
                                            "keyToEnv": [{"configMapKey": "colour", "envVar": "COLOUR"}],
                                        }
                                    ],
                                    "configMapAsVolume": [{"configMapName": "settings", "mountPath": "/settings"}],
                                }
                            }
                        }
                    }
                }
            },
        }
    )
    workflow = await run(server, made)
    assert status_of(workflow)["phase"] == "Succeeded", problem(workflow)
