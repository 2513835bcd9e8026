"""Stories of Pods on a real node: real processes, a real store."""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from muster.embedded.agent.cgroups import can_limit
from muster.embedded.agent.settings import ApiAccess, ImageSettings
from muster.kube.builtin import CONFIG_MAP, NODE, POD
from muster.kube.cluster import LogQuery
from muster.kube.errors import BadRequest, NotFound
from muster.kube.objects import Object, meta, status_of


class Node(Protocol):
    """See conftest.py."""

    cluster: Any
    agent: Any
    settings: Any

    async def create(self, name: str, *command: str, **more: Any) -> Object: ...
    async def put(self, kind: str, name: str, **body: Any) -> Object: ...
    async def get(self, name: str) -> Object: ...
    async def delete(self, name: str, grace: int | None = None) -> None: ...
    async def until(self, name: str, condition: Any) -> Object: ...
    async def phase(self, name: str, *phases: str) -> Object: ...
    async def ended(self, name: str) -> Object: ...
    async def vanished(self, name: str) -> None: ...
    async def logs(self, name: str, **query: Any) -> str: ...
    async def output(self, name: str, *command: str, **more: Any) -> str: ...
    async def events(self, name: str) -> list[str]: ...
    async def eventually(self, condition: Any) -> None: ...
    def folder(self, pod: Object) -> Path: ...


def container(pod: Object, index: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = status_of(pod)["containerStatuses"][index]
    return found


def waiting(pod: Object) -> dict[str, str]:
    statuses = status_of(pod).get("containerStatuses") or [{}]
    found: dict[str, str] = (statuses[0].get("state") or {}).get("waiting") or {}
    return found


async def test_a_pod_runs_and_succeeds_in_few_writes(node: Node) -> None:
    start = (await node.cluster.list(POD)).resource_version
    await node.create("p", "sh", "-c", "echo hello; hostname; cat /etc/hostname; pwd")
    pod = await node.ended("p")
    assert status_of(pod)["phase"] == "Succeeded"
    assert container(pod)["state"]["terminated"]["reason"] == "Completed"
    assert await node.logs("p") == "hello\np\np\n/tmp\n"
    assert await node.events("p") == [
        'Pulled: Running "img" as a process of this machine (no image is pulled)',
        "Started: Started container main",
    ]
    writes = 0
    async for event in node.cluster.watch(POD, resource_version=start):
        writes += event.type == "MODIFIED"
        if status_of(event.object).get("phase") == "Succeeded":
            break
    assert writes <= 2


async def test_a_pod_fails_with_what_it_said(node: Node) -> None:
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


async def test_a_missing_secret_is_waited_for(node: Node) -> None:
    env = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}]
    await node.create("p", "sh", "-c", "echo $KEY", container={"env": env})
    pod = await node.until("p", lambda pod: waiting(pod))
    assert waiting(pod) == {"reason": "CreateContainerConfigError", "message": 'secret "keys" not found'}
    assert status_of(pod)["phase"] == "Pending"
    assert 'Failed: Error: secret "keys" not found' in await node.events("p")
    with pytest.raises(BadRequest, match='waiting to start: CreateContainerConfigError: secret "keys" not found'):
        await node.logs("p")
    await node.put("Secret", "keys", data={"k": base64.b64encode(b"sesame").decode()})
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"
    assert await node.logs("p") == "sesame\n"


async def test_a_missing_config_map_volume_is_waited_for(node: Node) -> None:
    volumes = [{"name": "v", "configMap": {"name": "later"}}]
    mounts = [{"name": "v", "mountPath": "/etc/app"}]
    await node.create("p", "cat", "/etc/app/a", container={"volumeMounts": mounts}, volumes=volumes)
    pod = await node.until("p", lambda pod: waiting(pod))
    assert waiting(pod)["reason"] == "ContainerCreating"
    assert any(
        event.startswith('FailedMount: MountVolume.SetUp failed for volume "v"') for event in await node.events("p")
    )
    await node.put("ConfigMap", "later", data={"a": "here"})
    await node.ended("p")
    assert await node.logs("p") == "here"


async def test_an_image_without_a_command_says_what_to_do(node: Node) -> None:
    await node.create("p", container={"command": None, "image": "team/server"})
    pod = await node.until("p", lambda pod: waiting(pod))
    assert waiting(pod)["reason"] == "ImageNeedsCommand"
    assert "command:" in waiting(pod)["message"]


async def test_volumes(node: Node, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    await node.put("ConfigMap", "cm", data={"a.conf": "A", "b.conf": "B"})
    await node.put("Secret", "s", data={"key": base64.b64encode(b"K").decode()})
    volumes = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "host", "hostPath": {"path": str(shared), "type": "DirectoryOrCreate"}},
        {"name": "cm", "configMap": {"name": "cm"}},
        {"name": "secret", "secret": {"secretName": "s", "defaultMode": 0o400}},
        {"name": "me", "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    mounts = [
        {"name": "scratch", "mountPath": "/no/such/place/scratch"},
        {"name": "memory", "mountPath": "/memory", "subPath": "deep/down"},
        {"name": "host", "mountPath": "/host", "subPathExpr": "$(NAME)"},
        {"name": "cm", "mountPath": "/cm"},
        {"name": "cm", "mountPath": "/only/this", "subPath": "b.conf"},
        {"name": "secret", "mountPath": "/secret"},
        {"name": "me", "mountPath": "/me"},
        {"name": "scratch", "mountPath": "/frozen", "readOnly": True},
    ]
    script = """
        cat /cm/a.conf /only/this /secret/key /me/name; echo
        stat -Lc %a /secret/key
        echo x > /no/such/place/scratch/f && cat /frozen/f
        touch /frozen/g 2>/dev/null || echo frozen
        touch /cm/g 2>/dev/null || echo read-only
        head -c 2000000 /dev/zero > /memory/f 2>/dev/null || echo full
        echo done > /host/out
    """
    env = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    output = await node.output(
        "p", "sh", "-c", script, container={"volumeMounts": mounts, "env": env}, volumes=volumes
    )  # fmt: skip
    assert output == "ABKp\n400\nx\nfrozen\nread-only\nfull\n"
    assert (shared / "p" / "out").read_text() == "done\n"
    assert not os.path.exists("/no/such/place")


async def test_two_pods_do_not_share_tmp_and_leave_nothing(node: Node) -> None:
    script = "test ! -e /tmp/muster-test && touch /tmp/muster-test /dev/shm/muster-test && echo alone"
    assert await node.output("a", "sh", "-c", script) == "alone\n"
    assert await node.output("b", "sh", "-c", script) == "alone\n"
    assert not os.path.exists("/tmp/muster-test") and not os.path.exists("/dev/shm/muster-test")


async def test_a_config_map_is_followed_while_the_pod_runs(node: Node) -> None:
    await node.put("ConfigMap", "cm", data={"a": "old"})
    volumes = [{"name": "v", "configMap": {"name": "cm"}}]
    await node.create(
        "p", "sh", "-c", "until grep -q new /cm/a; do sleep 0.02; done; cat /cm/a",
        container={"volumeMounts": [{"name": "v", "mountPath": "/cm"}]}, volumes=volumes,
    )  # fmt: skip
    await node.phase("p", "Running")
    await node.cluster.patch(CONFIG_MAP, "cm", "default", {"data": {"a": "new"}})
    await node.ended("p")
    assert await node.logs("p") == "new"


async def test_labels_are_followed_while_the_pod_runs(node: Node) -> None:
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    await node.create(
        "p", "sh", "-c", "until grep -q moon /me/labels; do sleep 0.02; done",
        container={"volumeMounts": [{"name": "v", "mountPath": "/me"}]},
        volumes=[{"name": "v", "downwardAPI": {"items": items}}], metadata={"labels": {"goal": "sun"}},
    )  # fmt: skip
    await node.phase("p", "Running")
    await node.cluster.patch(POD, "p", "default", {"metadata": {"labels": {"goal": "moon"}}})
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"


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


async def test_what_waits_has_a_deadline_too(node: Node) -> None:
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
    await node.eventually(lambda: not node.folder(pod).exists())
    assert "Killing: Stopping container main" in await node.events("p")


async def test_what_does_not_end_is_killed_after_its_grace(node: Node) -> None:
    await node.create("p", "sh", "-c", 'trap "" TERM; echo up; while true; do sleep 0.1; done')
    await node.phase("p", "Running")
    await node.delete("p", grace=1)
    ended = await node.until("p", lambda pod: status_of(pod)["phase"] == "Failed")
    assert container(ended)["state"]["terminated"]["exitCode"] == 137
    await node.vanished("p")


async def test_a_forced_deletion_kills_at_once(node: Node, tmp_path: Path) -> None:
    pod = await node.create("p", "sh", "-c", 'trap "" TERM; sleep 600')
    await node.phase("p", "Running")
    (pid,) = [w.progress.of("main").pid for w in node.agent._works.values()]
    await node.delete("p", grace=0)
    with pytest.raises(NotFound):
        await node.get("p")
    await node.eventually(lambda: not node.folder(pod).exists())
    await node.eventually(lambda: not os.path.exists(f"/proc/{pid}"))


async def test_a_pod_may_be_deleted_before_it_began(node: Node) -> None:
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


async def test_logs_can_be_followed(node: Node) -> None:
    await node.create("p", "sh", "-c", "for i in 1 2 3; do echo $i; sleep 0.1; done")
    await node.phase("p", "Running", "Succeeded")
    pieces = [piece async for piece in node.cluster.logs("p", "default", LogQuery(follow=True))]
    assert b"".join(pieces) == b"1\n2\n3\n"
    assert await node.logs("p", tail_lines=1) == "3\n"


async def test_a_silent_pod_has_an_empty_log(node: Node) -> None:
    assert await node.output("p", "true") == ""
    with pytest.raises(BadRequest, match=r"container nope is not valid for pod p, choose one of: \[main\]"):
        await node.logs("p", container="nope")
    with pytest.raises(NotFound):
        await node.logs("never-was")


async def test_exec(node: Node) -> None:
    await node.create(
        "p", "sleep", "60", terminationGracePeriodSeconds=0, container={"env": [{"name": "A", "value": "1"}]}
    )
    await node.phase("p", "Running")
    process = await node.cluster.exec("p", "default", ["sh", "-c", "echo $A; cat; echo err >&2; exit 7"], stdin=True)
    await process.write(b"in\n")
    await process.write(b"")
    output: dict[int, bytes] = {1: b"", 2: b""}
    async for stream, data in process.output():
        output[stream] += data
    assert output == {1: b"1\nin\n", 2: b"err\n"}
    assert await process.wait() == 7
    await process.close()
    await process.close()


async def test_exec_with_a_terminal(node: Node) -> None:
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    process = await node.cluster.exec(
        "p", "default", ["sh", "-c", "read x; stty size; test -t 1"], stdin=True, tty=True
    )
    await process.resize(40, 132)
    await process.write(b"go\n")
    text = b"".join([data async for _, data in process.output()])
    assert b"40 132" in text
    assert await process.wait() == 0
    await process.close()


async def test_exec_that_nobody_wants_any_more_is_ended(node: Node) -> None:
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    process = await node.cluster.exec("p", "default", ["sh", "-c", "echo $$; sleep 600"])
    async for _ in process.output():
        break
    await process.close()
    check = await node.cluster.exec(
        "p",
        "default",
        ["sh", "-c", "for i in $(seq 100); do pgrep -f '[s]leep 600' || exit 0; sleep 0.02; done; exit 1"],
    )
    assert await check.wait() == 0
    await check.close()


async def test_exec_is_refused_with_a_reason(node: Node) -> None:
    with pytest.raises(NotFound):
        await node.cluster.exec("none", "default", ["true"])
    await node.create("done")
    await node.ended("done")
    with pytest.raises(BadRequest, match="completed pod"):
        await node.cluster.exec("done", "default", ["true"])
    await node.create("p", "sleep", "60", terminationGracePeriodSeconds=0)
    await node.phase("p", "Running")
    with pytest.raises(BadRequest, match="not valid for pod p"):
        await node.cluster.exec("p", "default", ["true"], container="nope")
    with pytest.raises(BadRequest, match="no-such-command"):
        await node.cluster.exec("p", "default", ["no-such-command"])


async def test_what_has_no_effect_is_named(node: Node) -> None:
    await node.create("p", container={"tty": True, "securityContext": {"readOnlyRootFilesystem": True}})
    await node.ended("p")
    (event,) = [e for e in await node.events("p") if e.startswith("FieldIgnored")]
    assert "spec.containers[0].tty" in event and "readOnlyRootFilesystem" in event


async def test_a_liveness_probe_restarts_it(node: Node) -> None:
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    await node.create(
        "p", "sleep", "60", container={"livenessProbe": probe}, restartPolicy="Always", terminationGracePeriodSeconds=0
    )  # fmt: skip
    await node.until("p", lambda pod: (status_of(pod).get("containerStatuses") or [{}])[0].get("restartCount", 0) > 0)
    events = await node.events("p")
    assert any(event.startswith("Unhealthy: Liveness probe failed") for event in events)
    assert "Killing: Container main failed liveness probe, will be restarted" in events


@pytest.mark.skipif(not can_limit()[0], reason="needs control groups")
async def test_too_much_memory(node: Node) -> None:
    script = "x = bytearray(200_000_000)"
    await node.create("p", "python3", "-c", script, container={"resources": {"limits": {"memory": "50Mi"}}})
    terminated = container(await node.ended("p"))["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "OOMKilled")
    assert any("its limit is 50Mi" in event for event in await node.events("p"))


async def test_a_service_account_token_is_there_and_stays_fresh(new_node: Callable[..., Node]) -> None:
    tokens = iter(range(1, 100))
    api = ApiAccess("127.0.0.1", 6443, "CERTIFICATE", lambda _pod, _audience, _seconds: f"token-{next(tokens)}")
    node: Any = new_node(api=api)
    await node.start()
    script = """
        cd /var/run/secrets/kubernetes.io/serviceaccount
        cat ca.crt namespace; echo $KUBERNETES_SERVICE_PORT
        until grep -q token-2 token; do sleep 0.02; done
    """
    await node.create("p", "sh", "-c", script)
    await node.phase("p", "Running")
    (work,) = node.agent._works.values()
    assert not work.has_old_tokens(time.time())
    assert work.has_old_tokens(time.time() + 3600)
    node.agent._controller.enqueue(work.uid)
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"
    assert await node.logs("p") == "CERTIFICATEdefault6443\n"
    await node.stop()


async def test_without_isolation(new_node: Callable[..., Node]) -> None:
    node: Any = new_node(isolation="none")
    await node.start()
    env = [{"name": "A", "value": "1"}]
    assert await node.output("p", "sh", "-c", "echo $A; pwd", container={"env": env}) == "1\n/tmp\n"
    volumes = [{"name": "v", "emptyDir": {}}]
    await node.create("q", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, volumes=volumes)
    assert "nothing can be mounted at /v" in waiting(await node.until("q", waiting))["message"]
    await node.stop()


@pytest.mark.skipif(shutil.which("busybox") is None, reason="needs a static busybox (Debian: busybox-static)")
async def test_an_image_may_be_mapped_to_a_folder(new_node: Callable[..., Node], tmp_path: Path) -> None:
    root = tmp_path / "root"
    for name in ("bin", "etc", "tmp", "dev", "proc"):
        (root / name).mkdir(parents=True)
    shutil.copy(str(shutil.which("busybox")), root / "bin" / "busybox")
    for name in ("sh", "cat", "ls"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "etc" / "image").write_text("mapped\n")
    node: Any = new_node(images={"team/*": ImageSettings(rootfs=str(root), command=("/bin/cat", "/etc/image"))})
    await node.start()
    assert await node.output("a", container={"image": "team/x:1", "command": None}) == "mapped\n"
    script = "echo $$ > /dev/null; cat /etc/hostname; ls /proc/self/exe; echo x > /tmp/f; cat /tmp/f; ls /dev/shm"
    assert await node.output("b", "sh", "-c", script, container={"image": "team/x"}) == "b\n/proc/self/exe\nx\n"
    assert not (root / "tmp" / "f").exists()
    await node.stop()


async def test_usage(node: Node) -> None:
    pod = await node.create(
        "p", "python3", "-c", "x = bytearray(80_000_000); print(flush=True); import time; time.sleep(60)",
        terminationGracePeriodSeconds=0,
    )  # fmt: skip
    await node.phase("p", "Running")
    await node.eventually(lambda: node.agent.usage()[meta(pod)["uid"]].memory_bytes > 80_000_000)


async def test_the_node_is_registered(node: Node) -> None:
    found = await node.cluster.get(NODE, "node")
    assert {c["type"]: c["status"] for c in status_of(found)["conditions"]}["Ready"] == "True"
    assert status_of(found)["capacity"]["cpu"] == str(len(os.sched_getaffinity(0)))
