"""Jobs on a real embedded cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from muster.dispatch import ClusterAdapter, Dispatcher, JobCancelled, JobFailed, LocalAdapter, Resources, secret
from muster.kube.builtin import POD, SECRET
from muster.kube.objects import labels_of
from muster.kube.remote.client import RemoteCluster
from muster.kube.remote.kubeconfig import load_kubeconfig
from tests.chaos.real_server import RealServer
from tests.dispatch import shop
from tests.dispatch.test_dispatcher import until

New = Callable[..., Dispatcher]
SMALL = Resources(cpu=0.1, memory="50Mi")


@pytest.fixture
def local(new_dispatcher: New, box: RealServer, monkeypatch: pytest.MonkeyPatch) -> Dispatcher:
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    adapter = LocalAdapter(home=box.home, env={"SHOP_KEY": secret("env:SHOP_KEY")})
    dispatcher = new_dispatcher(adapter)
    dispatcher.function("wait-for-cancel", resources=SMALL)(shop.wait_for_cancel)
    dispatcher.function("wait-for-file", resources=SMALL)(shop.wait_for_file)
    dispatcher.function("read-key", resources=SMALL)(shop.read_key)
    dispatcher.container("ranks", resources=SMALL)(shop.Ranks)
    return dispatcher


def leftovers(box: RealServer, job_id: str) -> list[str]:
    """Returns the Pods and Secrets that a job left behind."""

    async def look() -> list[str]:
        async with RemoteCluster(load_kubeconfig(box.home / "kubeconfig")) as cluster:
            found = [obj for kind in (POD, SECRET) for obj in (await cluster.list(kind, "default")).items]
            return [obj["kind"] for obj in found if job_id in str(labels_of(obj))]

    return asyncio.run(look())


def test_functions_run_as_pods_which_are_removed(local: Dispatcher, box: RealServer) -> None:
    with local:
        job = local.submit("add", {"a": 1, "b": 2}, resources=SMALL)
        assert job.result(60) == 3
        assert job.refresh().hosts != ()
        with pytest.raises(JobFailed) as failed:
            local.submit("fail", {"message": "disk on fire"}, resources=SMALL).result(60)
        assert failed.value.fault.message == "ValueError: disk on fire"
        assert failed.value.fault.log_tail[-1] == "ValueError: disk on fire"
        assert leftovers(box, job.id) == []


def test_a_key_reaches_the_function_and_nothing_else(local: Dispatcher, box: RealServer) -> None:
    with local:
        job = local.submit("read-key")
        assert job.result(60) == "2retnuh"
        assert leftovers(box, job.id) == []
    assert "hunter2" not in str(local.plan("read-key"))
    assert "hunter2" not in "".join(path.read_text() for path in Path(job.refresh().folder).iterdir())


def test_cancel_is_polite_and_keeps_the_log(local: Dispatcher, box: RealServer) -> None:
    with local:
        job = local.submit("wait-for-cancel")
        until(job, "running")
        assert next(iter(job.logs(follow=True))) == "waiting"
        job.cancel(grace=20)
        with pytest.raises(JobCancelled):
            job.result(60)
        assert list(job.logs())[:1] == ["waiting"]
        assert leftovers(box, job.id) == []


def test_the_next_dispatcher_takes_over(local: Dispatcher) -> None:
    with local:
        job = local.submit("wait-for-file")
        until(job, "running")
    (Path(job.refresh().folder) / "go").touch()
    with local:
        assert job.result(60) == "went"
        assert job.refresh().attempt == 1


@pytest.mark.parametrize(("args", "nodes", "ranks"), [({}, 2, 2), ({"manifest": True}, 1, 1)])
def test_several_nodes_and_whole_training_jobs(
    local: Dispatcher, box: RealServer, args: dict[str, bool], nodes: int, ranks: int
) -> None:
    with local:
        job = local.submit("ranks", args, resources=Resources(cpu=0.1, memory="50Mi", nodes=nodes))
        assert job.result(60) == [f"rank-{rank}" for rank in range(ranks)]
        assert len([line for line in job.logs() if f"of {ranks}" in line]) == ranks
        assert job.refresh().external_id is not None
        assert str(job.refresh().external_id).startswith("pytorchjobs.kubeflow.org/")


def test_a_function_without_a_shared_folder_returns_through_the_pod(
    new_dispatcher: New, box: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = ClusterAdapter(box.home / "kubeconfig")
    dispatcher = new_dispatcher(adapter)
    python = Path(shop.__file__).parents[2]
    env = {"PYTHONPATH": f"{python}:{python}/src"}
    adapter.options = type(adapter.options)(namespace="default", env=env)
    dispatcher.function("remote-add", image="python:3.11", resources=SMALL)(shop.add)
    with dispatcher:
        assert dispatcher.submit("remote-add", {"a": 2, "b": 3}).result(60) == 5
        with pytest.raises(JobFailed, match="runs programs of images only"):
            dispatcher.submit("add", {"a": 2}).result(60)


def test_the_key_of_a_training_job_does_not_stay_on_the_cluster(
    new_dispatcher: New, box: RealServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter2")
    dispatcher = new_dispatcher(ClusterAdapter(box.home / "kubeconfig"))
    dispatcher.container("script", resources=Resources(cpu=0.1, memory="50Mi", nodes=2))(shop.Script)
    with dispatcher:
        job = dispatcher.submit("script", {"script": "echo ${#SHOP_KEY}"})
        job.result(60)
        assert [line[-3:] for line in job.logs()] == ["| 7", "| 7"]
        assert leftovers(box, job.id) == []
