"""Real frameworks train across Pods of a real node: our operator runs the jobs of the examples."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, PERSISTENT_VOLUME, POD, ROLE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from muster.kube.cluster import LogQuery
from muster.kube.kinds import Kind
from muster.kube.manifests import load_manifest_files
from muster.kube.objects import Object, name_of, spec_of, status_of, uid_of
from muster.kube.remote.client import RemoteCluster
from tests.cluster.operating import KINDS, operating, owned_by, until_pods, without_the_peer
from tests.cluster.waiting import has, phase_of, until
from tools.cluster.cluster import PARTS
from tools.cluster.cluster import Cluster as RealCluster
from tools.cluster.framework_images import ROOT, framework_image

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

EXAMPLES = ROOT / "examples" / "training"
PATIENCE = 300.0
"""In seconds. A training takes ten to forty on two idle cores."""


@pytest.fixture(scope="module")
def cluster(real: RealCluster) -> Iterator[RealCluster]:
    ended = [name for name in PARTS["node"].components if not real.pid(name)]
    if ended:
        pytest.fail(f"{', '.join(ended)} does not run: make cluster-up PARTS=node")
    with without_the_peer(real):
        yield real


@pytest.fixture(scope="module")
def place(cluster: RealCluster) -> Iterator[str]:
    """A namespace of our operator, shared by all tests: a cluster takes long to remove one."""
    name = f"train-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("wait", "--for=create", "--timeout=60s", "serviceaccount/default", f"--namespace={name}")
    try:
        with operating(cluster, f"--namespace={name}"):
            yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def image(cluster: RealCluster) -> Callable[[str], str]:
    """`image("xgboost")`: makes the image in the example's manifest available on the node."""

    def made(framework: str) -> str:
        folder = EXAMPLES / framework
        files = {f"/workspace/{path.name}": path for path in folder.glob("*.py")}
        name = f"muster-examples/{framework}:latest"
        return cluster.load(framework_image(framework, name, files=files, working_folder="/workspace"))

    return made


@dataclass(frozen=True)
class Training:
    """A job, the expected output of its Pods, and how many of each role succeed."""

    framework: str
    job: Object
    said: Mapping[str, str]
    """A pattern for each Pod. What it captures must be the same for all of them."""
    succeeded: Mapping[str, int]


def example(path: str) -> Object:
    """The job of an example, with Pods that are kept. Its images exist only on the node."""
    (job,) = [
        document.object for document in load_manifest_files([str(EXAMPLES / path)]) if "Job" in document.object["kind"]
    ]
    changed: Object = on_node(job)
    return {**changed, "spec": {**changed["spec"], "runPolicy": {"cleanPodPolicy": "None"}}}


def on_node(thing: Any) -> Any:
    if isinstance(thing, list):
        return [on_node(item) for item in thing]
    if not isinstance(thing, dict):
        return thing
    changed = {key: on_node(value) for key, value in thing.items()}
    if "containers" in changed:
        changed["terminationGracePeriodSeconds"] = 0  # an MPI worker sleeps and never ends
    return {**changed, "imagePullPolicy": "Never"} if "image" in changed else changed


def paddlecloud(intranet: str, command: str) -> Object:
    container = {"name": "paddle", "image": "muster-examples/paddle:latest", "command": ["sh", "-ec", command]}
    job = {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": f"by-{intranet.lower() or 'default'}"},
        "spec": {
            **({"intranet": intranet} if intranet else {}),
            "cleanPodPolicy": "Never",
            "worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        },
    }
    changed: Object = on_node(job)
    return changed


def both(first: str, second: str, pattern: str) -> dict[str, str]:
    return {first: pattern, second: pattern}


TRAININGS: Mapping[str, Training] = {
    "pytorch": Training(
        "pytorch",
        example("pytorch/pytorchjob.yaml"),
        both("spirals-master-0", "spirals-worker-0", r"replica [01]: accuracy (0\.9\d+|1\.0+), same model everywhere"),
        {"Master": 1, "Worker": 1},
    ),
    "xgboost": Training(
        "xgboost",
        example("xgboost/xgboostjob.yaml"),
        both("moons-master-0", "moons-worker-0", r"replica \d: accuracy 0\.9\d+, model (\w+)"),
        {"Master": 1, "Worker": 1},
    ),
    "paddle": Training(
        "paddle",
        example("paddle/paddlejob.yaml"),
        both("collective-worker-0", "collective-worker-1", r"trainer [01]: loss 0\.\d+, (same weights everywhere)"),
        {"Worker": 2},
    ),
    "tensorflow": Training(
        "tensorflow",
        example("tensorflow/tfjob.yaml"),
        both("mirrored-worker-0", "mirrored-worker-1", r"worker \d: loss 0\.0\d+, weights (\[.*\])"),
        {"Worker": 2},
    ),
    "jax": Training(
        "jax",
        example("jax/jaxjob.yaml"),
        both("regression-worker-0", "regression-worker-1", r"process [01]: loss 0\.0\d+, (same weights everywhere)"),
        {"Worker": 2},
    ),
}


async def log_of(remote: RemoteCluster, name: str, namespace: str) -> str:
    return b"".join([piece async for piece in remote.logs(name, namespace)]).decode()


async def until_said(remote: RemoteCluster, name: str, namespace: str, pattern: str) -> None:
    """Waits until a running Pod has logged it."""
    said = b""
    try:
        async with asyncio.timeout(PATIENCE):
            pieces: Any = remote.logs(name, namespace, LogQuery(follow=True))
            async with aclosing(pieces):
                async for piece in pieces:
                    said += piece
                    if re.search(pattern, said.decode(errors="replace")):
                        return
    except TimeoutError:
        pass
    raise AssertionError(f"{name} never said {pattern!r}: {said.decode(errors='replace')[-2000:]}")


def ended(obj: Object) -> bool:
    return has("Succeeded")(obj) or has("Failed")(obj) or phase_of(obj) in ("Completed", "Failed")


def running(pods: Mapping[str, Object]) -> set[str]:
    return {name for name, pod in pods.items() if phase_of(pod) == "Running"}


def train_until_stopped(job: Object) -> Object:
    """The elastic example, which would otherwise end after its last step."""
    (role,) = spec_of(job)["pytorchReplicaSpecs"].items()
    template = role[1]["template"]
    (container,) = template["spec"]["containers"]
    more = {**container, "env": [*container["env"], {"name": "STEPS", "value": "1000000"}]}
    changed = {**template, "spec": {**template["spec"], "containers": [more]}}
    replicas = {role[0]: {**role[1], "template": changed}}
    return {**job, "spec": {**spec_of(job), "pytorchReplicaSpecs": replicas}}


def kind_of(job: Object) -> Kind:
    return KINDS[job["apiVersion"], job["kind"]]


async def submit(remote: RemoteCluster, namespace: str, job: Object) -> Object:
    await remote.discover()
    return await remote.create({**job, "metadata": {**job["metadata"], "namespace": namespace}})


async def wait_until_succeeded(remote: RemoteCluster, job: Object) -> Object:
    """Waits until the job has succeeded. If it fails, reports the logs of its Pods."""
    namespace = job["metadata"]["namespace"]
    done = await until(remote, kind_of(job), name_of(job), namespace, ended, PATIENCE)
    if has("Failed")(done) or phase_of(done) == "Failed":
        said = [
            f"--- {name_of(pod)} {phase_of(pod)}\n{(await log_of(remote, name_of(pod), namespace))[-2000:]}"
            for pod in await owned_by(remote, POD, done)
        ]
        pytest.fail(f"{status_of(done)}\n" + "\n".join(said))
    return done


async def delete(remote: RemoteCluster, job: Object, kinds: Sequence[Kind] = (POD, SERVICE, CONFIG_MAP)) -> None:
    """Deletes the job, and waits until all its objects are gone."""
    namespace = job["metadata"]["namespace"]
    await remote.delete(kind_of(job), name_of(job), namespace)
    async with asyncio.timeout(PATIENCE):
        while left := [name_of(obj) for kind in kinds for obj in await owned_by(remote, kind, job)]:
            print(f"still there: {left}")
            await asyncio.sleep(0.5)


async def captured(remote: RemoteCluster, namespace: str, said: Mapping[str, str]) -> set[str]:
    """Returns what the patterns capture in the logs of the Pods, once each has succeeded."""
    found = set()
    for pod, pattern in said.items():
        last = await until(remote, POD, pod, namespace, lambda p: phase_of(p) in ("Succeeded", "Failed"), PATIENCE)
        text = await log_of(remote, pod, namespace)
        assert phase_of(last) == "Succeeded", text
        assert re.search(pattern, text), f"{pod} did not log {pattern!r}: {text[-2000:]}"
        found.update(re.findall(pattern, text))
    return found


def has_succeeded(kind: str, succeeded: Mapping[str, int]) -> Callable[[Object], bool]:
    """With these conditions and replica counts."""

    def so(job: Object) -> bool:
        conditions = [(c["type"], c["status"], c["reason"]) for c in status_of(job)["conditions"]]
        members = status_of(job)["replicaStatuses"]
        return conditions == [
            ("Created", "True", f"{kind}Created"),
            ("Running", "False", f"{kind}Running"),
            ("Succeeded", "True", f"{kind}Succeeded"),
        ] and {role: {key: status[key] for key in status if key != "selector"} for role, status in members.items()} == {
            role: {"succeeded": number} for role, number in succeeded.items()
        }

    return so


@pytest.mark.parametrize("which", list(TRAININGS))
async def test_members_train_together(
    which: str, place: str, remote: RemoteCluster, image: Callable[[str], str]
) -> None:  # fmt: skip
    training = TRAININGS[which]
    image(training.framework)
    job = await submit(remote, place, training.job)
    await wait_until_succeeded(remote, job)
    assert len(await captured(remote, place, training.said)) == 1
    wanted = has_succeeded(job["kind"], training.succeeded)
    await until(remote, kind_of(job), name_of(job), place, wanted)
    assert {name_of(pod) for pod in await owned_by(remote, POD, job)} == set(training.said)
    assert {name_of(service) for service in await owned_by(remote, SERVICE, job)} == set(training.said)
    await delete(remote, job)


async def test_open_mpi_ranks_connect_although_the_launcher_reaches_only_its_workers(
    place: str, remote: RemoteCluster, image: Callable[[str], str]
) -> None:
    image("mpi")
    job = await submit(remote, place, example("mpi/mpijob.yaml"))
    await wait_until_succeeded(remote, job)
    said = await log_of(remote, "least-squares-launcher", place)
    assert re.findall(r"slope (\S+), offset (\S+); all 2 ranks agree", said) == [("3.000", "-1.000")]
    assert set(re.findall(r"rank \d of 2 on (\S+)", said)) == {"least-squares-worker-0", "least-squares-worker-1"}
    (role,) = await owned_by(remote, ROLE, job)
    assert [(rule["resources"], rule["verbs"], rule.get("resourceNames")) for rule in role["rules"]] == [
        (["pods"], ["get", "list", "watch"], None),
        (["pods/exec"], ["create", "get"], ["least-squares-worker-0", "least-squares-worker-1"]),
    ]
    await delete(remote, job, (POD, CONFIG_MAP, SERVICE_ACCOUNT, ROLE, ROLE_BINDING))


LAUNCH = "exec python -m paddle.distributed.launch --nproc_per_node 1 --log_dir log"
FIRST = "$(test $PADDLE_TRAINER_ID = 0 && echo 127.0.0.1 || echo ${PADDLE_TRAINERS%%,*})"


@pytest.mark.parametrize(
    ("intranet", "command"),
    [
        # The launcher uses PADDLE_TRAINER_ENDPOINTS, and finds itself in it by its own address.
        ("", f"{LAUNCH} train.py"),
        # If they are names, it cannot, so its rank is set.
        ("Service", f"unset PADDLE_TRAINER_ENDPOINTS; {LAUNCH} --master {FIRST}:$PADDLE_PORT --nnodes 2 train.py"),
    ],
    ids=["by address", "by name"],
)
async def test_paddlecloud_workers_connect_by_name_and_by_address(
    place: str, remote: RemoteCluster, image: Callable[[str], str], intranet: str, command: str
) -> None:
    image("paddle")
    job = await submit(remote, place, paddlecloud(intranet, command))
    await wait_until_succeeded(remote, job)
    name = name_of(job)
    pattern = r"trainer [01]: loss 0\.\d+, (same weights everywhere)"
    assert len(await captured(remote, place, both(f"{name}-worker-0", f"{name}-worker-1", pattern))) == 1
    done = await until(remote, kind_of(job), name, place, lambda o: status_of(o)["worker"].get("succeeded") == 2)
    assert (status_of(done)["phase"], status_of(done)["mode"]) == ("Completed", "Collective")
    pods = {name_of(pod): status_of(pod)["podIP"] for pod in await owned_by(remote, POD, job)}
    maps = await owned_by(remote, CONFIG_MAP, job)
    told = [(name_of(found), found["data"]["PADDLE_TRAINERS"]) for found in maps]
    addresses = ",".join(ip for _, ip in sorted(pods.items()))
    assert told == ([] if intranet == "Service" else [(name, addresses)])
    await delete(remote, job)


@pytest.fixture
async def checkpoints(remote: RemoteCluster, place: str, tmp_path: Path) -> AsyncIterator[Path]:
    """The folder of the elastic example's claim."""
    claim = next(
        d.object for d in load_manifest_files([str(EXAMPLES / "pytorch/elastic.yaml")]) if "Claim" in d.object["kind"]
    )
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": place},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(tmp_path)},
            "claimRef": {"namespace": place, "name": name_of(claim)},
        },
    }
    await remote.create(volume)
    await remote.create({**claim, "metadata": {**claim["metadata"], "namespace": place}})
    yield tmp_path
    await remote.delete(PERSISTENT_VOLUME, place)


async def test_an_elastic_job_loses_a_worker_and_continues_from_its_checkpoint(
    place: str, remote: RemoteCluster, image: Callable[[str], str], checkpoints: Path
) -> None:
    image("pytorch")
    job = await submit(remote, place, train_until_stopped(example("pytorch/elastic.yaml")))
    pods = await until_pods(
        remote, place, lambda pods: running(pods) >= {"elastic-worker-0", "elastic-worker-1"}, PATIENCE
    )
    await until_said(remote, "elastic-worker-0", place, r"step +\d+ +world 2")
    await remote.delete(POD, "elastic-worker-1", place, grace_seconds=0)
    lost = uid_of(pods["elastic-worker-1"])
    await until(
        remote, POD, "elastic-worker-1", place, lambda p: uid_of(p) != lost and phase_of(p) == "Running", PATIENCE
    )
    await until_said(remote, "elastic-worker-1", place, r"rank \d of 2 goes on at step [1-9]\d*")
    (checkpoints / "STOP").touch()
    done = await wait_until_succeeded(remote, job)
    said = await log_of(remote, "elastic-worker-0", place)
    assert "same model everywhere" in said
    assert not has("Restarting")(done)
    await delete(remote, job)
