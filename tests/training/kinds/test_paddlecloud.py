"""The environment of replicas of a PaddleCloud job by mode, and the job's status."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.cluster import Endpoint
from muster.kube.objects import Object
from muster.training.etcd import EtcdEntry
from muster.training.kinds.paddlecloud import ETCD_ANNOTATION, PaddleCloud
from muster.training.model import PeerDirectory, Replica, ReplicaCount
from tests.training.sample_jobs import cluster_addresses, loopback_addresses

DIALECT = PaddleCloud()


def job(annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    def role(replicas: int) -> Object:
        containers = [{"name": "train", "image": "i"}, {"name": "log", "image": "i"}]
        return {"replicas": replicas, "template": {"spec": {"containers": containers}}}

    roles = {name: role(said) if name in ("ps", "worker", "heter") else said for name, said in spec.items()}
    meta = {"name": "job", "namespace": "default", "uid": "u", "annotations": annotations or {}}
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": meta, "spec": roles}


def told(obj: Object, role: str, index: int) -> dict[str, Any]:
    read = DIALECT.read(obj)
    extra = {name: Endpoint("127.0.0.1", 30000) for name in DIALECT.extra_ports(read)}
    wiring = DIALECT.wiring(read, Replica(role, index), {**loopback_addresses(read), **extra})
    assert wiring.only_container == "train"
    return dict(wiring.env)


AT_PODS = {"fieldRef": {"fieldPath": "status.podIP"}}


@pytest.mark.parametrize(
    ("obj", "role", "index", "env"),
    [
        (job(ps=1, worker=2, withGloo=1), "worker", 1, {
            "POD_IP": AT_PODS, "PADDLE_TRAINER_ID": "1", "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_PORT": "20002", "TRAINER_PORTS_NUM": "20",
        }),
        (job(ps=1, worker=1, heter=1, intranet="Service"), "heter", 0, {
            "POD_IP": "127.0.0.1", "PADDLE_TRAINER_ID": "0", "TRAINING_ROLE": "HETER", "PADDLE_TRAINING_ROLE": "HETER",
            "PADDLE_PORT": "20002", "TRAINER_PORTS_NUM": "20", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:20000",
            "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:20001", "PADDLE_TRAINERS": "127.0.0.1", "PADDLE_TRAINERS_NUM": "1",
            "PADDLE_HETER_ENDPOINTS": "127.0.0.1:20002",
        }),
        (job(worker=2), "worker", 1, {
            "POD_IP": AT_PODS, "PADDLE_TRAINER_ID": "1", "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_PORT": "20000", "TRAINER_PORTS_NUM": "20",
        }),
        (job({ETCD_ANNOTATION: "etcd:2379"}, worker=2, elastic=1), "worker", 1, {
            "POD_IP": "127.0.0.1", "PADDLE_TRAINER_ID": "1", "TRAINING_ROLE": "TRAINER",
            "PADDLE_TRAINING_ROLE": "TRAINER", "PADDLE_ELASTIC_SERVER": "etcd:2379",
            "PADDLE_ELASTIC_JOB_ID": "default-job", "PADDLE_ELASTIC_NP": "2", "PADDLE_ELASTIC_TIMEOUT": "60",
        }),
    ],
    ids=["PS with gloo", "Heter by names", "Collective", "elastic"],
)  # fmt: skip
def test_environment(obj: Object, role: str, index: int, env: dict[str, str]) -> None:
    assert told(obj, role, index) == env


def test_workers_of_a_collective_job_meet_at_one_port_of_their_own_addresses() -> None:
    """The launcher of Paddle 2.0 to 2.2 takes its own port for those of the others; later ones read PADDLE_MASTER."""
    read = DIALECT.read(job(worker=2))
    places = {Replica("worker", 0): "127.1.0.1", Replica("worker", 1): "127.1.0.2"}
    assert DIALECT.peer_directory(read, loopback_addresses(read), places) == PeerDirectory(
        "job",
        {
            "PADDLE_TRAINER_ENDPOINTS": "127.1.0.1:20000,127.1.0.2:20000",
            "PADDLE_TRAINERS": "127.1.0.1,127.1.0.2",
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_MASTER": "127.1.0.1:20000",
            "PADDLE_NNODES": "2",
        },
    )


def test_parameter_servers_keep_ports_of_their_own() -> None:
    """Programs may bind every interface, and the Pods of the embedded cluster share them."""
    read = DIALECT.read(job(ps=2, worker=1))
    places = {Replica("ps", 0): "127.1.0.1", Replica("ps", 1): "127.1.0.2", Replica("worker", 0): "127.1.0.3"}
    found = DIALECT.peer_directory(read, loopback_addresses(read), places)
    assert found is not None
    assert found.content is not None
    assert found.content["PADDLE_PSERVERS_IP_PORT_LIST"] == "127.1.0.1:20000,127.1.0.2:20001"
    assert "PADDLE_MASTER" not in found.content


PLACES = {"ps-0": "10.0.0.1", "worker-0": "10.0.0.2", "worker-1": "10.0.0.3"}


@pytest.mark.parametrize(
    ("intranet", "more", "named", "pod_ip", "config_map"),
    [
        ("PodIP", {}, True, AT_PODS, "job"),
        ("PodIP", {}, False, AT_PODS, "job"),
        ("Service", {}, False, "127.0.0.1", ""),
        ("PodIP", {"elastic": 1}, True, "job-worker-0", ""),
        ("Service", {}, True, "job-worker-0", ""),
        ("Host", {}, True, AT_PODS, "job"),
        ("", {}, True, AT_PODS, "job"),
    ],
)
def test_members_that_meet_at_the_addresses_of_pods_wait_for_them(
    intranet: str, more: dict[str, Any], named: bool, pod_ip: str | Object, config_map: str
) -> None:
    read = DIALECT.read(job(worker=2, intranet=intranet, **more))
    addresses = cluster_addresses(DIALECT, read) if named else loopback_addresses(read)
    wiring = DIALECT.wiring(read, Replica("worker", 0), addresses)
    assert (wiring.env["POD_IP"], wiring.from_config_map) == (pod_ip, config_map)
    assert ("PADDLE_TRAINER_ENDPOINTS" in wiring.env) == (not config_map and not more)
    assert (DIALECT.peer_directory(read, addresses, {}) is not None) == bool(config_map)


def test_a_single_worker_does_not_wait() -> None:
    read = DIALECT.read(job(worker=1))
    addresses = cluster_addresses(DIALECT, read)
    wiring = DIALECT.wiring(read, Replica("worker", 0), addresses)
    told = {name: wiring.env[name] for name in ("POD_IP", "PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS")}
    assert told == {"POD_IP": AT_PODS, "PADDLE_TRAINER_ENDPOINTS": "$(POD_IP):2379", "PADDLE_TRAINERS": "$(POD_IP)"}
    assert list(wiring.env).index("POD_IP") < list(wiring.env).index("PADDLE_TRAINERS"), "named ones come first"
    assert (wiring.from_config_map, DIALECT.peer_directory(read, addresses, {})) == ("", None)


@pytest.mark.parametrize(
    ("known", "content"),
    [
        ((), None),
        (("ps-0", "worker-1"), None),
        (("ps-0", "worker-0", "worker-1"), {
            "PADDLE_PSERVERS_IP_PORT_LIST": "10.0.0.1:2379",
            "PADDLE_TRAINER_ENDPOINTS": "10.0.0.2:2379,10.0.0.3:2379",
            "PADDLE_TRAINERS": "10.0.0.2,10.0.0.3",
            "PADDLE_TRAINERS_NUM": "2",
            "PADDLE_WITH_GLOO": "1",
            "PADDLE_GLOO_RENDEZVOUS": "3",
            "PADDLE_GLOO_HTTP_ENDPOINT": "10.0.0.1:2397",
        }),
    ],
)  # fmt: skip
def test_addresses_are_set_when_all_are_known(known: tuple[str, ...], content: dict[str, str] | None) -> None:
    read = DIALECT.read(job(ps=1, worker=2, withGloo=1, intranet="PodIP"))
    places = {replica: PLACES[replica.suffix] for replica in read.replicas() if replica.suffix in known}
    addresses = cluster_addresses(DIALECT, read)
    extra = {name: Endpoint("job-ps-0", port, ".default.svc") for name, (_, port) in DIALECT.extra_ports(read).items()}
    assert DIALECT.peer_directory(read, {**addresses, **extra}, places) == PeerDirectory("job", content)


@pytest.mark.parametrize(
    ("gloo", "intranet", "used"), [(0, "", False), (1, "", True), (2, "PodIP", True), (1, "Service", False)]
)
def test_gloo_only_where_members_have_addresses(gloo: int, intranet: str, used: bool) -> None:
    read = DIALECT.read(job(ps=1, worker=1, withGloo=gloo, intranet=intranet))
    assert bool(DIALECT.extra_ports(read)) == used
    extra = {name: Endpoint("127.0.0.1", 30000) for name in DIALECT.extra_ports(read)}
    addresses = {**loopback_addresses(read), **extra}
    places = dict.fromkeys(read.replicas(), "127.1.0.1")
    found = DIALECT.peer_directory(read, addresses, places)
    given = found.content if found is not None else DIALECT.wiring(read, Replica("ps", 0), addresses).env
    assert given is not None
    assert ("PADDLE_WITH_GLOO" in given) == used


@pytest.mark.parametrize(
    ("spec", "mode"), [({"ps": 1, "worker": 1}, "PS"), ({"worker": 2}, "Collective"), ({"worker": 1}, "Single")]
)
def test_modes(spec: dict[str, Any], mode: str) -> None:
    read = DIALECT.read(job(**spec))
    progress = DIALECT.read_progress(read.object)
    status = DIALECT.write_status(read, progress, {role.name: ReplicaCount() for role in read.roles}, ())
    assert (status["mode"], status["phase"]) == (mode, "Pending")


@pytest.mark.parametrize(
    ("annotations", "spec", "news"),
    [
        ({ETCD_ANNOTATION: "etcd:2379"}, {"elastic": 1}, EtcdEntry("etcd:2379", "/paddle/default-job/np", "3")),
        ({}, {"elastic": 1}, None),
        ({ETCD_ANNOTATION: "etcd:2379"}, {}, None),
    ],
)
def test_the_number_of_workers_of_an_elastic_job(
    annotations: dict[str, str], spec: dict[str, int], news: EtcdEntry | None
) -> None:
    assert DIALECT.etcd_entry(DIALECT.read(job(annotations, worker=3, **spec))) == news
