"""The files that a Pod on a real node finds, and what it waits for."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.settings import ApiAccess
from muster.kube.builtin import CONFIG_MAP, POD
from muster.kube.errors import BadRequest
from muster.kube.objects import status_of
from tests.embedded.node.harness import Node, waiting


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
    (work,) = node.agent._workers.values()
    assert not work.has_old_tokens(time.time())
    assert work.has_old_tokens(time.time() + 3600)
    node.agent._controller.enqueue(work.uid)
    assert status_of(await node.ended("p"))["phase"] == "Succeeded"
    assert await node.logs("p") == "CERTIFICATEdefault6443\n"
    await node.stop()
