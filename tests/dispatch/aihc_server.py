"""A loopback AIHC: the job, pool and queue actions of OpenAPI v2, verified strictly.

    python -m tests.dispatch.aihc_server --port 8080 --ak test-access-key --sk test-secret-key --execute

Signatures are checked with the functions of Baidu's own SDK, not with ours.
"""

from __future__ import annotations

import hashlib
import hmac
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from aiohttp import web
from baidubce import utils as bce_utils

from tests.dispatch.loopback import Call, Loopback, Problem, Processes, program_arguments, run_program

AK, SK = "test-access-key", "test-secret-key"
SERVERLESS = "aihc-serverless"
POOLS: dict[str, dict[str, Any]] = {
    "cce-test": {"type": "common", "queues": {"default": "aihcq-default", "research": "aihcq-research"}},
    "aihc-pool": {"type": "dedicatedV2", "queues": {"team-a": "q-1", "team-b": "q-2"}},
}
CREATE_FIELDS = {
    "name", "queue", "jobType", "command", "jobSpec", "labels", "priority", "datasources", "enableBccl",
    "faultTolerance", "faultToleranceArgs", "tensorboardConfig", "alertConfig", "retentionPeriod",
}  # fmt: skip
SPEC_FIELDS = {"image", "replicas", "imageConfig", "resources", "envs", "enableRDMA", "hostNetwork"}
SOURCE_TYPES = {"pfs", "hostpath", "bos", "cfs", "rapidfs", "dataset", "emptydir"}
MOST = {"cpu": 512, "memory": 4096, "sharedMemory": 4096}
"""A larger quantity is in the wrong unit: millicores, MB or bytes."""
FIELDS: dict[str, set[str]] = {
    "CreateJob": CREATE_FIELDS,
    "DescribeJob": {"jobId", "needDetail"},
    "DescribeJobs": {
        "queue", "status", "keywordType", "keyword", "orderBy", "order", "pageNumber", "pageSize",
    },
    "StopJob": {"jobId"},
    "DeleteJob": {"jobId"},
    "ModifyJob": {"jobId", "priority"},
    "DescribeJobEvents": {"jobId", "startTime", "endTime"},
    "DescribePodEvents": {"jobId", "podName", "startTime", "endTime"},
    "DescribeJobLogs": {
        "jobId", "podName", "keywords", "startTime", "endTime", "maxLines", "chunkSize", "marker",
    },
    "DescribeJobNodes": {"jobId"},
    "DescribeJobWebterminal": {"jobId", "podName", "handshakeTimeoutSecond", "pingTimeoutSecond"},
}  # fmt: skip
READS = {"DescribeResourcePools", "DescribeResourcePool", "DescribeQueues", "DescribeQueue"}
TERMINAL = {"Succeeded", "Failed", "Stopped", "ManualTermination"}
PAGE_OF_LOGS = 3


@dataclass
class AihcJobRecord:
    job_id: str
    pool: str
    queue: str
    body: dict[str, Any]
    created: float
    queue_seconds: float
    start_seconds: float
    forced: str = ""
    """A state that does not follow from the time: Stopped, or what a test set."""
    stopping_since: float | None = None
    finished: float | None = None
    processes: Processes | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def pods(self) -> list[str]:
        spec = self.body["jobSpec"]
        replicas = sum(int(each["replicas"]) for each in (spec.values() if "image" not in spec else [spec]))
        name = self.body["name"]
        return [f"{name}-master-0", *(f"{name}-worker-{index}" for index in range(replicas - 1))]


class AihcServer(Loopback):
    queue_seconds = 0.0
    start_seconds = 0.0
    """How long the jobs that are created from now on wait and start."""
    stop_seconds = 0.0
    missing = Problem(404, "NoSuchJob", "the job does not exist")
    """What is answered for an unknown job; the real code is not documented."""

    def __init__(self, *, ak: str = AK, sk: str = SK, **loopback: Any) -> None:
        super().__init__(**loopback)
        self.ak, self.sk = ak, sk
        self.jobs: dict[str, AihcJobRecord] = {}
        self.outcomes: dict[str, str] = {}
        """How jobs end, by name; else they succeed. With --execute, the exit code decides."""
        self.logs: dict[str, list[str]] = {}
        """What pods wrote, by pod; else a line about the command."""

    def job(self, name: str) -> AihcJobRecord:
        """Returns the only job with a name."""
        (found,) = [job for job in self.jobs.values() if job.body["name"] == name]
        return found

    def set_state(self, name: str, state: str) -> None:
        job = self.job(name)
        job.forced = state
        job.finished = self.clock.time() if state in TERMINAL else None

    def stop_processes(self) -> None:
        for job in self.jobs.values():
            if job.processes:
                job.processes.stop()

    def action_of(self, request: web.Request) -> str:
        return request.query.get("action", "")

    def refusal(self, problem: Problem) -> tuple[int, dict[str, Any]]:
        return problem.status, {"requestId": str(uuid.uuid4()), "code": problem.code, "message": problem.message}

    def answer(self, call: Call) -> dict[str, Any]:
        self._verify(call)
        if call.path != "/":
            raise Problem(404, "InvalidParam", f"there is nothing at {call.path}")
        if call.action in READS:
            if call.method != "GET" or call.headers.get("version") != "v2":
                raise Problem(400, "InvalidParam", f"{call.action} is a GET with the header version: v2")
            return {"requestId": str(uuid.uuid4()), **self._read(call)}
        if call.action not in FIELDS:
            raise Problem(400, "InvalidParam", f"unknown action {call.action!r}")
        if call.method != "POST" or call.headers.get("x-api-version") != "v2":
            raise Problem(400, "InvalidParam", f"{call.action} is a POST with the header X-API-Version: v2")
        if not call.headers.get("content-type", "").startswith("application/json"):
            raise Problem(400, "InvalidParam", "the content type is not application/json")
        body = call.json()
        for name in body:
            _need(name in FIELDS[call.action], f"{call.action} has no field {name!r}")
        pool, queue = self._place(call, body)
        method = getattr(self, f"_{call.action}")
        return {"requestId": str(uuid.uuid4()), **method(body, pool, queue)}

    def _verify(self, call: Call) -> None:
        parts = call.headers.get("authorization", "").split("/")
        if len(parts) != 6 or parts[0] != "bce-auth-v1":
            raise Problem(400, "InvalidHTTPAuthHeader", "the Authorization header is not bce-auth-v1")
        _, ak, at, seconds, listed, signature = parts
        if ak != self.ak:
            raise Problem(403, "InvalidAccessKeyId", "the access key does not exist")
        signed = [name for name in listed.split(";") if name]
        if signed and "host" not in signed:
            raise Problem(400, "InvalidHTTPAuthHeader", "host must be signed")
        chosen = {
            name: value.strip()
            for name, value in call.headers.items()
            if (name in signed if signed else name in _DEFAULT or name.startswith("x-bce-"))
        }
        lines = [
            bce_utils.normalize_string(name.encode()) + b":" + bce_utils.normalize_string(value.encode())
            for name, value in chosen.items()
            if value
        ]
        query = bce_utils.get_canonical_querystring(
            {name.encode(): value.encode() for name, value in call.query.items()}, True
        )
        text = b"\n".join([call.method.encode(), call.path.encode(), query, b"\n".join(sorted(lines))])
        key = hmac.new(self.sk.encode(), f"bce-auth-v1/{ak}/{at}/{seconds}".encode(), hashlib.sha256).hexdigest()
        if hmac.new(key.encode(), text, hashlib.sha256).hexdigest() != signature:
            raise Problem(400, "SignatureDoesNotMatch", "the signature does not match")
        age = self.clock.time() - self.clock.offset - _parse_time(at)
        if not -300 <= age <= int(seconds):
            raise Problem(400, "RequestExpired", "the request has expired")

    def _place(self, call: Call, body: dict[str, Any]) -> tuple[str, str]:
        pool, queue = call.query.get("resourcePoolId", ""), call.query.get("queueID", "")
        if pool == SERVERLESS:
            _need(queue, "queueID is required in a managed pool")
            known = [id for each in POOLS.values() if each["type"] == "dedicatedV2" for id in each["queues"].values()]
        else:
            _need(POOLS.get(pool, {}).get("type") == "common", f"there is no resource pool {pool!r}")
            known = list(POOLS[pool]["queues"])
        _need(not queue or queue in known, f"there is no queue {queue!r} in {pool}")
        _need(call.action == "DescribeJobs" or queue, "queueID is required")
        if call.action == "CreateJob":
            _need(body.get("queue", queue) == queue, "queue and queueID differ")  # Baidu's SDK sends only queueID
        return pool, queue

    def _read(self, call: Call) -> dict[str, Any]:
        pool_id = call.query.get("resourcePoolId", "")
        if call.action == "DescribeResourcePools":
            kind = call.query.get("resourcePoolType", "")
            _need(kind in {"common", "dedicatedV2"}, "resourcePoolType is common or dedicatedV2")
            pools = [self._pool(id) for id, each in POOLS.items() if each["type"] == kind]
            return {"totalCount": len(pools), "resourcePools": pools}
        if call.action == "DescribeQueue":
            for id in POOLS:
                for queue in self._queues(id):
                    if queue["queueId"] == call.query.get("queueId"):
                        return {"queue": queue}
            raise Problem(404, "NoSuchQueue", "the queue does not exist")
        _need(pool_id in POOLS, f"there is no resource pool {pool_id!r}")
        if call.action == "DescribeResourcePool":
            return {"resourcePool": self._pool(pool_id)}
        queues = self._queues(pool_id)
        return {"totalCount": len(queues), "queues": queues}

    def _pool(self, id: str) -> dict[str, Any]:
        return {"resourcePoolId": id, "name": id, "type": POOLS[id]["type"], "phase": "running", "region": "bj"}

    def _queues(self, pool: str) -> list[dict[str, Any]]:
        managed = POOLS[pool]["type"] == "dedicatedV2"
        states = [(job.queue, self.state(job)) for job in self.jobs.values()]
        return [
            {
                "queueId": id,
                "queueName": name,
                "queueType": "Elastic",
                "opened": True,
                "capability": {"milliCPUcores": "64000", "memoryGi": "512", "acceleratorCardList": []},
                "allocated": {"milliCPUcores": "0", "memoryGi": "0", "acceleratorCardList": []},
                "runningJobs": sum(state == "Running" for at, state in states if at == (id if managed else name)),
                "pendingJobs": sum(state == "Created" for at, state in states if at == (id if managed else name)),
            }
            for name, id in POOLS[pool]["queues"].items()
        ]

    def _CreateJob(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        check_create(body)
        job_id = f"job-{uuid.uuid4().hex[:12]}"
        job = AihcJobRecord(job_id, pool, queue, body, self.clock.time(), self.queue_seconds, self.start_seconds)
        self.jobs[job_id] = job
        self.creations[body["name"]] += 1
        self._event(job, "Normal", "JobCreated", "the job was created")
        self.state(job)  # which starts it, if it is executed
        return {"jobId": job_id, "jobName": body["name"]}

    def _DescribeJob(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        _need(isinstance(body.get("needDetail", False), bool), "needDetail is a boolean")
        return {"job": self._item(self._find(body, pool), detail=body.get("needDetail") is True)}

    def _DescribeJobs(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        _need(body.get("keywordType", "name") in {"name", "queueName"}, "keywordType is name or queueName")
        _need(body.get("orderBy", "createdAt") in {"createdAt", "finishedAt"}, "orderBy is createdAt or finishedAt")
        _need(body.get("order", "desc") in {"asc", "desc"}, "order is asc or desc")
        page, size = body.get("pageNumber", 1), body.get("pageSize", 10)
        _need(isinstance(page, int) and page > 0 and isinstance(size, int) and 0 < size <= 100, "a bad page")
        queue = body.get("queue") or queue
        found = [job for job in self.jobs.values() if job.pool == pool and (not queue or job.queue == queue)]
        if keyword := body.get("keyword"):
            by_queue = body.get("keywordType") == "queueName"
            found = [job for job in found if keyword in (job.queue if by_queue else job.body["name"])]
        if status := body.get("status"):
            found = [job for job in found if self.state(job) == status]
        found.sort(key=lambda job: job.created, reverse=body.get("order", "desc") == "desc")
        shown = found[(page - 1) * size : page * size]
        return {"totalCount": len(found), "jobs": [self._item(job, detail=False) for job in shown]}

    def _StopJob(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        job = self._find(body, pool)
        _need(job.body.get("jobType", "PyTorchJob") in {"PyTorchJob", "MPIJob"}, "jobs of this type cannot be stopped")
        _need(self.state(job) not in TERMINAL, "the job has ended")
        if job.stopping_since is None:
            job.stopping_since = self.clock.time()
        if job.processes:
            job.processes.stop()
        return {}

    def _DeleteJob(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        job = self._find(body, pool)
        if job.processes:
            job.processes.stop()
        del self.jobs[job.job_id]
        return {}

    def _ModifyJob(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        job = self._find(body, pool)
        _need(self.state(job) == "Created", "only a job that is Created can be modified")
        _need(body.get("priority") in {"high", "normal", "low"}, "priority is high, normal or low")
        job.body["priority"] = body["priority"]
        return {}

    def _DescribeJobEvents(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        events = self._find(body, pool).events
        return {"events": events, "total": len(events)}

    def _DescribePodEvents(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        _need(body.get("podName") in self._find(body, pool).pods, "there is no such pod")
        return {"events": [], "total": 0}

    def _DescribeJobLogs(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        job = self._find(body, pool)
        for name, value in body.items():
            if not isinstance(value, str):
                raise Problem(400, "MalformedJSON", f"{name} is not a string")
        _need(body.get("podName") in job.pods, "there is no such pod")
        lines = self._pod_log(job, body["podName"])
        start = int(body.get("marker") or 0)
        end = start + PAGE_OF_LOGS
        return {"logs": lines[start:end], "nextMarker": str(end) if end < len(lines) else ""}

    def _DescribeJobNodes(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        return {"nodes": [f"node-{index}" for index, _ in enumerate(self._find(body, pool).pods)]}

    def _DescribeJobWebterminal(self, body: dict[str, Any], pool: str, queue: str) -> dict[str, Any]:
        _need(body.get("podName") in self._find(body, pool).pods, "there is no such pod")
        return {"WebTerminalUrl": "wss://127.0.0.1/terminal"}

    def _find(self, body: dict[str, Any], pool: str) -> AihcJobRecord:
        job = self.jobs.get(body.get("jobId", ""))
        if job is None or job.pool != pool:
            raise self.missing
        return job

    def _pod_log(self, job: AihcJobRecord, pod: str) -> list[str]:
        if job.processes:
            return job.processes.log(job.pods.index(pod))
        if self.state(job) in {"Created", "Starting"}:
            return []
        return self.logs.get(pod, [f"$ {job.body['command']}"])

    def state(self, job: AihcJobRecord) -> str:
        if job.forced:
            return job.forced
        now = self.clock.time()
        if job.stopping_since is not None:
            if now - job.stopping_since < self.stop_seconds:
                return "Stopping"
            return self._end(job, "Stopped")
        age = now - job.created
        if age < job.queue_seconds:
            return "Created"
        if age < job.queue_seconds + job.start_seconds:
            return "Starting"
        if self.execute:
            return self._executed(job)
        if age < job.queue_seconds + job.start_seconds + self.run_seconds:
            return "Running"
        return self._end(job, self.outcomes.get(job.body["name"], "Succeeded"))

    def _executed(self, job: AihcJobRecord) -> str:
        if job.processes is None:
            job.processes = Processes(job.body["command"], self._environments(job), self.scratch / job.job_id)
            job.processes.start()
        codes = job.processes.codes()
        if any(code is None for code in codes):
            return "Running"
        return self._end(job, "Failed" if any(codes) else "Succeeded")

    def _environments(self, job: AihcJobRecord) -> list[dict[str, str]]:
        spec = job.body["jobSpec"]
        given = {each["name"]: each["value"] for each in spec.get("envs") or []}
        shared = {"AIHC_JOB_NAME": job.body["name"], "MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": str(len(job.pods))}
        return [{**shared, "RANK": str(rank), "POD_NAME": pod, **given} for rank, pod in enumerate(job.pods)]

    def _end(self, job: AihcJobRecord, state: str) -> str:
        job.forced = state
        job.finished = self.clock.time()
        self._event(job, "Warning" if state == "Failed" else "Normal", f"Job{state}", f"the job is {state}")
        return state

    def _event(self, job: AihcJobRecord, kind: str, reason: str, message: str) -> None:
        at = _format_time(self.clock.time())
        job.events.append({"reason": reason, "message": message, "lastTimestamp": at, "count": 1, "type": kind})

    def _item(self, job: AihcJobRecord, *, detail: bool) -> dict[str, Any]:
        state = self.state(job)
        item = {
            "jobId": job.job_id,
            "name": job.body["name"],
            "status": state,
            "jobType": job.body.get("jobType") or "PyTorchJob",
            "resourcePoolId": job.pool,
            "queue": job.queue,
            "jobSpec": job.body["jobSpec"],
            "command": job.body["command"],
            "createdAt": _format_time(job.created),
            "finishedAt": _format_time(job.finished) if job.finished else "",
            "datasources": job.body.get("datasources") or [],
            "labels": job.body.get("labels") or [],
            "priority": job.body.get("priority") or "normal",
            "jobTimeLine": [{"conditionType": "Created", "time": _format_time(job.created)}],
        }
        if state not in {"Created", "Starting"}:
            began = _format_time(job.created + job.queue_seconds + job.start_seconds)
            item["jobTimeLine"].append({"conditionType": "Running", "time": began})
        if detail:
            word = {"Succeeded": "Succeed", "Failed": "Failed", "Running": "Running"}.get(state, "Pending")
            item["pods"] = [
                {
                    "name": name,
                    "status": word,
                    "replicaType": "master" if index == 0 else "worker",
                    "nodeName": f"node-{index}",
                    "restartCount": 0,
                    "reason": "Error: exit code 1" if word == "Failed" else "",
                }
                for index, name in enumerate(job.pods)
            ]
        return item


_DEFAULT = {"host", "content-md5", "content-length", "content-type"}


def _need(condition: object, message: str) -> None:
    if not condition:
        raise Problem(400, "InvalidParam", message)


def check_create(body: dict[str, Any]) -> None:
    for name in ("name", "command"):
        _need(isinstance(body.get(name), str) and body[name], f"{name} is required")
    _need(len(body["name"]) <= 63 and body["name"].replace("-", "").isalnum(), "name: letters, digits and -, up to 63")
    _need(body.get("jobType") in {None, "PyTorchJob", "TFJob", "MPIJob", "RayJob"}, f"jobType {body.get('jobType')!r}")
    _need(body.get("priority") in {None, "high", "normal", "low"}, "priority is high, normal or low")
    spec = body.get("jobSpec")
    _need(isinstance(spec, dict), "jobSpec is required")
    assert isinstance(spec, dict)
    roles = "image" not in spec and body.get("jobType") == "TFJob"
    for each in spec.values() if roles else [spec]:
        _check_spec(each)
    for label in body.get("labels") or []:
        _need(set(label) == {"key", "value"}, "a label has a key and a value")
    for source in body.get("datasources") or []:
        _need(set(source) <= {"type", "name", "sourcePath", "mountPath", "options"}, f"a bad data source: {source}")
        _need(source.get("type") in SOURCE_TYPES, f"there is no data source of type {source.get('type')!r}")
        _need(source.get("mountPath", "").startswith("/"), "mountPath is required")
        _need(source["type"] != "pfs" or source.get("name"), "the name of a pfs source is its instance")


def _check_spec(spec: dict[str, Any]) -> None:
    for name in spec:
        _need(name in SPEC_FIELDS, f"jobSpec has no field {name!r}")
    _need(":" in str(spec.get("image", "")).rsplit("/", 1)[-1], "jobSpec.image needs a tag")
    _need(isinstance(spec.get("replicas"), int) and spec["replicas"] > 0, "jobSpec.replicas is a number")
    for resource in spec.get("resources") or []:
        name, quantity = resource.get("name"), resource.get("quantity")
        _need(set(resource) == {"name", "quantity"}, "a resource has a name and a quantity")
        _need(name in MOST or str(name).startswith(("baidu.com/", "rdma/")), f"there is no resource {name!r}")
        _need(isinstance(quantity, int | str) and str(quantity).isdigit(), f"quantity of {name} is a whole number")
        _need(int(quantity) <= MOST.get(str(name), 64), f"{quantity} is too much {name}: the wrong unit?")
    for each in spec.get("envs") or []:
        _need(set(each) == {"name", "value"} and isinstance(each["value"], str), "an env has a name and a value")


def _parse_time(text: str) -> float:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise Problem(400, "InvalidHTTPAuthHeader", "the time is not UTC in ISO 8601") from None


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    parser = program_arguments("A loopback AIHC for tests and examples.")
    parser.add_argument("--ak", default=AK)
    parser.add_argument("--sk", default=SK)
    run_program(AihcServer(**vars(parser.parse_args())), "loopback AIHC")


if __name__ == "__main__":
    main()
