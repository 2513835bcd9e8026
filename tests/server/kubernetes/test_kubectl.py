"""The real kubectl against our API."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from muster.kube.builtin import POD
from muster.workflows.cron.cron_jobs import CRON_JOB
from muster.workspaces.kinds import workspace_kinds
from tests.server.kubernetes.served import Served, free_environment, on_standing, serving
from tests.workspaces.sample_workspaces import SAMPLES

KUBECTL = os.environ.get("MUSTER_TEST_KUBECTL") or shutil.which("kubectl") or ""
pytestmark = [
    on_standing,
    pytest.mark.skipif(not KUBECTL, reason="there is no kubectl: install one, or name it in MUSTER_TEST_KUBECTL"),
]

POD_YAML = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: busybox
    command: [sleep, "1000"]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: "1"}
"""


class Kubectl:
    def __init__(self, served: Served, home: Path) -> None:
        self.served = served
        self._environment = {**free_environment(home), "KUBECONFIG": str(served.kubeconfig)}

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe
        )

    async def fails(self, *arguments: str, stdin: str = "") -> str:
        return (await self._run(arguments, stdin, fine=False))[1]

    async def __call__(self, *arguments: str, stdin: str = "") -> str:
        return (await self._run(arguments, stdin, fine=True))[0]

    async def warns(self, *arguments: str, stdin: str = "") -> str:
        return (await self._run(arguments, stdin, fine=True))[1]

    async def _run(self, arguments: tuple[str, ...], stdin: str, *, fine: bool) -> tuple[str, str]:
        process = await self.start(*arguments)
        async with asyncio.timeout(60):
            output, errors = await process.communicate(stdin.encode())
        assert (process.returncode == 0) is fine, (arguments, process.returncode, output, errors)
        return output.decode(), errors.decode()

    async def version(self) -> tuple[int, int]:
        found = re.search(r"v(\d+)\.(\d+)", await self("version", "--client"))
        assert found is not None
        return int(found[1]), int(found[2])


@pytest_asyncio.fixture(loop_scope="module")
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    async with serving(tmp_path) as served:
        yield Kubectl(served, tmp_path)


async def test_api_resources(kubectl: Kubectl) -> None:
    assert "Server Version" in await kubectl("version")
    names = await kubectl("api-resources", "--no-headers")
    assert re.search(r"^pods +po +v1 +true +Pod", names, re.M)
    assert "podgroups" in await kubectl("api-resources", "--api-group=scheduling.volcano.sh")
    assert await kubectl("get", "--raw", "/healthz") == "ok"
    assert "batch/v1" in await kubectl("api-versions")


async def test_a_day_in_the_life_of_a_manifest(kubectl: Kubectl) -> None:
    assert await kubectl("create", "-f", "-", stdin=POD_YAML) == "pod/web created\nconfigmap/conf created\n"
    assert re.search(r"NAME +READY +STATUS +RESTARTS +AGE\nweb +0/1 +Pending +0 ", await kubectl("get", "pods"))
    assert "NOMINATED NODE" in await kubectl("get", "pods", "-o", "wide")
    assert await kubectl("get", "pod,cm", "-o", "name") == "pod/web\nconfigmap/conf\n"
    assert "image: busybox" in await kubectl("get", "pod/web", "-o", "yaml")
    assert "app=web" in await kubectl("get", "pods", "-A", "--show-labels", "-l", "app=web")
    assert "No resources" in await kubectl.warns("get", "pods", "-l", "app=other")
    description = await kubectl("describe", "pod", "web")
    assert "Name:" in description and "busybox" in description
    await kubectl("label", "pod", "web", "tier=front")
    await kubectl("annotate", "pod", "web", "note=hello")
    await kubectl("patch", "cm", "conf", "-p", '{"data":{"b":"2"}}')
    await kubectl("patch", "cm", "conf", "--type=json", "-p", '[{"op":"remove","path":"/data/b"}]')
    await kubectl("set", "image", "pod/web", "main=alpine")
    pod = await kubectl.served.cluster.get(POD, "web", "default")
    assert pod["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert pod["spec"]["containers"][0]["image"] == "alpine"
    assert "deleted" in await kubectl("delete", "pod/web", "cm/conf")
    assert "NotFound" in await kubectl.fails("get", "pod", "web")


async def test_apply(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", stdin=POD_YAML) == "pod/web created\nconfigmap/conf created\n"
    assert await kubectl("apply", "-f", "-", stdin=POD_YAML) == "pod/web unchanged\nconfigmap/conf unchanged\n"
    changed = POD_YAML.replace('a: "1"', 'b: "2"')
    assert "configmap/conf configured" in await kubectl("apply", "-f", "-", stdin=changed)
    assert await kubectl("get", "cm", "conf", "-o", "jsonpath={.data}") == '{"b":"2"}'
    assert "serverside-applied" in await kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=POD_YAML
    )
    assert "(server dry run)" in await kubectl("apply", "--dry-run=server", "-f", "-", stdin=changed)


async def test_an_unknown_field_is_reported(kubectl: Kubectl) -> None:
    wrong = POD_YAML.replace("command:", "comand:")
    assert "comand" in await kubectl.fails("apply", "-f", "-", stdin=wrong)
    assert "comand" in await kubectl.warns("apply", "--validate=false", "-f", "-", stdin=wrong) or (
        await kubectl.version() >= (1, 25)
    )


async def test_explain(kubectl: Kubectl) -> None:
    assert re.search(r"command\s+<\[\]string>", await kubectl("explain", "pod.spec.containers"))
    jobs = await kubectl("explain", "jobs")
    assert "VERSION:" in jobs and "until enough of them have succeeded" in jobs
    if await kubectl.version() >= (1, 27):  # older ones read version 2, which has no descriptions
        assert "folder that the program starts in" in await kubectl("explain", "pod.spec.containers")
        assert "or only if it is" in await kubectl("explain", "pod.spec.containers.imagePullPolicy")


async def test_objects_that_kubectl_creates(kubectl: Kubectl) -> None:
    """Newer versions send these in protobuf."""
    await kubectl("create", "ns", "team")
    for arguments in (
        ("configmap", "c", "--from-literal=a=b"),
        ("secret", "generic", "s", "--from-literal=p=q"),
        ("job", "j", "--image=busybox", "--", "true"),
        ("serviceaccount", "bot"),
        ("role", "reader", "--verb=get,list", "--resource=pods"),
        ("rolebinding", "bot", "--role=reader", "--serviceaccount=team:bot"),
        ("service", "clusterip", "web", "--tcp=80:8080"),
    ):
        assert "created" in await kubectl("-n", "team", "create", *arguments)
    assert await kubectl("-n", "team", "get", "secret", "s", "-o", "jsonpath={.data.p}") == "cQ=="
    assert "created" in await kubectl("-n", "team", "run", "one", "--image=busybox", "--restart=Never")
    assert "deleted" in await kubectl("delete", "ns", "team", "--wait=false")


async def test_quotas_cron_jobs_and_events(kubectl: Kubectl) -> None:
    kubectl.served.cluster.catalogue.register(CRON_JOB)
    await kubectl("create", "quota", "few", "--hard=configmaps=1,requests.nvidia.com/gpu=4")
    await kubectl("create", "configmap", "first")
    assert "exceeded quota: few" in await kubectl.fails("create", "configmap", "second")
    assert re.search(r"few +configmaps: 1/1, requests.nvidia.com/gpu: 0/4", await kubectl("get", "quota"))
    assert re.search(r"configmaps +1 +1", await kubectl("describe", "quota", "few"))
    await kubectl("create", "cronjob", "tick", "--image=busybox", "--schedule=*/5 * * * *", "--", "date")
    assert re.search(r"tick +\*/5 \* \* \* \* +<none> +False +0 +<none>", await kubectl("get", "cj"))
    assert "job.batch/now created" in await kubectl("create", "job", "now", "--from=cronjob/tick")
    assert "events.k8s.io/v1" in await kubectl("api-versions")
    assert "No resources" in await kubectl.warns("get", "events.events.k8s.io")


async def test_permissions(kubectl: Kubectl) -> None:
    await kubectl("create", "sa", "bot")
    await kubectl("create", "role", "reader", "--verb=get,list", "--resource=pods")
    await kubectl("create", "rolebinding", "bot", "--role=reader", "--serviceaccount=default:bot")
    bot = "--as=system:serviceaccount:default:bot"
    assert await kubectl("auth", "can-i", "delete", "pods") == "yes\n"
    assert await kubectl("auth", "can-i", "list", "pods", bot) == "yes\n"
    assert "Forbidden" in await kubectl.fails("get", "secrets", bot)


async def test_watching(kubectl: Kubectl) -> None:
    watch = await kubectl.start("get", "pods", "-w", "--no-headers")
    assert watch.stdout is not None
    await kubectl("run", "one", "--image=x", "--restart=Never")
    async with asyncio.timeout(60):
        assert (await watch.stdout.readline()).startswith(b"one")
        await kubectl("label", "pod", "one", "a=b")
        assert (await watch.stdout.readline()).startswith(b"one")
    watch.terminate()
    await watch.communicate()


async def test_waiting(kubectl: Kubectl) -> None:
    await kubectl("run", "one", "--image=x", "--restart=Never")
    waiting = await kubectl.start("wait", "--for=condition=Ready", "pod/one", "--timeout=50s")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    await kubectl.served.cluster.patch(POD, "one", "default", ready, subresource="status")
    output, _ = await waiting.communicate()
    assert output == b"pod/one condition met\n"


async def running_pod(kubectl: Kubectl) -> None:
    await kubectl("run", "web", "--image=x", "--restart=Never")
    state = {"name": "web", "image": "x", "imageID": "", "ready": True, "restartCount": 0}
    running = {"phase": "Running", "podIP": "127.0.0.1", "containerStatuses": [{**state, "state": {"running": {}}}]}
    await kubectl.served.cluster.patch(POD, "web", "default", {"status": running}, subresource="status")


async def test_logs(kubectl: Kubectl) -> None:
    await running_pod(kubectl)
    kubectl.served.node.container = "web"
    kubectl.served.node.write("default", "web", b"one\n")
    assert await kubectl("logs", "web") == "one\n"
    following = await kubectl.start("logs", "-f", "web")
    assert following.stdout is not None
    async with asyncio.timeout(60):
        assert await following.stdout.readline() == b"one\n"
        kubectl.served.node.write("default", "web", b"two\n")
        assert await following.stdout.readline() == b"two\n"
    following.terminate()
    await following.communicate()


async def test_exec(kubectl: Kubectl) -> None:
    await running_pod(kubectl)
    kubectl.served.node.container = "web"
    if await kubectl.version() < (1, 31):
        assert "kubectl 1.31 or newer" in await kubectl.fails("exec", "web", "--", "echo", "hi")
        return
    assert await kubectl("exec", "-i", "web", "--", "cat", stdin="hello") == "hello"
    process = await kubectl.start("exec", "web", "--", "sh", "-c", "exit 7")
    await process.communicate()
    assert process.returncode == 7


async def test_port_forward(kubectl: Kubectl) -> None:
    await running_pod(kubectl)
    if await kubectl.version() < (1, 31):
        pytest.skip("this kubectl forwards ports over SPDY only")

    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        forwarding = await kubectl.start("port-forward", "pod/web", f":{port}", "--address=127.0.0.1")
        assert forwarding.stdout is not None
        async with asyncio.timeout(60):
            told = re.search(rb"127\.0\.0\.1:(\d+) ->", await forwarding.stdout.readline())
            assert told is not None
            reader, writer = await asyncio.open_connection("127.0.0.1", int(told[1]))
            writer.write(b"hello\n")
            assert await reader.read() == b"HELLO\n"
            writer.close()
        forwarding.terminate()
        await forwarding.communicate()


async def test_the_samples_of_kubeflow_workspaces(kubectl: Kubectl) -> None:
    for kind in workspace_kinds():
        kubectl.served.cluster.catalogue.register(kind)
    made = await kubectl("apply", "-f", "-", stdin=SAMPLES)
    assert made.count("created") == 4
    for version in ("v1", "v1beta1", "v1alpha1"):
        listed = await kubectl("get", f"notebooks.{version}.kubeflow.org", "-o", "name")
        assert listed.count("notebook.kubeflow.org/") == 3
    assert "pvc://tensorboard-logs/mnist" in await kubectl("get", "tensorboards")
    again = await kubectl("apply", "-f", "-", stdin=SAMPLES)
    assert again.count("unchanged") == 4
    await kubectl("annotate", "notebook", "notebook-sample-v1", "kubeflow-resource-stopped=2026-11-17T10:00:00Z")
    wrong = SAMPLES.replace("pvc://tensorboard-logs/mnist", "ftp://host/logs")
    assert "spec.logspath" in await kubectl.fails("apply", "-f", "-", stdin=wrong)
