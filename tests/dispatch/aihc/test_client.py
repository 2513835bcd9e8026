"""The client of AIHC against a strict loopback server: signatures, headers, pages, errors; CreateJob is sent once."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from baidubce.auth.bce_credentials import BceCredentials
from baidubce.bce_client_configuration import BceClientConfiguration
from baidubce.exception import BceHttpClientError
from baidubce.services.aihc.aihc_client import AihcClient as BaiduClient

from muster.dispatch import DispatchError, NoCapacity, Refused, Transient, Unclear, secret
from muster.dispatch.aihc.client import AihcClient, explain_error, is_missing
from muster.dispatch.external import Effect, HttpAnswer, HttpClient
from tests.dispatch.aihc_server import AK, SK, AihcServer

BODY: dict[str, Any] = {
    "name": "a-1",
    "queue": "q-1",
    "command": "sleep 1",
    "jobSpec": {"image": "a:1", "replicas": 2, "resources": [{"name": "cpu", "quantity": 1}]},
}


@pytest.fixture
def server() -> Iterator[AihcServer]:
    with AihcServer() as server:
        yield server


@pytest.fixture
async def client(server: AihcServer) -> AsyncIterator[AihcClient]:
    client = AihcClient(server.url, AK, SK, pool="aihc-serverless")
    yield client
    await client.close()


ERRORS: list[tuple[int, str, type[DispatchError], type[DispatchError]]] = [
    # status, code, what it means for create, and for reads
    (400, "SignatureDoesNotMatch", Refused, Transient),
    (403, "InvalidAccessKeyId", Refused, Transient),
    (403, "AccessDenied", Refused, Transient),
    (400, "InvalidHTTPAuthHeader", Refused, Transient),
    (400, "RequestExpired", Transient, Transient),
    (400, "InvalidParam", Refused, Refused),
    (500, "InvalidParam", Refused, Refused),  # by the code, not by the status
    (400, "MalformedJSON", Refused, Refused),
    (500, "InternalError", Unclear, Transient),
    (400, "InternalError", Unclear, Transient),
    (429, "RequestLimitExceeded", Transient, Transient),
    (400, "TooManyRequests", Transient, Transient),
    (400, "QuotaExceeded", NoCapacity, Transient),
    (409, "JobAlreadyExists", Unclear, Transient),
    (404, "NoSuchJob", Refused, Refused),
    (418, "Teapot", Refused, Refused),
    (503, "Teapot", Unclear, Transient),
    (502, "", Unclear, Transient),
    (404, "", Refused, Refused),
    (429, "", Transient, Transient),
]


@pytest.mark.parametrize(("status", "code", "create", "read"), ERRORS)
def test_errors_are_told_apart_by_code(
    status: int, code: str, create: type[DispatchError], read: type[DispatchError]
) -> None:
    text = orjson.dumps({"requestId": "r", "code": code, "message": "why"}) if code else b"<html>Bad Gateway</html>"
    answer, service = HttpAnswer(status, text), HttpClient("aihc")
    effects: list[tuple[Effect, type[DispatchError]]] = [("create", create), ("read", read)]
    for effect, kind in effects:
        found = explain_error(answer, effect, service)
        assert type(found) is kind
        assert not code or (f"{code}: why (request r)" in found.message and found.code == f"Aihc.{code}")


@pytest.mark.parametrize(
    ("code", "missing"),
    [("NoSuchJob", True), ("JobNotFound", True), ("ResourceNotExist", True), ("InvalidParam", False)],
)
def test_a_missing_job_is_recognized_by_the_words_of_its_code(code: str, missing: bool) -> None:
    assert is_missing(Refused("", code=f"Aihc.{code}")) is missing


async def test_jobs_pools_and_queues(client: AihcClient, server: AihcServer) -> None:
    created = await client.create_job("q-1", BODY)
    assert created["jobName"] == "a-1"
    job_id = created["jobId"]
    assert (await client.describe_job("q-1", job_id))["name"] == "a-1"
    detail = await client.describe_job("q-1", job_id, detail=True)
    assert [pod["name"] for pod in detail["pods"]] == ["a-1-master-0", "a-1-worker-0"]
    assert (await client.describe_jobs("q-1"))["totalCount"] == 1
    assert (await client.describe_jobs("q-2"))["totalCount"] == 0
    assert [event["reason"] for event in await client.describe_job_events("q-1", job_id)] == ["JobCreated"]
    assert await client.describe_pod_events("q-1", job_id, "a-1-master-0") == []
    assert (await client.describe_job_logs("q-1", job_id, "a-1-master-0", max_lines=5))["logs"] == ["$ sleep 1"]
    assert (await client.describe_job_nodes("q-1", job_id))["nodes"] == ["node-0", "node-1"]
    assert (await client.describe_job_webterminal("q-1", job_id, "a-1-master-0"))["WebTerminalUrl"]
    pools = await client.describe_resource_pools("dedicatedV2")
    assert [pool["resourcePoolId"] for pool in pools["resourcePools"]] == ["aihc-pool"]
    assert (await client.describe_resource_pool("aihc-pool"))["resourcePool"]["phase"] == "running"
    queues = await client.describe_queues("aihc-pool")
    assert [queue["queueId"] for queue in queues["queues"]] == ["q-1", "q-2"]
    assert (await client.describe_queue("q-2"))["queue"]["queueName"] == "team-b"
    await client.delete_job("q-1", job_id)
    with pytest.raises(Refused, match="NoSuchJob"):
        await client.describe_job("q-1", job_id)


async def test_a_self_managed_pool_is_addressed_by_its_id_and_the_queues_name(server: AihcServer) -> None:
    client = AihcClient(server.url, AK, SK, pool="cce-test")
    assert await client.create_job("default", BODY | {"queue": "default"})
    assert (await client.describe_jobs("default"))["totalCount"] == 1
    await client.close()


async def test_a_queued_job_changes_its_priority_and_stops(client: AihcClient, server: AihcServer) -> None:
    server.queue_seconds = 60
    job_id = (await client.create_job("q-1", BODY))["jobId"]
    await client.modify_job("q-1", job_id, "high")
    assert (await client.describe_job("q-1", job_id))["priority"] == "high"
    await client.stop_job("q-1", job_id)
    assert (await client.describe_job("q-1", job_id))["status"] == "Stopped"


async def test_all_pages_are_read_and_no_more_than_needed(client: AihcClient, server: AihcServer) -> None:
    for number in range(7):
        await client.create_job("q-1", BODY | {"name": f"a-{number}"})
    names = [job["name"] async for job in client.list_jobs("q-1", page_size=3)]
    assert sorted(names) == [f"a-{number}" for number in range(7)]
    assert server.calls["DescribeJobs"] == 3


async def test_odd_characters_in_a_query_are_signed_as_they_are_sent(client: AihcClient) -> None:
    with pytest.raises(Refused, match="there is no queue 'q 1/ü"):
        await client.describe_job("q 1/ü+%&=?", "x")


@pytest.mark.parametrize(
    ("ak", "sk", "code"),
    [("nobody", SK, "InvalidAccessKeyId"), (AK, "wrong", "SignatureDoesNotMatch")],
)
async def test_wrong_keys(server: AihcServer, ak: str, sk: str, code: str) -> None:
    client = AihcClient(server.url, ak, sk, pool="aihc-serverless")
    with pytest.raises(Refused, match=code) as refused:
        await client.create_job("q-1", BODY)
    await client.close()
    assert "wrong" not in str(refused.value)
    assert server.creations == {}


async def test_keys_are_read_for_every_request(server: AihcServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = AihcClient(server.url, secret("env:AK"), secret("env:SK"), pool="aihc-serverless")
    monkeypatch.setenv("AK", AK)
    with pytest.raises(Refused, match="SK is not set"):
        await client.create_job("q-1", BODY)
    monkeypatch.setenv("SK", SK)
    assert await client.create_job("q-1", BODY)
    assert SK not in repr(client)
    await client.close()


@pytest.mark.parametrize(
    ("fault", "created"), [("500", 0), ("reset", 0), ("500 after", 1), ("reset after", 1), ("lost", 1)]
)
async def test_create_is_sent_once_and_says_if_it_is_unclear(server: AihcServer, fault: Any, created: int) -> None:
    client = AihcClient(server.url, AK, SK, pool="aihc-serverless", create_timeout=1.5 if fault == "lost" else 20)
    server.fail("CreateJob", fault)
    with pytest.raises(Unclear):
        await client.create_job("q-1", BODY)
    await client.close()
    assert server.calls["CreateJob"] == 1
    assert server.creations["a-1"] == created


async def test_a_server_that_is_not_there_is_no_unclear_start() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    client = AihcClient(f"http://127.0.0.1:{port}", AK, SK, pool="aihc-serverless")
    with pytest.raises(Transient, match="cannot be reached"):
        await client.create_job("q-1", BODY)
    await client.close()


async def test_reads_are_repeated(client: AihcClient, server: AihcServer) -> None:
    server.fail("DescribeJobs", "500", "reset after")
    assert (await client.describe_jobs("q-1"))["totalCount"] == 0
    server.fail("DescribeJobs", "500", "500", "500")
    with pytest.raises(Transient):
        await client.describe_jobs("q-1")
    assert server.calls["DescribeJobs"] == 6


async def test_passwords_in_netrc_are_not_for_aihc(
    client: AihcClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login someone password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert (await client.describe_jobs("q-1"))["totalCount"] == 0


async def test_through_the_proxy_of_the_environment(server: AihcServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.url)
    client = AihcClient("http://aihc.example.com", AK, SK, pool="aihc-serverless")
    assert await client.create_job("q-1", BODY)
    await client.close()
    assert server.history[-1].headers["host"] == "aihc.example.com"


async def test_a_stranger_behind_the_endpoint(server: AihcServer) -> None:
    client = AihcClient(server.url, AK, SK, pool="aihc-serverless")
    client.base = f"{server.url}/_loopback/counts?"  # some JSON, but no jobId
    with pytest.raises(Unclear, match="no jobId"):
        await client.create_job("q-1", BODY)
    await client.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Baidu's SDK leaves sockets open
async def test_baidus_sdk_and_the_loopback_server_understand_each_other(server: AihcServer) -> None:
    """The server that our client is tested with takes what Baidu's own client sends."""
    config = BceClientConfiguration(credentials=BceCredentials(AK, SK), endpoint=server.url)
    sdk = BaiduClient(config)
    job = BODY["jobSpec"]

    def use() -> None:
        made = sdk.job.CreateJob("aihc-serverless", "q-1", "b-1", "sleep 1", job, dataSources=[])
        assert sdk.job.DescribeJob("aihc-serverless", "q-1", made.jobId).job.name == "b-1"
        assert sdk.resource_pool.DescribeQueues("aihc-pool").totalCount == 2
        with pytest.raises(BceHttpClientError) as refused:
            sdk.job.StopJob("aihc-serverless", "q-1", "job-none")
        assert (refused.value.status_code, refused.value.code) == (404, "NoSuchJob")

    await asyncio.to_thread(use)
    gc.collect()
    assert server.creations == {"b-1": 1}
