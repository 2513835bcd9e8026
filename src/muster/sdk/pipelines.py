"""Kubeflow Pipelines: experiments, pipelines, runs and recurring runs, and what kfp.Client cannot read: the outputs,
logs and artifacts of tasks. Records are the messages of the v2beta1 API, as dictionaries."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from muster.sdk.transport import PlatformError, Transport

_BASE = "/apis/v2beta1"
_PAGE = 200
_PAUSE_SECONDS = 1.0
ENDED = ("SUCCEEDED", "FAILED")
Message = dict[str, Any]


class Pipelines:
    """`muster.pipelines`. Names are those of the user's own namespace, unless a team's namespace is given."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    # Pipelines and versions

    def list(self, *, namespace: str = "", most: int | None = None) -> Iterator[Message]:
        return self._pages("pipelines", "pipelines", {"namespace": namespace}, most)

    def get(self, pipeline: str, *, namespace: str = "") -> Message:
        """Finds a pipeline by its name or id."""
        try:
            return self._request("GET", f"pipelines/names/{_quoted(pipeline)}", query={"namespace": namespace})
        except PlatformError as error:
            if error.status != 404:
                raise
        return self._request("GET", f"pipelines/{_quoted(pipeline)}")

    def upload(self, file: str | Path, *, name: str = "", description: str = "", namespace: str = "") -> Message:
        """Creates a pipeline with its first version from a compiled package."""
        query = {"name": name, "description": description, "namespace": namespace}
        return self._upload("pipelines/upload", Path(file), query)

    def upload_version(self, pipeline: str, file: str | Path, *, name: str = "", description: str = "") -> Message:
        query = {"name": name, "description": description, "pipelineid": self.get(pipeline)["pipeline_id"]}
        return self._upload("pipelines/upload_version", Path(file), query)

    def versions(self, pipeline: str) -> Iterator[Message]:
        path = f"pipelines/{self.get(pipeline)['pipeline_id']}/versions"
        return self._pages(path, "pipeline_versions", {"sort_by": "created_at desc"}, None)

    def delete(self, pipeline: str) -> None:
        """Deletes a pipeline with its versions. Runs stay."""
        self._request("DELETE", f"pipelines/{self.get(pipeline)['pipeline_id']}", query={"cascade": "true"})

    # Experiments

    def experiments(self, *, namespace: str = "", most: int | None = None) -> Iterator[Message]:
        return self._pages("experiments", "experiments", {"namespace": namespace}, most)

    def experiment(self, experiment: str, *, namespace: str = "") -> Message:
        """Finds an experiment by its name or id."""
        query = {"namespace": namespace, "filter": _equals("display_name", experiment)}
        found = list_(self._pages("experiments", "experiments", query, None))
        return found[0] if found else self._request("GET", f"experiments/{_quoted(experiment)}")

    def create_experiment(self, name: str, *, description: str = "", namespace: str = "") -> Message:
        body = {"display_name": name, "description": description, "namespace": namespace}
        return self._request("POST", "experiments", body)

    def archive_experiment(self, experiment: str, *, archived: bool = True) -> None:
        action = "archive" if archived else "unarchive"
        self._request("POST", f"experiments/{self.experiment(experiment)['experiment_id']}:{action}")

    def delete_experiment(self, experiment: str) -> None:
        self._request("DELETE", f"experiments/{self.experiment(experiment)['experiment_id']}")

    # Runs

    def run(
        self, pipeline: str = "", *, version: str = "", spec: Mapping[str, Any] | None = None, name: str = "",
        parameters: Mapping[str, Any] | None = None, experiment: str = "",
    ) -> Message:  # fmt: skip
        """Runs the newest version of a pipeline, another one by its id, or a compiled pipeline."""
        return self._request("POST", "runs", self._source(pipeline, version, spec, name, parameters, experiment))

    def runs(self, *, experiment: str = "", namespace: str = "", most: int | None = None) -> Iterator[Message]:
        """The newest first."""
        query = {"namespace": namespace, "sort_by": "created_at desc"}
        if experiment:
            query["experiment_id"] = self.experiment(experiment)["experiment_id"]
        return self._pages("runs", "runs", query, most)

    def get_run(self, run: str) -> Message:
        return self._request("GET", f"runs/{_quoted(run)}")

    def wait(self, run: str, *, timeout: float = 0.0) -> Message:
        """Returns the run when it has ended. Raises TimeoutError after so many seconds, if they are not 0."""
        begun = time.monotonic()
        while (found := self.get_run(run))["state"] not in ENDED:
            if timeout and time.monotonic() - begun > timeout:
                raise TimeoutError(f"the run {run} is still {found['state']}")
            time.sleep(_PAUSE_SECONDS)
        return found

    def terminate(self, run: str) -> None:
        self._request("POST", f"runs/{_quoted(run)}:terminate")

    def retry(self, run: str) -> None:
        self._request("POST", f"runs/{_quoted(run)}:retry")

    def delete_run(self, run: str) -> None:
        self._request("DELETE", f"runs/{_quoted(run)}")

    # What kfp.Client cannot read

    def tasks(self, run: str) -> list_[Message]:
        """All tasks of a run with their states, and `node`: inputs, outputs, attempts, iteration."""
        return list_(self._request("GET", f"runs/{_quoted(run)}/nodes").get("nodes") or ())

    def task(self, run: str, task: str) -> Message:
        """A task by its id, the name of its node, or its key in the pipeline."""
        return self._request("GET", f"runs/{_quoted(run)}/nodes/{_quoted(task)}")

    def outputs(self, run: str, task: str) -> dict[str, Any]:
        """The output parameters of a task, with their types."""
        found: dict[str, Any] = self.task(run, task)["node"]["outputs"].get("parameterValues") or {}
        return found

    def log(self, run: str, task: str, *, attempt: int | None = None) -> str:
        """The log of the last attempt, or of another one, counted from 1."""
        path = f"{_BASE}/runs/{_quoted(run)}/nodes/{_quoted(task)}/log"
        return str(self._transport.request("GET", path, query={"attempt": attempt}) or "")

    def download(self, run: str, task: str, artifact: str, target: str | Path, *, path: str = "") -> None:
        """Writes an output artifact to a file. `path` names a file in an artifact that is a folder."""
        address = f"{_BASE}/runs/{_quoted(run)}/nodes/{_quoted(task)}/artifacts/{_quoted(artifact)}"
        with self._transport.download(address, {"path": path}) as response, Path(target).open("wb") as file:
            while block := response.read(1 << 16):
                file.write(block)

    def artifacts(self, *, run: str = "", uri: str = "") -> list_[Message]:
        """The artifacts of a run, or every task that made or used the artifact with this uri."""
        return list_(self._request("GET", "artifacts", query={"run_id": run, "uri": uri}).get("artifacts") or ())

    # Recurring runs

    def recurring_runs(self, *, namespace: str = "", most: int | None = None) -> Iterator[Message]:
        return self._pages("recurringruns", "recurringRuns", {"namespace": namespace}, most)

    def get_recurring_run(self, identifier: str) -> Message:
        return self._request("GET", f"recurringruns/{_quoted(identifier)}")

    def create_recurring_run(
        self, pipeline: str = "", *, cron: str = "", interval: int = 0, version: str = "",
        spec: Mapping[str, Any] | None = None, name: str = "", parameters: Mapping[str, Any] | None = None,
        experiment: str = "", max_concurrency: int = 1, catch_up: bool = True,
    ) -> Message:  # fmt: skip
        body = self._source(pipeline, version, spec, name, parameters, experiment)
        trigger = {"cron_schedule": {"cron": cron}} if cron else {"periodic_schedule": {"interval_second": interval}}
        more = {"trigger": trigger, "max_concurrency": max_concurrency, "no_catchup": not catch_up, "mode": "ENABLE"}
        return self._request("POST", "recurringruns", {**body, **more})

    def enable_recurring_run(self, identifier: str, *, enabled: bool = True) -> None:
        self._request("POST", f"recurringruns/{_quoted(identifier)}:{'enable' if enabled else 'disable'}")

    def delete_recurring_run(self, identifier: str) -> None:
        self._request("DELETE", f"recurringruns/{_quoted(identifier)}")

    def _source(
        self, pipeline: str, version: str, spec: Mapping[str, Any] | None, name: str,
        parameters: Mapping[str, Any] | None, experiment: str,
    ) -> Message:  # fmt: skip
        body: Message = {"runtime_config": {"parameters": dict(parameters or {})}}
        if spec is not None:
            body["pipeline_spec"] = dict(spec)
        else:
            found = self.get(pipeline)
            body["pipeline_version_reference"] = {"pipeline_id": found["pipeline_id"], "pipeline_version_id": version}
            name = name or found["display_name"]
        if experiment:
            body["experiment_id"] = self.experiment(experiment)["experiment_id"]
        return {**body, "display_name": name or "run"}

    def _request(self, method: str, path: str, body: Any = None, query: Mapping[str, Any] | None = None) -> Message:
        found: Message = self._transport.request(method, f"{_BASE}/{path}", body, query=query)
        return found

    def _pages(self, path: str, name: str, query: Mapping[str, Any], most: int | None) -> Iterator[Message]:
        token, left = "", most
        while left is None or left > 0:
            size = _PAGE if left is None else min(left, _PAGE)
            page = self._request("GET", path, query={**query, "page_size": size, "page_token": token})
            items = page.get(name) or []
            yield from items
            token = page.get("next_page_token") or ""
            left = None if left is None else left - len(items)
            if not token:
                return

    def _upload(self, path: str, file: Path, query: Mapping[str, Any]) -> Message:
        boundary = secrets.token_hex(16)
        shown = file.name.replace('"', "_")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="uploadfile"; filename="{shown}"\r\n\r\n'
        body = head.encode() + file.read_bytes() + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        found: Message = self._transport.request("POST", f"{_BASE}/{path}", body, query=query, headers=headers)
        return found


list_ = list
"""`list` is a method of Pipelines."""


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _equals(key: str, value: str) -> str:
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": key, "string_value": value}]})
