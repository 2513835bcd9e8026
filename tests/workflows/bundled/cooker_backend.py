"""A backend with the REST API of MLP Cooker that fails on demand: it checks requests as upstream's does, and its jobs
take the states that a test gives them. Our own server speaks the same API; it cannot lose its answers on purpose."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "token-of-the-test"
KEYS = {"ak": "key-of-the-test", "sk": "secret-of-the-test"}


@dataclass
class Job:
    task: dict[str, Any]
    states: list[str]
    """Each description takes one; the last stays."""
    lines: list[str] = field(default_factory=list)


class CookerBackend:
    """`states` are those of the next job; a word in `faults` is used up by the next request that it applies to."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.states = ["Created", "Running", "Succeeded"]
        self.faults: list[str] = []
        self.needs_token = False
        self.token = TOKEN
        self.logins = 0
        self.stopped: list[str] = []
        self.creating = threading.Event()
        """A job is created, but the answer is still on its way."""
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.address = ""

    def handle(self, method: str, path: str, query: dict[str, str], body: Any, token: str) -> dict[str, Any]:
        if (method, path) == ("POST", "/api/login/account"):
            self.logins += 1
            return {"status": "ok", "token": self.token} if body == KEYS else {"status": "error"}
        if self.needs_token and token != self.token:
            return refuse("authentication failed", code="AUTH_FAILED")
        match method, path.strip("/").split("/")[1:]:
            case "POST", ["jobs", "create"]:
                return self._create(body)
            case "GET", ["jobs", job] if job in self.jobs and query == {"needDetail": "true"}:
                return accept({"requestId": "r", "job": self._describe(job)})
            case "GET", ["jobs", job, "pods", pod, "logs"] if pod == f"{job}-master-0":
                if "log" in self.faults:
                    self.faults.remove("log")
                    return refuse("the log cannot be read now")
                return accept(self._logs(job, query.get("marker", "")))
            case "GET", ["jobs", job, "events"]:
                return accept({"events": [{"type": "Warning", "reason": "Evicted", "message": "no room"}], "total": 1})
            case "POST", ["jobs", job, "stop"]:
                self.stopped.append(job)
                self.jobs[job].states = ["Stopped"]
                return accept({"jobId": job})
        return refuse(f"there is no {method} {path}")

    def _create(self, body: Any) -> dict[str, Any]:
        task = (body or {}).get("taskParams")
        if not isinstance(task, dict) or not task.get("name"):
            return refuse("the training job could not be created", error="name is missing")
        job = f"job-{len(self.jobs) + 1}"
        lines = [f"{task['name']} line {number}" for number in range(1, 6)]
        self.jobs[job] = Job(task, list(self.states), lines)
        self.creating.set()
        self.may_answer.wait(60)
        return accept({"requestId": "r", "jobId": job, "jobName": task["name"]})

    def _describe(self, job: str) -> dict[str, Any]:
        states = self.jobs[job].states
        status = states.pop(0) if len(states) > 1 else states[0]
        pod = {"name": f"{job}-master-0", "status": "Failed" if status == "Failed" else "Running"}
        reason = {"reason": "OOMKilled"} if status == "Failed" else {}
        # Before a job starts it has no pods, and those of a job that has succeeded are removed.
        pods = [] if status in ("Created", "Succeeded") else [{**pod, **reason}]
        return {"jobId": job, "status": status, "pods": pods}

    def _logs(self, job: str, marker: str) -> dict[str, Any]:
        """Pages of two lines."""
        start = int(marker or 0)
        lines = self.jobs[job].lines
        following = str(start + 2) if start + 2 < len(lines) else ""
        return {"requestId": "r", "logs": lines[start : start + 2], "nextMarker": following}


def accept(data: Any) -> dict[str, Any]:
    return {"success": True, "message": "ok", "data": data}


def refuse(message: str, **details: str) -> dict[str, Any]:
    return {"success": False, "message": message, "details": details}


@contextmanager
def serve_cooker(host: str = "127.0.0.1") -> Iterator[CookerBackend]:
    backend = CookerBackend()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            address = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            query = {name: values[-1] for name, values in parse_qs(address.query).items()}
            if "garbage" in backend.faults and self.command == "GET":
                backend.faults.remove("garbage")
                return self.send(502, b"<html>bad gateway</html>")
            answered = backend.handle(self.command, address.path, query, body, self._token())
            if "lost" in backend.faults and address.path == "/api/jobs/create":
                backend.faults.remove("lost")
                self.connection.shutdown(socket.SHUT_RDWR)
                return None
            return self.send(200, json.dumps(answered).encode())

        do_GET = do_POST = answer

        def send(self, status: int, text: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _token(self) -> str:
            scheme, _, text = self.headers.get("Authorization", "").partition(" ")
            return base64.b64decode(text).decode().partition(":")[2] if scheme == "Basic" else text

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer((host, 0), Handler) as server:
        backend.address = f"http://{host}:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield backend
        finally:
            server.shutdown()
            serving.join()
