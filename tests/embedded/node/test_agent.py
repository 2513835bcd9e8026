"""Pods on a real node: real processes, a real store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.node.supervisor.resource_limits import can_limit
from muster.embedded.settings import ImageSettings
from muster.kube.builtin import NODE, POD
from muster.kube.cluster import KEEP_FILES_ANNOTATION, LogQuery
from muster.kube.errors import NotFound
from muster.kube.objects import meta, status_of
from tests.embedded.node.harness import Node, container, waiting


async def test_a_pod_runs_and_succeeds_in_few_writes(node: Node) -> None:
    start = (await node.cluster.list(POD)).resource_version
    await node.create("p", "sh", "-c", "echo hello; hostname; cat /etc/hostname; pwd")
    pod = await node.ended("p")
    assert status_of(pod)["phase"] == "Succeeded"
    assert container(pod)["state"]["terminated"]["reason"] == "Completed"
    assert await node.logs("p") == "hello\np\np\n/tmp\n"
    assert await node.events("p") == [
        'ImageNotPulled: Running "img" in the environment of this machine (no image is pulled)',
        "Started: Started container main",
    ]
    writes = 0
    async for event in node.cluster.watch(POD, resource_version=start):
        writes += event.type == "MODIFIED"
        if status_of(event.object).get("phase") == "Succeeded":
            break
    assert writes <= 2


async def test_the_end_of_the_only_pod_that_runs_is_reported_at_once(node: Node) -> None:
    await node.restart(coalesce_seconds=3600.0)
    for name in ("p", "q"):
        await node.create(name, "true")
        assert status_of(await node.ended(name))["phase"] == "Succeeded"


async def test_a_failed_pod_has_its_termination_message(node: Node) -> None:
    await node.create("p", "sh", "-c", "echo no data > /dev/termination-log; exit 3")
    pod = await node.ended("p")
    terminated = container(pod)["state"]["terminated"]
    assert status_of(pod)["phase"] == "Failed"
    assert (terminated["exitCode"], terminated["reason"], terminated["message"]) == (3, "Error", "no data\n")


async def test_a_command_that_does_not_exist_is_said_to_be_missing(node: Node) -> None:
    await node.create("p", "no-such-command")
    pod = await node.ended("p")
    assert container(pod)["state"]["terminated"]["reason"] == "StartError"
    assert any("no-such-command" in event for event in await node.events("p"))


async def test_a_program_that_only_the_image_has_fails_with_the_ways_out(node: Node) -> None:
    await node.create("p", "influxd", container={"image": "influxdb:1.2"})
    await node.create("q", "sh", "-c", "cowsay hello", container={"image": "docker/whalesay"})
    for name, code, image in (("p", 128, "influxdb:1.2"), ("q", 127, "docker/whalesay")):
        pod = await node.ended(name)
        terminated = container(pod)["state"]["terminated"]
        assert (status_of(pod)["phase"], terminated["exitCode"]) == ("Failed", code)
        for part in (f'"{image}"', "Map the image in config.yaml", "rootfs", "--runtime podman or docker"):
            assert part in terminated["message"]


async def test_a_plain_image_runs_in_the_machines_environment_and_says_so(node: Node) -> None:
    await node.create("p", container={"image": "busybox", "command": None, "args": ["sh", "-c", "echo -e 'a\\tb'"]})
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"
    assert await node.logs("p") == "a\tb\n"
    events = await node.events("p")
    assert 'ImageNotPulled: Running "busybox" in the environment of this machine (no image is pulled)' in events


async def test_an_image_without_a_command_says_what_to_do(node: Node) -> None:
    await node.create("p", container={"command": None, "image": "team/server"})
    pod = await node.until("p", lambda pod: waiting(pod))
    assert waiting(pod)["reason"] == "ImageNeedsCommand"
    assert "command:" in waiting(pod)["message"]


async def test_it_is_restarted_until_it_succeeds(node: Node) -> None:
    script = "cat /state/n 2>/dev/null; echo run >> /state/n; test $(wc -l < /state/n) = 4"
    await node.create(
        "p", "sh", "-c", script, container={"volumeMounts": [{"name": "v", "mountPath": "/state"}]},
        volumes=[{"name": "v", "emptyDir": {}}], restartPolicy="OnFailure",
    )  # fmt: skip
    backing_off = await node.until("p", lambda pod: waiting(pod).get("reason") == "CrashLoopBackOff")
    assert container(backing_off)["lastState"]["terminated"]["exitCode"] == 1
    pod = await node.ended("p")
    assert (status_of(pod)["phase"], container(pod)["restartCount"]) == ("Succeeded", 3)
    assert await node.logs("p") == "run\n" * 3
    assert await node.logs("p", previous=True) == "run\n" * 2
    assert any(
        event.startswith("BackOff: Back-off restarting failed container main") for event in await node.events("p")
    )


async def test_init_containers_and_sidecars(node: Node) -> None:
    mounts = {"image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    second = "until grep -q side /v/order; do sleep 0.02; done; echo two >> /v/order"
    sidecar = {"restartPolicy": "Always", "command": ["sh", "-c", "echo side >> /v/order; sleep 60"]}
    inits = [
        {"name": "one", "command": ["sh", "-c", "echo one >> /v/order"], **mounts},
        {"name": "side", **sidecar, **mounts},
        {"name": "two", "command": ["sh", "-c", second], **mounts},
    ]
    output = await node.output(
        "p", "cat", "/v/order", container=mounts, initContainers=inits, volumes=[{"name": "v", "emptyDir": {}}],
        terminationGracePeriodSeconds=1,
    )  # fmt: skip
    assert output == "one\nside\ntwo\n"
    pod = await node.get("p")
    assert status_of(pod)["phase"] == "Succeeded"
    assert [s["ready"] for s in status_of(pod)["initContainerStatuses"]] == [True, False, True]


async def test_readiness_follows_its_probe(node: Node) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1}
    await node.create(
        "p", "sh", "-c", "sleep 0.5; touch /tmp/ready; sleep 60",
        container={"readinessProbe": probe}, terminationGracePeriodSeconds=0,
    )  # fmt: skip
    running = await node.phase("p", "Running")
    assert container(running)["ready"] is False
    ready = await node.until("p", lambda pod: container(pod)["ready"])
    assert {c["type"]: c["status"] for c in status_of(ready)["conditions"]}["Ready"] == "True"


async def test_a_deadline_ends_it(node: Node) -> None:
    await node.create("p", "sleep", "60", activeDeadlineSeconds=1, terminationGracePeriodSeconds=0)
    pod = await node.ended("p")
    assert (status_of(pod)["phase"], status_of(pod)["reason"]) == ("Failed", "DeadlineExceeded")
    assert any(event.startswith("DeadlineExceeded:") for event in await node.events("p"))


async def test_a_waiting_pod_has_a_deadline(node: Node) -> None:
    env = [{"secretRef": {"name": "never"}}]
    await node.create("p", container={"envFrom": env}, activeDeadlineSeconds=1)
    assert status_of(await node.ended("p"))["reason"] == "DeadlineExceeded"


async def test_deletion_gives_time_to_end_and_keeps_the_log(node: Node) -> None:
    pod = await node.create("p", "sh", "-c", 'trap "echo bye; exit 0" TERM; echo up; sleep 60 & wait')
    await node.phase("p", "Running")
    async for piece in node.cluster.logs("p", "default", LogQuery(follow=True)):
        assert piece == b"up\n"
        break
    await node.delete("p")
    await node.vanished("p")
    assert await node.logs("p") == "up\nbye\n"
    await node.wait_until(lambda: not node.folder(pod).exists())
    assert "Killing: Stopping container main" in await node.events("p")


async def test_a_pod_that_does_not_end_is_killed_after_its_grace_period(node: Node) -> None:
    await node.create("p", "sh", "-c", 'trap "" TERM; echo up; while true; do sleep 0.1; done')
    await node.phase("p", "Running")
    await node.delete("p", grace=1)
    ended = await node.until("p", lambda pod: status_of(pod)["phase"] == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 137
    await node.vanished("p")


async def test_a_forced_deletion_kills_at_once(node: Node, tmp_path: Path) -> None:
    pod = await node.create("p", "sh", "-c", 'trap "" TERM; sleep 600')
    await node.phase("p", "Running")
    (pid,) = [w.progress.of("main").pid for w in node.agent._workers.values()]
    await node.delete("p", grace=0)
    with pytest.raises(NotFound):
        await node.get("p")
    await node.wait_until(lambda: not node.folder(pod).exists())
    await node.wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_a_pod_can_be_deleted_before_it_starts(node: Node) -> None:
    await node.create("p", container={"envFrom": [{"secretRef": {"name": "never"}}]})
    await node.until("p", lambda pod: waiting(pod))
    await node.delete("p")
    await node.vanished("p")


async def test_finalizers_hold_the_object_not_the_processes(node: Node) -> None:
    await node.create(
        "p", "sleep", "60", metadata={"finalizers": ["example.com/hold"]}, terminationGracePeriodSeconds=0
    )
    await node.phase("p", "Running")
    await node.delete("p")
    pod = await node.ended("p")
    assert meta(pod)["deletionTimestamp"]
    await node.cluster.patch(POD, "p", "default", {"metadata": {"finalizers": []}})
    await node.vanished("p")


async def test_pods_find_each_other_by_name(node: Node) -> None:
    await node.put("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    await node.create(
        "server", "sleep", "60", metadata={"labels": {"app": "web"}}, terminationGracePeriodSeconds=0,
        hostname="srv", subdomain="web",
    )  # fmt: skip
    address = status_of(await node.phase("server", "Running"))["podIP"]
    script = (
        "import socket, time\n"
        "for name in ('web', 'web.default', 'web.default.svc.cluster.local', 'server', 'srv.web'):\n"
        "    for attempt in range(100):\n"
        "        try: print(socket.gethostbyname(name)); break\n"
        "        except OSError: time.sleep(0.02)\n"
        "print(socket.gethostbyname(socket.gethostname()))"
    )
    output = await node.output("client", "python3", "-c", script)
    *found, own = output.split()
    assert found == [address] * 5
    assert own == status_of(await node.get("client"))["podIP"] != address


async def test_services_are_in_the_environment(node: Node) -> None:
    await node.put("Service", "my-db", spec={"selector": {"app": "db"}, "ports": [{"port": 5432}]})
    assert await node.output("p", "sh", "-c", "echo $MY_DB_SERVICE_PORT") == "5432\n"


RESIZE = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]


async def test_what_has_no_effect_is_named(node: Node) -> None:
    await node.create("p", container={"resizePolicy": RESIZE, "securityContext": {"privileged": True}})
    await node.ended("p")
    (event,) = [e for e in await node.events("p") if e.startswith("FieldIgnored")]
    assert "spec.containers[0].resizePolicy" in event and "privileged" in event


@pytest.mark.parametrize(("read_only", "said"), [(False, "written written"), (True, "sealed sealed")])
async def test_a_read_only_root_can_only_be_written_to_in_volumes(node: Node, read_only: bool, said: str) -> None:
    script = (
        "for f in /opt/x /tmp/x; do (touch $f) 2>/dev/null && echo written || echo sealed; done; touch /v/x /dev/shm/x"
    )
    container = {
        "securityContext": {"readOnlyRootFilesystem": read_only},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    await node.create("p", "sh", "-c", script, container=container, volumes=[{"name": "v", "emptyDir": {}}])
    ended = await node.ended("p")
    assert ended["status"]["phase"] == "Succeeded", await node.logs("p")
    assert (await node.logs("p")).split() == said.split()


async def test_a_pod_that_wants_kernel_parameters_fails_and_names_them(node: Node) -> None:
    await node.create("p", "true", securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]})
    status = (await node.ended("p"))["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "SysctlForbidden")
    assert '"kernel.msgmax"' in status["message"]


async def test_a_liveness_probe_restarts_it(node: Node) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    await node.create(
        "p", "sleep", "60", container={"livenessProbe": probe}, restartPolicy="Always", terminationGracePeriodSeconds=0
    )  # fmt: skip
    await node.until("p", lambda pod: (status_of(pod).get("containerStatuses") or [{}])[0].get("restartCount", 0) > 0)
    events = await node.events("p")
    assert any(event.startswith("Unhealthy: Liveness probe failed: ") for event in events)
    assert not any(event.count("probe failed") > 1 for event in events)
    assert "Killing: Container main failed liveness probe, will be restarted" in events


@pytest.mark.skipif(not can_limit()[0], reason="needs control groups")
async def test_too_much_memory(node: Node) -> None:
    script = "x = bytearray(200_000_000)"
    await node.create("p", "python3", "-c", script, container={"resources": {"limits": {"memory": "50Mi"}}})
    terminated = container(await node.ended("p"))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")
    assert any("its limit is 50Mi" in event for event in await node.events("p"))


async def test_without_isolation(new_node: Callable[..., Node]) -> None:
    node: Any = new_node(isolation="none")
    await node.start()
    env = [{"name": "A", "value": "1"}]
    assert await node.output("p", "sh", "-c", "echo $A; pwd", container={"env": env}) == "1\n/tmp\n"
    volumes = [{"name": "v", "emptyDir": {}}]
    await node.create("q", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=volumes)
    assert "cannot mount anything at /v" in waiting(await node.until("q", waiting))["message"]
    await node.stop()


async def test_an_image_may_be_mapped_to_a_root_file_system(new_node: Callable[..., Node], tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("etc", "tmp", "dev", "proc"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc" / "image").write_text("mapped\n")
    node: Any = new_node(images={"team/*": ImageSettings(rootfs=str(root), command=("/bin/cat", "/etc/image"))})
    await node.start()
    image = {"image": "team/x:1", "volumeMounts": [{"name": "usr", "mountPath": "/usr", "readOnly": True}]}
    volumes = [{"name": "usr", "hostPath": {"path": "/usr"}}]
    assert await node.output("a", container={**image, "command": None}, volumes=volumes) == "mapped\n"
    script = "echo $$ > /dev/null; cat /etc/hostname; ls /proc/self/exe; echo x > /tmp/f; cat /tmp/f; ls /dev/shm"
    assert await node.output("b", "sh", "-c", script, container=image, volumes=volumes) == "b\n/proc/self/exe\nx\n"
    assert not (root / "tmp" / "f").exists()
    script = "cat /etc/image; echo $$ > /etc/image; cp /etc/image /etc/new"
    for name in ("c", "d"):
        assert await node.output(name, "sh", "-c", script, container=image, volumes=volumes) == "mapped\n"
    assert (root / "etc" / "image").read_text() == "mapped\n"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["image"]
    await node.stop()


async def test_usage(node: Node) -> None:
    pod = await node.create(
        "p", "python3", "-c", "x = bytearray(80_000_000); print(flush=True); import time; time.sleep(60)",
        terminationGracePeriodSeconds=0,
    )  # fmt: skip
    await node.phase("p", "Running")
    await node.wait_until(lambda: node.agent.usage()[meta(pod)["uid"]].memory_bytes > 80_000_000)


async def test_the_node_is_registered(node: Node) -> None:
    found = await node.cluster.get(NODE, "node")
    assert {c["type"]: c["status"] for c in status_of(found)["conditions"]}["Ready"] == "True"
    assert status_of(found)["capacity"]["cpu"] == str(len(os.sched_getaffinity(0)))


async def test_only_logs_and_outputs_stay_of_a_pod_that_has_ended(node: Node) -> None:
    keep = {"annotations": {KEEP_FILES_ANNOTATION: json.dumps({"main": ["/tmp/out"]})}}
    silent = await node.create("silent", "true")
    speaks = await node.create("speaks", "sh", "-c", "echo hello; echo x > /tmp/out", metadata=keep)
    for name in ("silent", "speaks"):
        await node.ended(name)
    await node.wait_until(lambda: not node.folder(silent).exists())
    await node.wait_until(lambda: [path.name for path in node.folder(speaks).iterdir()] == ["kept"])
    assert await node.logs("speaks") == "hello\n"
    assert await node.logs("silent") == ""
    await node.restart()
    assert await node.logs("speaks") == "hello\n"
    await node.delete("speaks")
    await node.vanished("speaks")
    await node.wait_until(lambda: not node.folder(speaks).exists())
