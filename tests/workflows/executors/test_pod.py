"""Pods of workflows, run by a real node agent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import POD, RESOURCE_QUOTA
from muster.kube.errors import Forbidden
from muster.kube.objects import labels_of, name_of, uid_of
from muster.workflows.executors.pod_spec import claims_of
from muster.workflows.kinds import WORKFLOW
from tests.workflows.executors.conftest import SECONDS, Stage, launch_of, shell


def parameter(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"path": path, **more}}


async def test_a_container_succeeds(stage: Stage) -> None:
    outcome = await stage.run("a", shell("true"))
    assert (outcome.phase, outcome.message, outcome.exit_code) == ("Succeeded", "", 0)
    assert outcome.outputs == {"exitCode": "0"}
    assert outcome.host
    assert outcome.finished >= outcome.started > ""


async def test_a_container_fails_with_its_exit_code(stage: Stage) -> None:
    outcome = await stage.run("a", shell("exit 3"))
    assert (outcome.phase, outcome.message) == ("Failed", "main: Error (exit code 3)")
    assert outcome.outputs == {"exitCode": "3"}


async def test_a_pod_that_exceeds_a_quota_waits(stage: Stage) -> None:
    metadata = {"name": "none", "namespace": "default"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"pods": "0"}}}
    await stage.cluster.create(quota)
    with pytest.raises(Forbidden, match="exceeded quota: none"):
        await stage.run("a", shell("true"))  # the controller tries again
    assert [(report.phase, "exceeded quota" in report.message) for report in stage.reports["wf-a"]] == [
        ("Pending", True)
    ]
    await stage.cluster.delete(RESOURCE_QUOTA, "none", "default")
    assert (await stage.run("a", shell("true"))).phase == "Succeeded"


async def test_a_script_runs_from_its_file_and_its_output_is_the_result(stage: Stage) -> None:
    source = 'import sys\nprint("hi")\nprint("no", file=sys.stderr)\nprint(sys.argv[0])\n'
    template = {"script": {"image": "python:3", "command": ["python3"], "source": source}}
    outcome = await stage.run("a", template, wants_result=True)
    assert outcome.outputs["result"] == "hi\n/argo/staging/script"


async def test_a_long_script_runs_as_well(stage: Stage) -> None:
    source = "# " + "x" * 100_000 + "\necho done\n"
    template = {"script": {"image": "busybox", "command": ["sh"], "source": source}}
    outcome = await stage.run("a", template, wants_result=True)
    assert outcome.outputs["result"] == "done"


async def test_only_the_end_of_a_long_result_is_kept(stage: Stage) -> None:
    outcome = await stage.run("a", shell("seq 100000"), wants_result=True)
    assert len(outcome.outputs["result"]) == 256 * 1024
    assert outcome.outputs["result"].endswith("\n99999\n100000")


async def test_output_parameters_come_from_files_wherever_they_are(stage: Stage) -> None:
    template = {
        **shell("echo hi > /tmp/a; printf 'x\n\n' > /result.txt"),
        "outputs": {
            "parameters": [
                parameter("a", "/tmp/a"),
                parameter("b", "/result.txt"),
                parameter("c", "/none", default="fallback"),
                {"name": "d", "valueFrom": {"expression": "1"}},
            ]
        },
    }
    outcome = await stage.run("a", template)
    values = {p["name"]: p.get("value") for p in outcome.outputs["parameters"]}
    assert values == {"a": "hi", "b": "x\n", "c": "fallback", "d": None}


async def test_a_missing_output_is_an_error_that_names_it(stage: Stage) -> None:
    template = {**shell("true"), "outputs": {"parameters": [parameter("a", "/tmp/a")]}}
    outcome = await stage.run("a", template)
    assert outcome.phase == "Error"
    assert outcome.message == "failed to save output parameter 'a': open /tmp/a: no such file or directory"


async def test_of_a_container_that_fails_the_failure_is_told_and_the_outputs_there_are(stage: Stage) -> None:
    outputs = {"parameters": [parameter("a", "/tmp/a"), parameter("b", "/tmp/b")]}
    outcome = await stage.run("a", {**shell("echo 1 > /tmp/a; exit 2"), "outputs": outputs})
    assert (outcome.phase, outcome.message) == ("Failed", "main: Error (exit code 2)")
    assert [p["value"] for p in outcome.outputs["parameters"]] == ["1"]


async def test_too_large_a_parameter_says_what_to_do(stage: Stage) -> None:
    outputs = {"parameters": [parameter("a", "/tmp/a")]}
    outcome = await stage.run("a", {**shell("head -c 2000000 /dev/zero > /tmp/a"), "outputs": outputs})
    assert outcome.phase == "Error"
    assert "use an output artifact" in outcome.message


@pytest.mark.parametrize(
    ("archive", "key"),
    [(None, "wf/wf-make/model.tgz"), ({"zip": {}}, "wf/wf-make/model.zip"), ({"none": {}}, "wf/wf-make/model")],
)
async def test_an_artifact_goes_from_one_container_to_the_next(
    stage: Stage, archive: dict[str, Any] | None, key: str
) -> None:
    made = {"name": "model", "path": "/out/model", **({"archive": archive} if archive else {})}
    script = "mkdir -p /out/model/deep; echo w > /out/model/deep/weights; echo x > /out/model/x"
    outcome = await stage.run("make", {**shell(script), "outputs": {"artifacts": [made]}})
    (artifact,) = outcome.outputs["artifacts"]
    assert artifact == {**made, "s3": {"key": key}}
    wanted = {**artifact, "path": "/in/model"}
    script = "cat /in/model/deep/weights; echo more >> /in/model/x; cat /in/model/x"
    outcome = await stage.run("use", {**shell(script), "inputs": {"artifacts": [wanted]}}, wants_result=True)
    assert outcome.outputs["result"] == "w\nx\nmore"
    again = await stage.run("again", {**shell(script), "inputs": {"artifacts": [wanted]}}, wants_result=True)
    assert again.outputs["result"] == "w\nx\nmore"
    assert not (stage.home / "workflows/inputs/default/wf-use").exists()


async def test_a_raw_artifact_may_be_placed_anywhere_with_its_mode(stage: Stage) -> None:
    tool = {"name": "t", "path": "/bin/muster-tool", "mode": 0o755, "raw": {"data": "#!/bin/sh\necho tool\n"}}
    absent = {"name": "o", "path": "/nowhere", "optional": True}
    outcome = await stage.run(
        "a", {**shell("muster-tool; test ! -e /nowhere"), "inputs": {"artifacts": [tool, absent]}}, wants_result=True
    )
    assert outcome.outputs["result"] == "tool"
    assert not Path("/bin/muster-tool").exists()


async def test_an_artifact_in_a_volume_is_put_into_the_volume(stage: Stage) -> None:
    workflow = await stage.workflow(volumes=[{"name": "go", "emptyDir": {}}])
    mount = [{"name": "go", "mountPath": "/go"}]
    template = {
        **shell("ls -A /go /go/src; cat /go/src/x", volumeMounts=mount),
        "inputs": {"artifacts": [{"name": "src", "path": "/go/src/x", "raw": {"data": "code"}}]},
        "sidecars": [{"name": "s", "image": "i", "command": ["sleep", "100"], "mirrorVolumeMounts": True}],
    }
    outcome = await stage.run("a", template, workflow=workflow, wants_result=True)
    assert outcome.outputs["result"] == "/go:\nsrc\n\n/go/src:\nx\ncode"


async def test_a_required_artifact_that_is_missing_is_an_error(stage: Stage) -> None:
    artifact = {"name": "a", "path": "/a", "s3": {"key": "no/such"}}
    outcome = await stage.run("a", {**shell("true"), "inputs": {"artifacts": [artifact]}})
    assert outcome.phase == "Error"
    assert outcome.message == ('artifact a failed to load: the artifact repository contains nothing under "no/such"')
    outcome = await stage.run("b", {**shell("true"), "inputs": {"artifacts": [{"name": "a", "path": "/a"}]}})
    assert outcome.message == "required artifact 'a' not supplied"


async def test_logs_are_archived_when_that_is_asked_for(stage: Stage) -> None:
    workflow = await stage.workflow(archiveLogs=True)
    outcome = await stage.run("a", shell("echo one; echo two >&2"), workflow=workflow)
    assert outcome.outputs["artifacts"] == [{"name": "main-logs", "s3": {"key": "wf/wf-a/main.log"}}]
    text = b"".join([b async for b in stage.artifacts.read(workflow, outcome.outputs["artifacts"][0])])
    assert sorted(text.decode().split()) == ["one", "two"]


async def test_an_image_without_a_command_fails_the_node(stage: Stage) -> None:
    outcome = await stage.run("a", {"container": {"image": "nobody/knows:1"}})
    assert outcome.phase == "Error"
    assert "nobody/knows" in outcome.message and "command" in outcome.message
    await stage.gone("a")


async def test_a_pod_that_cannot_be_is_an_error(stage: Stage) -> None:
    outcome = await stage.run("a", shell("true", volumeMounts=[{"name": "v", "mountPath": "/v"}]))
    assert (outcome.phase, outcome.message) == ("Error", "volume 'v' not found in workflow spec")
    outcome = await stage.run("b", {**shell("true"), "podSpecPatch": '{"containers": 3}'})
    assert outcome.phase == "Error"


async def test_what_runs_is_adopted_after_a_restart_and_collected_once_it_has_ended(stage: Stage) -> None:
    workflow = await stage.workflow()
    outputs = {"parameters": [parameter("a", "/tmp/a")]}
    launch = launch_of("a", {**shell("sleep 0.5; echo 1 >> /tmp/a"), "outputs": outputs}, wants_result=True)
    await stage.launch(workflow, launch)
    await stage.until("a", "Running")
    await stage.restart()
    await stage.launch(workflow, launch, begun=True)
    outcome = await stage.end("a")
    assert outcome.outputs["parameters"][0]["value"] == "1"
    await stage.restart()
    await stage.launch(workflow, launch, begun=True)
    assert await stage.end("a") == outcome


async def test_a_pending_pod_that_is_deleted_is_created_again(stage: Stage) -> None:
    workflow = await stage.workflow()
    template = {**shell("true"), "nodeSelector": {"no": "such-node"}}
    await stage.launch(workflow, launch_of("a", template))
    (first,) = (await stage.cluster.list(POD, "default")).items
    await stage.cluster.delete(POD, name_of(first), "default", grace_seconds=0)

    async with asyncio.timeout(30):
        async for event in stage.cluster.watch(POD, "default"):
            if uid_of(event.object) != uid_of(first):
                break
    assert not stage.reports.get("wf-a")


@pytest.mark.parametrize("most", [0, 1])
async def test_a_pod_that_the_machine_fails_before_it_starts_is_created_again(stage: Stage, most: int) -> None:
    data = {"failedPodRestart": f"{{enabled: {'true' if most else 'false'}, maxRestarts: {most}}}"}
    await stage.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argo"}})
    metadata = {"name": "workflow-controller-configmap", "namespace": "argo"}
    await stage.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    workflow = await stage.workflow()
    template = {**shell("true"), "nodeSelector": {"no": "such-node"}}
    await stage.launch(workflow, launch_of("a", template))
    waiting = {"name": "main", "image": "i", "state": {"waiting": {"reason": "PodInitializing"}}}
    status = {"phase": "Failed", "reason": "Evicted", "message": "DiskPressure", "containerStatuses": [waiting]}
    seen = set[str]()
    async with asyncio.timeout(30):
        async for event in stage.cluster.watch(POD, "default"):
            if event.type == "ADDED" and uid_of(event.object) not in seen:
                seen.add(uid_of(event.object))
                await stage.cluster.patch(POD, "wf-a", "default", {"status": status}, subresource="status")
            if len(seen) > most:
                break
    outcome = await stage.end("a")
    assert (outcome.phase, outcome.message, len(seen)) == ("Failed", "DiskPressure", most + 1)
    assert [told.restarts for told in stage.reports["wf-a"] if told.phase == "Pending"][-1:] == [1] * most


async def test_a_pod_that_has_gone_is_not_run_again(stage: Stage) -> None:
    workflow = await stage.workflow()
    await stage.launch(workflow, launch_of("a", shell("true")), begun=True)
    outcome = await stage.end("a")
    assert (outcome.phase, outcome.message) == ("Error", "pod deleted")


async def test_a_pod_that_was_deleted_for_a_retry_is_made_anew(stage: Stage) -> None:
    workflow = await stage.workflow()
    assert (await stage.run("a", shell("exit 1"), workflow=workflow)).phase == "Failed"
    first = await stage.pod("a")
    stage.reports.clear()
    await stage.cluster.delete(POD, "wf-a", "default", grace_seconds=0)
    await stage.launch(workflow, launch_of("a", shell("true")))
    assert (await stage.end("a")).phase == "Succeeded"
    assert (await stage.pod("a"))["metadata"]["uid"] != first["metadata"]["uid"]


async def test_launching_twice_makes_one_pod(stage: Stage) -> None:
    workflow = await stage.workflow()
    for _ in range(3):
        await stage.launch(workflow, launch_of("a", shell("true")))
    await stage.end("a")
    assert len((await stage.cluster.list(POD)).items) == 1


@pytest.mark.parametrize(("force", "code"), [(False, 5), (True, 137)])
async def test_a_running_pod_is_stopped_and_keeps_its_logs(stage: Stage, force: bool, code: int) -> None:
    workflow = await stage.workflow()
    launch = launch_of("a", shell("trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.02; done"))
    await stage.launch(workflow, launch)
    await stage.until("a", "Running")
    await stage.printed("a", b"up")
    await stage.leaves.stop(workflow, launch.node, force=force)
    outcome = await stage.end("a")
    assert (outcome.phase, outcome.exit_code) == ("Failed", code)
    await stage.printed("a", b"up")


async def test_a_pending_pod_is_deleted_when_it_is_stopped(stage: Stage) -> None:
    workflow = await stage.workflow()
    launch = launch_of("a", {**shell("true"), "nodeSelector": {"no": "such"}})
    await stage.launch(workflow, launch)
    assert "Unschedulable" in (await stage.until("a", "Pending")).message
    await stage.leaves.stop(workflow, launch.node, force=False)
    assert (await stage.end("a")).phase == "Failed"
    await stage.gone("a")


async def test_a_daemon_is_ready_with_an_address(stage: Stage) -> None:
    workflow = await stage.workflow()
    probe = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1}
    launch = launch_of("a", {**shell("touch /tmp/up; sleep 1000", readinessProbe=probe), "daemon": True})
    await stage.launch(workflow, launch)
    assert (await stage.told("a", lambda outcome: outcome.ready)).address.startswith("127.")
    await stage.leaves.stop(workflow, launch.node, force=True)
    assert (await stage.end("a")).phase == "Failed"


async def test_a_set_of_containers_runs_in_its_order_and_each_is_told(stage: Stage) -> None:
    def member(name: str, script: str, *after: str) -> dict[str, Any]:
        return {"name": name, "image": "i", "command": ["sh", "-ec", script], "dependencies": list(after)}

    group = {
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
        "containers": [
            member("b", "cat /w/a; echo b > /w/b", "a"),
            member("a", "echo a > /w/a"),
            member("c", "cat /w/b", "a", "b"),
        ],
    }
    template = {
        "containerSet": group,
        "volumes": [{"name": "w", "emptyDir": {}}],
        "outputs": {"parameters": [parameter("p", "/w/b")]},
    }
    outcome = await stage.run("a", template)
    assert outcome.phase == "Succeeded"
    assert {name: o.phase for name, o in outcome.containers.items()} == dict.fromkeys("abc", "Succeeded")
    assert outcome.outputs["parameters"][0]["value"] == "b"


async def test_what_a_set_shares_may_be_written_when_its_main_container_has_ended(stage: Stage) -> None:
    late = "while ! test -e /w/main; do sleep 0.02; done; sleep 0.2; echo late > /w/late"
    group = {
        "volumeMounts": [{"name": "w", "mountPath": "/w"}],
        "containers": [
            {"name": "main", "image": "i", "command": ["sh", "-ec", "echo own > /tmp/own; touch /w/main"]},
            {"name": "other", "image": "i", "command": ["sh", "-ec", late]},
        ],
    }
    template = {
        "containerSet": group,
        "volumes": [{"name": "w", "emptyDir": {}}],
        "outputs": {"parameters": [parameter("own", "/tmp/own"), parameter("late", "/w/late")]},
    }
    outcome = await stage.run("a", template)
    assert (outcome.phase, outcome.message) == ("Succeeded", "")
    assert [p["value"] for p in outcome.outputs["parameters"]] == ["own", "late"]


async def test_the_claims_of_a_workflow_are_shared_by_its_pods(stage: Stage) -> None:
    claim = {
        "metadata": {"name": "work"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    workflow = await stage.workflow(volumeClaimTemplates=[claim])
    for made in claims_of(workflow):
        await stage.cluster.create(made)
    mount = [{"name": "work", "mountPath": "/work"}]
    assert (await stage.run("a", shell("echo x > /work/f", volumeMounts=mount), workflow=workflow)).phase == "Succeeded"
    outcome = await stage.run("b", shell("cat /work/f", volumeMounts=mount), workflow=workflow, wants_result=True)
    assert outcome.outputs["result"] == "x"


async def test_a_pod_tells_its_progress(stage: Stage) -> None:
    workflow = await stage.workflow()
    script = 'echo 1/4 >> "$ARGO_PROGRESS_FILE"; while ! test -e /tmp/go; do sleep 0.05; done'
    await stage.launch(workflow, launch_of("a", shell(script)))
    assert (await stage.told("a", lambda outcome: bool(outcome.progress))).progress == "1/4"
    process = await stage.cluster.exec("wf-a", "default", ["touch", "/tmp/go"])
    assert await process.wait() == 0
    await process.close()
    assert (await stage.end("a")).phase == "Succeeded"


async def test_a_data_template_lists_keys(stage: Stage, tmp_path: Path) -> None:
    workflow = await stage.workflow()
    (tmp_path / "x").write_text("x")
    for key in ("logs/a.txt", "logs/b/main.log", "other/main.log"):
        artifact = {"name": "x", "path": "/x", "archive": {"none": {}}, "s3": {"key": key}}
        await stage.artifacts.save(workflow, artifact, tmp_path / "x", {})
    data = {
        "source": {"artifactPaths": {"name": "logs", "s3": {"key": "logs"}}},
        "transformation": [{"expression": 'filter(data, {# endsWith "main.log"})'}],
    }
    outcome = await stage.run("a", {"data": data}, workflow=workflow)
    assert (outcome.phase, outcome.outputs) == ("Succeeded", {"result": '["logs/b/main.log"]'})
    bad = {**data, "transformation": [{"expression": "filter(data"}]}
    outcome = await stage.run("b", {"data": bad}, workflow=workflow)
    assert outcome.phase == "Error" and "data transformation" in outcome.message


async def test_what_was_staged_for_nobody_is_removed(stage: Stage) -> None:
    left = stage.home / "workflows/inputs/default/wf-old/0"
    left.mkdir(parents=True)
    await stage.restart()
    await stage.run("a", shell("true"))
    assert not left.exists()


async def test_stopping_what_is_just_being_made(stage: Stage) -> None:
    workflow = await stage.workflow()
    launch = launch_of("a", shell("sleep 1000"))
    await stage.launch(workflow, launch)
    await stage.leaves.stop(workflow, launch.node, force=True)  # created, but not noticed by the executor yet
    assert (await stage.end("a")).phase == "Failed"


async def test_whoever_asks_again_is_told_again_what_is_known(stage: Stage) -> None:
    """The controller forgets the result of a step if it cannot be stored."""
    workflow = await stage.workflow()
    launch = launch_of("a", shell("sleep 60"))
    await stage.launch(workflow, launch)
    running = await stage.until("a", "Running")
    stage.reports.clear()
    await stage.launch(workflow, launch, begun=True)
    assert stage.reports == {"wf-a": [running]}
    assert await stage.until("a", "Running") == running


async def test_of_an_end_one_is_told_again_as_well(stage: Stage) -> None:
    workflow = await stage.workflow()
    launch = launch_of("a", shell("echo hi"), wants_result=True)
    await stage.launch(workflow, launch)
    ended = await stage.end("a")
    stage.reports.clear()
    await stage.launch(workflow, launch, begun=True)
    assert await stage.end("a") == ended


async def test_a_launch_that_is_given_up_can_be_made_again(stage: Stage) -> None:
    """An artifact store does not respond, and the workflow is reloaded meanwhile."""
    workflow = await stage.workflow()
    url = "http://127.0.0.1:9/nothing"
    template = {**shell("true"), "inputs": {"artifacts": [{"name": "x", "path": "/x", "http": {"url": url}}]}}
    waiting = asyncio.create_task(stage.launch(workflow, launch_of("a", template)))
    await stage.until("a", "Pending")
    waiting.cancel()
    await asyncio.wait([waiting])
    await stage.launch(workflow, launch_of("a", shell("true")))
    assert (await stage.end("a")).phase == "Succeeded"


async def test_what_was_to_be_stopped_when_the_server_ended_is_stopped_by_the_next(stage: Stage) -> None:
    workflow = await stage.workflow()
    for name in ("stays", "goes"):
        await stage.launch(workflow, launch_of(name, shell("trap 'exit 7' TERM; sleep 60 & wait")))
        await stage.until(name, "Running")
    await stage.restart()
    await stage.launch(workflow, launch_of("stays", shell("")), begun=True)
    await stage.leaves.stop_others(workflow, ["wf-stays"])
    async for event in stage.cluster.watch(POD, "default", fields="metadata.name=wf-goes"):
        if event.object["status"].get("phase") == "Failed":
            break
    assert (await stage.pod("stays"))["status"]["phase"] == "Running"


@pytest.mark.parametrize("ends_before", [False, True])
async def test_a_pod_whose_end_is_stored_is_labelled_whenever_the_server_ends(stage: Stage, ends_before: bool) -> None:
    workflow = await stage.workflow()
    outcome = await stage.run("a", shell("true"), workflow=workflow)
    node = {**launch_of("a", {}).node, "phase": outcome.phase}
    await stage.cluster.write_status_rows(WORKFLOW, workflow, {"wf-a": node})
    if ends_before:
        await stage.restart()
    else:
        stage.leaves.recorded(workflow, ["wf-a"])
    async with asyncio.timeout(SECONDS):
        while labels_of(await stage.pod("a"))["workflows.argoproj.io/completed"] != "true":  # noqa: ASYNC110
            await asyncio.sleep(0.02)
