"""A loopback Ti-Gateway with timaker and the resource server behind it, verified strictly.

    python -m tests.dispatch.timaker_server --port 8081 --secret-id test-secret-id --secret-key test-secret-key

It counts resources: a job that does not fit is refused, as timaker does. Jobs cannot be listed or found by name.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from aiohttp import web

from tests.dispatch.loopback import Call, Loopback, Problem, Processes, program_arguments, run_program

SECRET_ID, SECRET_KEY = "test-secret-id", "test-secret-key"
HOST = "127.0.0.1"
UIN, PROJECT, APP_GROUP = "superadmin", 1, 7
SERVICES = {"timaker": "2020-10-12", "ti-resource-server": "2020-10-10"}
COMMON = {"Uin": str, "RequestId": str}
OF_JOB = {**COMMON, "TiProjectId": int, "TrainingJobId": str}
OF_GROUP = {**COMMON, "AppGroupId": int}
ACTIONS: dict[str, tuple[str, dict[str, type]]] = {
    "v1/CreateTrainingJob": (
        "timaker",
        {**COMMON, "TiProjectId": int, "TrainingJobName": str, "ResourceConfig": dict, "EnvConfig": list,
         "AlgorithmSpecification": dict, "Elastic": bool, "RestartPolicy": dict},
    ),
    "v1/StartTrainingJob": ("timaker", OF_JOB),
    "v1/StopTrainingJob": ("timaker", OF_JOB),
    "v1/DescribeTrainingJob": ("timaker", OF_JOB),
    "ResourceServer/Resources/GetTotalAppGroupResources": ("ti-resource-server", OF_GROUP),
    "ResourceServer/Resources/GetAvailableAppGroupResources": ("ti-resource-server", OF_GROUP),
}  # fmt: skip
CONFIG = {"Memory": int, "CpuNum": int, "GpuNum": int, "GpuType": str, "InstanceCount": int, "RDMAConfig": dict}
SOURCE = {
    "FileSystemType": str, "DirectoryPath": str, "ReadOnly": bool, "FileSystemEndpoint": str, "User": str,
    "SecretKey": str,
}  # fmt: skip
TOTAL: dict[str, Any] = {
    "Train": {"Cpu": 512_000, "Memory": 4_194_304, "VGpu": 200, "V100": 16, "A100": 8, "T4": 0, "P40": 0},
    "Elastic": 0,
}
ENDED = {"Completed", "Failed", "Evicted", "Stopped"}
SHANGHAI = timezone(timedelta(hours=8))


@dataclass
class TimakerJobRecord:
    job_id: str
    body: dict[str, Any]
    created: float
    prepare_seconds: float
    forced: str = ""
    ended: float | None = None
    stopping_since: float | None = None
    failure: tuple[str, str] = ("", "")
    processes: Processes | None = field(default=None)


class TimakerServer(Loopback):
    prepare_seconds = 0.0
    """How long the jobs that are created from now on are prepared."""
    stop_seconds = 0.0
    no_room = Problem(200, "ResourceInsufficient.TrainResource", "the resources of the app group do not suffice")
    missing = Problem(200, "ResourceNotFound.TrainingJob", "the training job does not exist")
    """What is answered; the real codes are not public."""

    def __init__(self, *, secret_id: str = SECRET_ID, secret_key: str = SECRET_KEY, **loopback: Any) -> None:
        super().__init__(**loopback)
        self.keys = {secret_id: secret_key}
        self.jobs: dict[str, TimakerJobRecord] = {}
        self.total: dict[str, Any] = {**TOTAL, "Train": dict(TOTAL["Train"])}
        self.outcomes: dict[str, str] = {}
        """How jobs end, by name; else they complete. Executed ones end by their exit code."""
        self._requests: set[str] = set()

    def job(self, name: str) -> TimakerJobRecord:
        (found,) = [job for job in self.jobs.values() if job.body["TrainingJobName"] == name]
        return found

    def set_state(self, name: str, state: str) -> None:
        job = self.job(name)
        job.forced = state
        job.ended = self.clock.time() if state in ENDED else None

    def stop_processes(self) -> None:
        for job in self.jobs.values():
            if job.processes:
                job.processes.stop()

    def action_of(self, request: web.Request) -> str:
        return request.headers.get("X-TC-Action", "")

    def refusal(self, problem: Problem) -> tuple[int, dict[str, Any]]:
        error = {"Code": problem.code, "Message": problem.message}
        return problem.status, {"Response": {"Error": error, "RequestId": str(uuid.uuid4())}}

    def answer(self, call: Call) -> dict[str, Any]:
        _need(call.method == "POST" and call.path == "/gateway", "POST /gateway is the only address")
        _need(call.headers.get("content-type") == "application/json", "the content type is not application/json")
        _need(call.action in ACTIONS, f"there is no action {call.action!r}")
        service, fields = ACTIONS[call.action]
        _need(call.headers.get("x-tc-service") == service, f"{call.action} belongs to the service {service}")
        _need(call.headers.get("x-tc-version") == SERVICES[service], f"the version is {SERVICES[service]}")
        self._verify(call, service)
        body = call.json()
        _check(body, fields, fields, call.action)
        _need(body["RequestId"] and body["RequestId"] not in self._requests, "every call has a RequestId of its own")
        self._requests.add(body["RequestId"])
        _need(body["Uin"], "Uin is empty")
        _need(body.get("TiProjectId", PROJECT) == PROJECT, "there is no such project")
        method = {
            "v1/CreateTrainingJob": self._create,
            "v1/StartTrainingJob": self._start,
            "v1/StopTrainingJob": self._stop,
            "v1/DescribeTrainingJob": self._describe,
        }.get(call.action)
        if method is not None:
            response = method(body)
        else:
            _need(body["AppGroupId"] == APP_GROUP, "there is no such app group")
            response = {"Resources": self.total if "GetTotal" in call.action else self.available()}
        return {"Response": {"RequestId": body["RequestId"], **response}}

    def _verify(self, call: Call, service: str) -> None:
        found = re.fullmatch(
            r"TC3-HMAC-SHA256 Credential=([^/]+)/(\d{4}-\d\d-\d\d)/([a-z-]+)/tc3_request, "
            r"SignedHeaders=content-type;host;x-tc-timestamp;, Signature=([0-9a-f]{64})",
            call.headers.get("authorization", ""),
        )
        if found is None:
            raise Problem(200, "AuthFailure.InvalidAuthorization", "the Authorization header is malformed")
        secret_id, date, signed_service, signature = found.groups()
        timestamp = call.headers.get("x-tc-timestamp", "")
        if secret_id not in self.keys:
            raise Problem(200, "AuthFailure.SecretIdNotFound", "the SecretId does not exist")
        at = datetime.fromtimestamp(int(timestamp), UTC)
        _need(at.strftime("%Y-%m-%d") == date and signed_service == service, "the scope is wrong")
        if abs(self.clock.time() - self.clock.offset - int(timestamp)) > 3600:
            raise Problem(200, "AuthFailure.SignatureExpire", "the signature has expired")
        headers = f"content-type:application/json\nhost:{call.headers['host']}\nx-tc-timestamp:{timestamp}\n"
        nothing = hashlib.sha256(b"").hexdigest()
        request = f"POST\n/\n\n{headers}\ncontent-type;host;x-tc-timestamp;\n{nothing}"
        scope = f"{date}/{service}/tc3_request"
        text = f"TC3-HMAC-SHA256\n{timestamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = hmac.digest(b"TC3" + self.keys[secret_id].encode(), date.encode(), "sha256")
        key = hmac.digest(hmac.digest(key, service.encode(), "sha256"), b"tc3_request", "sha256")
        if hmac.digest(key, text.encode(), "sha256").hex() != signature:
            raise Problem(200, "AuthFailure.SignatureFailure", "the signature does not match")

    def available(self) -> dict[str, Any]:
        train = dict(self.total["Train"])
        for job in self.jobs.values():
            if self.state(job) in ENDED:
                continue
            config, count = job.body["ResourceConfig"], job.body["ResourceConfig"]["InstanceCount"]
            train["Cpu"] -= config["CpuNum"] * count
            train["Memory"] -= config["Memory"] * count
            hundredths = config["GpuNum"] * count
            if config["GpuType"] and hundredths % 100 == 0:
                train[config["GpuType"]] -= hundredths // 100
            else:
                train["VGpu"] -= hundredths
        return {"Train": train, "Elastic": self.total["Elastic"]}

    def _create(self, body: dict[str, Any]) -> dict[str, Any]:
        config, algorithm = body["ResourceConfig"], body["AlgorithmSpecification"]
        _check(config, CONFIG, CONFIG, "ResourceConfig")
        _check(config["RDMAConfig"], {"Enable": bool}, ("Enable",), "RDMAConfig")
        _need(config["InstanceCount"] > 0 and config["CpuNum"] > 0 and config["Memory"] > 0, "resources are positive")
        _need(config["CpuNum"] >= 10, "CpuNum is in 1/1000 cores")
        _need(config["Memory"] < 2**23, "Memory is in MB")
        _need(config["GpuNum"] == 0 or config["GpuNum"] >= 5, "GpuNum is in 1/100 cards")
        _need(config["GpuType"] in {"", "V100", "A100", "T4", "P40"}, f"there are no cards {config['GpuType']!r}")
        for each in body["EnvConfig"]:
            _check(each, {"Name": str, "Value": str}, ("Name", "Value"), "EnvConfig")
        names = [each["Name"] for each in body["EnvConfig"]]
        _need(len(names) == len(set(names)), "a variable is there twice")
        wanted = {"EntryPoint": str, "TrainingImageName": str, "AlgorithmSource": dict}
        _check(algorithm, wanted, ("EntryPoint", "TrainingImageName"), "AlgorithmSpecification")
        _need(algorithm["EntryPoint"] and algorithm["TrainingImageName"], "EntryPoint or TrainingImageName is empty")
        source = algorithm.get("AlgorithmSource", {})
        _check(source, {"FileSystemDataSource": dict}, (), "AlgorithmSource")
        if "FileSystemDataSource" in source:
            _check(source["FileSystemDataSource"], SOURCE, ("FileSystemType", "DirectoryPath"), "FileSystemDataSource")
        _need(body["RestartPolicy"] == {"PolicyName": "AutoRestart"}, "RestartPolicy")
        _need(body["TrainingJobName"], "TrainingJobName is empty")
        job = TimakerJobRecord(f"timaker-{uuid.uuid4().hex[:10]}", body, self.clock.time(), self.prepare_seconds)
        self.jobs[job.job_id] = job
        if min(self.available()["Train"].values()) < 0:
            del self.jobs[job.job_id]
            raise self.no_room
        self.creations[body["TrainingJobName"]] += 1
        self.state(job)  # which starts it, if it is executed
        return {"TrainingJobId": job.job_id}

    def _start(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._find(body)
        if self.state(job) != "Stopped":
            raise Problem(200, "FailedOperation", "the job is started already")
        job.forced, job.stopping_since, job.ended, job.created = "", None, None, self.clock.time()
        return {}

    def _stop(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._find(body)
        if self.state(job) in ENDED:
            raise Problem(200, "FailedOperation", "the job has ended")
        job.forced = ""
        job.stopping_since = job.stopping_since or self.clock.time()
        if job.processes:
            job.processes.stop()
        return {}

    def _describe(self, body: dict[str, Any]) -> dict[str, Any]:
        job = self._find(body)
        state = self.state(job)
        return {
            "TrainingJobStatus": state,
            "TrainingCreateTime": _format_time(job.created),
            "TrainingEndTime": _format_time(job.ended) if job.ended else "",
            "InstanceId": "" if state == "JobReceived" else f"{job.job_id}-0",
            "FailureCode": job.failure[0],
            "FailureReason": job.failure[1],
        }

    def _find(self, body: dict[str, Any]) -> TimakerJobRecord:
        job = self.jobs.get(body["TrainingJobId"])
        if job is None:
            raise self.missing
        return job

    def state(self, job: TimakerJobRecord) -> str:
        if job.forced:
            return job.forced
        now = self.clock.time()
        if job.stopping_since is not None:
            return "Stopping" if now - job.stopping_since < self.stop_seconds else self._end(job, "Stopped")
        age = now - job.created
        if age < job.prepare_seconds:
            return "PrepareInstance"
        if self.execute:
            return self._executed(job)
        if age < job.prepare_seconds + self.run_seconds:
            return "Training"
        return self._end(job, self.outcomes.get(job.body["TrainingJobName"], "Completed"))

    def _executed(self, job: TimakerJobRecord) -> str:
        if job.processes is None:
            given = {each["Name"]: each["Value"] for each in job.body["EnvConfig"]}
            count = job.body["ResourceConfig"]["InstanceCount"]
            environments = [{**given, "INSTANCE_INDEX": str(index)} for index in range(count)]
            command = job.body["AlgorithmSpecification"]["EntryPoint"]
            job.processes = Processes(command, environments, self.scratch / job.job_id)
            job.processes.start()
        codes = job.processes.codes()
        if any(code is None for code in codes):
            return "Training"
        return self._end(job, "Failed" if any(codes) else "Completed")

    def _end(self, job: TimakerJobRecord, state: str) -> str:
        job.forced = state
        job.ended = self.clock.time()
        if state in {"Failed", "Evicted"}:
            job.failure = ("ExitCode", "the training program ended with exit code 1")
        return state


def _need(condition: object, message: str) -> None:
    if not condition:
        raise Problem(200, "InvalidParameter", message)


def _check(given: dict[str, Any], known: Mapping[str, type], required: Iterable[str], where: str) -> None:
    for name, value in given.items():
        _need(name in known, f"{where} has no field {name!r}")
        right = isinstance(value, known[name]) and (known[name] is bool or not isinstance(value, bool))
        _need(right, f"{where}.{name} is not of type {known[name].__name__}")
    for name in required:
        _need(name in given, f"{where}.{name} is missing")


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, SHANGHAI).strftime("%Y-%m-%d %H:%M:%S")


def main() -> None:
    parser = program_arguments("A loopback Ti-Gateway with timaker for tests and examples.")
    parser.add_argument("--secret-id", default=SECRET_ID)
    parser.add_argument("--secret-key", default=SECRET_KEY)
    run_program(TimakerServer(**vars(parser.parse_args())), "loopback Ti-Gateway")


if __name__ == "__main__":
    main()
