"""Runs and recurring runs over HTTP, on a complete Muster: they really run. With SQLite, and with PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.kinds import Kind
from muster.kube.objects import name_of, namespace_of
from muster.platform.database.database import sqlite_url
from muster.platform.users.credentials import local_token, platform_folder
from muster.workflows.kinds import WORKFLOW
from tests.platform.databases import PostgresServer
from tests.server.pipelines.test_app import Api
from tests.server.platform.whole import PATIENCE, Whole, eventually, whole_muster
from tests.workflows.artifacts.s3server import ACCESS_KEY, REGION, S3, SECRET_KEY

pytestmark = pytest.mark.asyncio(loop_scope="module")


def container(*command: str) -> dict[str, Any]:
    return {"container": {"image": "python:3.11", "command": ["sh", "-ec", *command]}}


GREET: dict[str, Any] = {
    "pipelineInfo": {"name": "greet"},
    "schemaVersion": "2.1.0",
    "root": {
        "inputDefinitions": {
            "parameters": {
                "who": {"parameterType": "STRING"},
                "times": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1.0, "isOptional": True},
            }
        },
        "dag": {
            "tasks": {
                "say": {
                    "componentRef": {"name": "comp-say"},
                    "taskInfo": {"name": "say"},
                    "inputs": {"parameters": {"who": {"componentInputParameter": "who"}}},
                },
                "shout": {
                    "componentRef": {"name": "comp-shout"},
                    "taskInfo": {"name": "shout"},
                    "dependentTasks": ["say"],
                    "inputs": {
                        "parameters": {
                            "text": {"taskOutputParameter": {"producerTask": "say", "outputParameterKey": "greeting"}}
                        },
                        "artifacts": {
                            "note": {"taskOutputArtifact": {"producerTask": "say", "outputArtifactKey": "note"}}
                        },
                    },
                },
            }
        },
    },
    "components": {
        "comp-say": {
            "executorLabel": "exec-say",
            "inputDefinitions": {"parameters": {"who": {"parameterType": "STRING"}}},
            "outputDefinitions": {
                "parameters": {"greeting": {"parameterType": "STRING"}},
                "artifacts": {"note": {"artifactType": {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}}},
            },
        },
        "comp-shout": {
            "executorLabel": "exec-shout",
            "inputDefinitions": {
                "parameters": {"text": {"parameterType": "STRING"}},
                "artifacts": {"note": {"artifactType": {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}}},
            },
        },
    },
    "deploymentSpec": {
        "executors": {
            "exec-say": container(
                'echo greeting "$0"; mkdir -p $(dirname $1) $(dirname $2); echo -n "hello $0" > $1; echo noted > $2',
                "{{$.inputs.parameters['who']}}",
                "{{$.outputs.parameters['greeting'].output_file}}",
                "{{$.outputs.artifacts['note'].path}}",
            ),
            "exec-shout": container(
                'echo "$0!"; cat $1', "{{$.inputs.parameters['text']}}", "{{$.inputs.artifacts['note'].path}}"
            ),
        }
    },
}


def one_task(name: str, script: str) -> dict[str, Any]:
    return {
        "pipelineInfo": {"name": name},
        "schemaVersion": "2.1.0",
        "root": {"dag": {"tasks": {"do": {"componentRef": {"name": "comp-do"}, "taskInfo": {"name": "do"}}}}},
        "components": {"comp-do": {"executorLabel": "exec-do"}},
        "deploymentSpec": {"executors": {"exec-do": container(script)}},
    }


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
async def muster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Whole]:
    folder: Path = tmp_path_factory.mktemp("runs")
    database = sqlite_url(folder / "platform.db")
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        database = server.url(server.new_database())
    async with whole_muster(folder / "home", database) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def admin(muster: Whole) -> Api:
    return Api(muster.url, local_token(platform_folder(muster.home)))


async def until(api: Api, run_id: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE):
        while True:
            run: dict[str, Any] = await api.get(f"runs/{run_id}")
            if run["state"] in states:
                return run
            await asyncio.sleep(0.05)


async def is_empty(muster: Whole, kind: Kind) -> bool:
    return not (await muster.cluster.list(kind)).items


async def ended(api: Api, run_id: str) -> dict[str, Any]:
    return await until(api, run_id, "SUCCEEDED", "FAILED")


async def test_a_run_from_its_creation_to_its_outputs_after_the_pods_are_gone(muster: Whole, admin: Api) -> None:
    body = {
        "display_name": "first",
        "pipeline_spec": GREET,
        "runtime_config": {"parameters": {"who": "ann"}},
    }
    made = await admin.post("runs", body)
    assert made["state"] in ("PENDING", "RUNNING")
    assert (made["display_name"], made["storage_state"]) == ("first", "AVAILABLE")
    assert (made["pipeline_spec"], made["runtime_config"]) == (GREET, {"parameters": {"who": "ann"}})
    run_id = made["run_id"]
    done = await ended(admin, run_id)
    assert (done["state"], done.get("error")) == ("SUCCEEDED", None), done
    assert [entry["state"] for entry in done["state_history"]][::2] == ["PENDING", "SUCCEEDED"]
    assert done["finished_at"] >= done["created_at"]
    tasks = {each["display_name"]: each for each in done["run_details"]["task_details"]}
    assert {name: task["state"] for name, task in tasks.items()} == dict.fromkeys(("root", "say", "shout"), "SUCCEEDED")
    assert tasks["say"]["pod_name"] == tasks["say"]["child_tasks"][0]["pod_name"]
    experiment = await admin.get(f"experiments/{done['experiment_id']}")
    assert (experiment["display_name"], "last_run_created_at" in experiment) == ("Default", True)

    # the Pods go; what they wrote stays
    for pod in (await muster.cluster.list(POD)).items:
        await muster.cluster.delete(POD, name_of(pod), namespace_of(pod))
    await eventually(lambda: is_empty(muster, POD))
    say = await admin.get(f"runs/{run_id}/nodes/say")
    assert say["node"]["outputs"]["parameterValues"] == {"greeting": "hello ann"}
    assert say["node"]["inputs"]["parameterValues"] == {"who": "ann"}
    (note,) = say["node"]["outputs"]["artifacts"]["note"]["artifacts"]
    assert (note["type"]["schemaTitle"], "location" in note) == ("system.Dataset", False)
    read = await admin.get(f"runs/{run_id}/nodes/{tasks['say']['task_id']}/artifacts/note:read")
    assert base64.b64decode(read["data"]) == b"noted\n"
    log = await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/shout/log")
    assert log.body == "hello ann!\nnoted\n"
    file = await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/say/artifacts/note")
    assert (file.body, file.headers["Content-Disposition"]) == ("noted\n", 'attachment; filename="note"')
    missing = await admin("GET", f"runs/{run_id}/nodes/say/artifacts/nothing:read")
    assert (missing.status, "use one of note" in missing.body["message"]) == (404, True)

    # the Workflow goes; what the run was and made stays
    (workflow,) = (await muster.cluster.list(WORKFLOW)).items
    await muster.cluster.delete(WORKFLOW, name_of(workflow), namespace_of(workflow))
    await eventually(lambda: is_empty(muster, WORKFLOW))
    assert (await admin.get(f"runs/{run_id}"))["run_details"] == done["run_details"]
    assert (await admin.get(f"runs/{run_id}/nodes/say")) == say
    assert (await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/shout/log")).body == log.body
    assert (await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/say/artifacts/note")).body == "noted\n"
    assert (platform_folder(muster.home) / "runs" / run_id).is_dir()  # the logs, whose node does not keep them any more
    lineage = (await admin.get("artifacts", uri=note["uri"]))["artifacts"]
    assert [(each["direction"], each["key"]) for each in lineage] == [("output", "note"), ("input", "note")]

    # and it can be listed, archived and deleted
    found = await admin.get("runs", experiment_id=done["experiment_id"], sort_by="created_at desc")
    assert [each["run_id"] for each in found["runs"]] == [run_id]
    assert await admin.post(f"runs/{run_id}:archive") == {}
    assert (await admin.get(f"runs/{run_id}"))["storage_state"] == "ARCHIVED"
    assert await admin.post(f"runs/{run_id}:unarchive") == {}
    assert (await admin("DELETE", f"runs/{run_id}")).ok() == {}
    assert (await admin("GET", f"runs/{run_id}")).status == 404


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"runtime_config": {}}, '"who" is required'),
        ({"runtime_config": {"parameters": {"who": 3}}}, "who"),
        ({"runtime_config": {"parameters": {"who": "a", "times": "x"}}}, "times"),
        ({"runtime_config": {"parameters": {"who": "a", "whom": "b"}}}, 'no parameter "whom"'),
        ({"pipeline_spec": {**GREET, "schemaVersion": "1"}}, "schemaVersion"),
        ({"pipeline_spec": None}, "either pipeline_spec or pipeline_version_reference"),
        ({"pipeline_version_reference": {"pipeline_id": "x"}}, "either pipeline_spec or pipeline_version_reference"),
        ({"display_name": ""}, "enter a name"),
        ({"experiment_id": "nothing"}, 'there is no experiment "nothing"'),
    ],
)
async def test_a_run_that_cannot_run_is_refused(admin: Api, change: dict[str, Any], message: str) -> None:
    body = {"display_name": "x", "pipeline_spec": GREET, "runtime_config": {"parameters": {"who": "a"}}, **change}
    reply = await admin("POST", "runs", body)
    assert reply.status in (400, 404)
    assert message in reply.body["message"]


async def test_a_canceled_run_fails_and_can_be_retried(admin: Api, tmp_path_factory: pytest.TempPathFactory) -> None:
    spec = one_task("wait", "echo begun; sleep 600")
    run_id = (await admin.post("runs", {"display_name": "long", "pipeline_spec": spec}))["run_id"]
    await until(admin, run_id, "RUNNING")
    assert (await admin("POST", f"runs/{run_id}:retry")).status == 400
    assert await admin.post(f"runs/{run_id}:terminate") == {}
    done = await ended(admin, run_id)
    assert (done["state"], done["error"]["message"]) == ("FAILED", "The run was canceled by admin.")
    assert [entry["state"] for entry in done["state_history"]][-2:] == ["CANCELING", "FAILED"]
    assert (await admin("POST", f"runs/{run_id}:terminate")).status == 409
    assert await admin.post(f"runs/{run_id}:retry") == {}
    await until(admin, run_id, "RUNNING")
    assert (await admin("DELETE", f"runs/{run_id}")).ok() == {}


async def test_a_version_is_run_by_reference_and_the_newest_by_its_pipeline(admin: Api) -> None:
    pipeline = (await admin.upload("pipelines/upload", str(one_task("one", "echo 1")).replace("'", '"').encode())).ok()
    newer = {"display_name": "v2", "pipeline_spec": one_task("two", "exit 3")}
    version = await admin.post(f"pipelines/{pipeline['pipeline_id']}/versions", newer)
    reference = {"pipeline_id": pipeline["pipeline_id"]}
    made = await admin.post("runs", {"display_name": "newest", "pipeline_version_reference": reference})
    expected = {**reference, "pipeline_version_id": version["pipeline_version_id"]}
    assert made["pipeline_version_reference"] == expected
    assert "pipeline_spec" not in made
    done = await ended(admin, made["run_id"])
    assert done["state"] == "FAILED"
    failed = next(each for each in done["run_details"]["task_details"] if each["display_name"] == "do")
    assert "3" in failed["error"]["message"]


async def test_an_archived_experiment_takes_its_runs_along(admin: Api) -> None:
    experiment = (await admin.post("experiments", {"display_name": "old"}))["experiment_id"]
    body = {"display_name": "quick", "pipeline_spec": one_task("quick", "true"), "experiment_id": experiment}
    run_id = (await admin.post("runs", body))["run_id"]
    await ended(admin, run_id)
    trigger = {"periodic_schedule": {"interval_second": 3600}}
    recurring = (await admin.post("recurringruns", {**body, "trigger": trigger}))["recurring_run_id"]
    await admin.post(f"experiments/{experiment}:archive")
    assert (await admin.get(f"runs/{run_id}"))["storage_state"] == "ARCHIVED"
    assert (await admin.get(f"recurringruns/{recurring}"))["status"] == "DISABLED"
    for path in (f"runs/{run_id}:unarchive", f"recurringruns/{recurring}:enable"):
        reply = await admin("POST", path)
        assert (reply.status, "archived" in reply.body["message"]) == (400, True)
    assert (await admin("POST", "runs", body)).status == 400


async def test_a_recurring_run_runs_every_second_with_macros(admin: Api) -> None:
    body = {
        "display_name": "tick",
        "pipeline_spec": GREET,
        "runtime_config": {"parameters": {"who": "[[Index]] at [[ScheduledTime.2006]]"}},
        "trigger": {"periodic_schedule": {"interval_second": "1"}},
        "max_concurrency": "2",
        "mode": "ENABLE",
    }
    made = await admin.post("recurringruns", body)
    assert (made["status"], made["mode"], made["max_concurrency"]) == ("ENABLED", "ENABLE", "2")
    assert made["trigger"] == {"periodic_schedule": {"interval_second": "1"}}
    identifier = made["recurring_run_id"]
    only = f'{{"predicates": [{{"operation": 1, "key": "recurring_run_id", "stringValue": "{identifier}"}}]}}'
    found: list[Any] = []

    async def has_three() -> bool:
        found[:] = (await admin.get("runs", filter=only)).get("runs", [])
        return len(found) >= 3

    await eventually(has_three)
    assert await admin.post(f"recurringruns/{identifier}:disable") == {}
    runs = [await ended(admin, each["run_id"]) for each in found]
    assert {run["state"] for run in runs} == {"SUCCEEDED"}
    assert [run["display_name"] for run in runs[:3]] == ["tick-1", "tick-2", "tick-3"]
    times = [run["scheduled_at"] for run in runs]
    assert times == sorted(set(times))
    greeting = (await admin.get(f"runs/{runs[1]['run_id']}/nodes/say"))["node"]["outputs"]["parameterValues"][
        "greeting"
    ]
    assert greeting == f"hello 2 at {times[1][:4]}"
    listed = await admin.get("recurringruns", namespace="-")
    assert identifier in [each["recurring_run_id"] for each in listed["recurringRuns"]]
    assert (await admin("DELETE", f"recurringruns/{identifier}")).ok() == {}
    assert (await admin.get(f"runs/{runs[0]['run_id']}"))["recurring_run_id"] == identifier


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"trigger": {}}, "either a cron_schedule or a periodic_schedule"),
        ({"trigger": {"cron_schedule": {"cron": "* * *"}}}, "expected 5 to 6 fields"),
        ({"trigger": {"periodic_schedule": {"interval_second": "0"}}}, "either a cron_schedule"),
        ({"trigger": {"periodic_schedule": {"interval_second": -5}}}, "interval_second"),
        ({"trigger": {"cron_schedule": {"cron": "@daily", "start_time": "soon"}}}, "a time such as"),
        ({"max_concurrency": 11}, "max_concurrency"),
        ({"max_concurrency": "0"}, "max_concurrency"),
        ({"mode": "SOMETIMES"}, "mode"),
    ],
)
async def test_a_wrong_recurring_run_is_refused(admin: Api, change: dict[str, Any], message: str) -> None:
    body = {
        "display_name": "x",
        "pipeline_spec": one_task("quick", "true"),
        "trigger": {"cron_schedule": {"cron": "@daily"}},
        **change,
    }
    reply = await admin("POST", "recurringruns", body)
    assert (reply.status, message in reply.body["message"]) == (400, True), reply.body


def stored_elsewhere() -> dict[str, Any]:
    """An importer of a private object, a component that copies it to a path of its own choice, and one that reads
    that."""
    text = {"artifactType": {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"}}
    given = {"taskOutputArtifact": {"producerTask": "fetch", "outputArtifactKey": "artifact"}}
    copied = {"taskOutputArtifact": {"producerTask": "copy", "outputArtifactKey": "text"}}
    output = '{"artifacts": {"text": {"artifacts": [{"uri": "\'$2\'", "custom_path": "/var/tmp/mine"}]}}}'
    copy = f"cat $0 > /var/tmp/mine; echo more >> /var/tmp/mine; echo '{output}' > $1"
    return {
        "pipelineInfo": {"name": "elsewhere"},
        "schemaVersion": "2.1.0",
        "root": {
            "dag": {
                "tasks": {
                    "fetch": {"componentRef": {"name": "comp-fetch"}, "taskInfo": {"name": "fetch"}},
                    "copy": {
                        "componentRef": {"name": "comp-copy"},
                        "taskInfo": {"name": "copy"},
                        "dependentTasks": ["fetch"],
                        "inputs": {"artifacts": {"given": given}},
                    },
                    "read": {
                        "componentRef": {"name": "comp-read"},
                        "taskInfo": {"name": "read"},
                        "dependentTasks": ["copy"],
                        "inputs": {"artifacts": {"given": copied}},
                    },
                }
            }
        },
        "components": {
            "comp-fetch": {"executorLabel": "exec-fetch", "outputDefinitions": {"artifacts": {"artifact": text}}},
            "comp-copy": {
                "executorLabel": "exec-copy",
                "inputDefinitions": {"artifacts": {"given": text}},
                "outputDefinitions": {"artifacts": {"text": text}},
            },
            "comp-read": {"executorLabel": "exec-read", "inputDefinitions": {"artifacts": {"given": text}}},
        },
        "deploymentSpec": {
            "executors": {
                "exec-fetch": {
                    "importer": {
                        "artifactUri": {"constant": "s3://bucket/private/words.txt"},
                        "typeSchema": {"schemaTitle": "system.Dataset", "schemaVersion": "0.0.1"},
                    }
                },
                "exec-copy": container(
                    copy,
                    "{{$.inputs.artifacts['given'].path}}",
                    "{{$.outputs.output_file}}",
                    "{{$.outputs.artifacts['text'].uri}}",
                ),
                "exec-read": container("cat $0", "{{$.inputs.artifacts['given'].path}}"),
            }
        },
    }


async def test_artifacts_in_a_store_of_ones_own(muster: Whole, admin: Api) -> None:
    """The namespace names an S3 store and its credentials, as in Kubeflow Pipelines: a private object is imported, and
    what a component writes, also at a path of its own choice, is where its uri says."""
    async with S3().serving() as s3:
        s3.objects["bucket/private/words.txt"] = b"words\n"
        namespace = (await admin.get("experiments"))["experiments"][0]["namespace"]
        keys = {"user": ACCESS_KEY, "password": SECRET_KEY}
        data = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
        secret = {"secretName": "s3", "accessKeyKey": "user", "secretKeyKey": "password"}
        default = {
            "endpoint": f"http://127.0.0.1:{s3.port}",
            "region": REGION,
            "credentials": {"fromEnv": False, "secretRef": secret},
        }
        launcher = {
            "defaultPipelineRoot": "s3://bucket/runs",
            "providers": yaml.safe_dump({"s3": {"default": default}}),
        }
        for kind, name, content in (("Secret", "s3", data), ("ConfigMap", "kfp-launcher", launcher)):
            metadata = {"name": name, "namespace": namespace}
            await muster.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": content})
        try:
            run_id = (await admin.post("runs", {"display_name": "s3", "pipeline_spec": stored_elsewhere()}))["run_id"]
            done = await ended(admin, run_id)
            assert (done["state"], done.get("error")) == ("SUCCEEDED", None), done
            log = await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/read/log")
            assert log.body == "words\nmore\n"
            [text] = (await admin.get(f"runs/{run_id}/nodes/copy"))["node"]["outputs"]["artifacts"]["text"]["artifacts"]
            assert text["uri"].startswith(f"s3://bucket/runs/elsewhere/{run_id}/copy/")
            assert s3.objects[text["uri"].removeprefix("s3://")] == b"words\nmore\n"
            file = await muster.admin("GET", f"/apis/v2beta1/runs/{run_id}/nodes/copy/artifacts/text")
            assert file.body == "words\nmore\n"
            assert not s3.refused
            assert SECRET_KEY not in str(await admin.get(f"runs/{run_id}/nodes"))
        finally:
            await muster.cluster.delete(CONFIG_MAP, "kfp-launcher", namespace)
