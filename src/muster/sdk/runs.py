"""Runs, their nodes and logs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from muster.platform.records.pods import KubernetesEvent, PodSummary
from muster.platform.records.runs import Run, RunDetail, RunNodeDetail, RunWithNodes, TagCount
from muster.sdk.transport import Transport, parse_record

ENDED = ("succeeded", "failed", "stopped")
_PAUSE_SECONDS = 1.0


class Runs:
    """Runs are named by their ids."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, q: str = "", states: Sequence[str] = (), workflow: str = "", version: str = "", owner: str = "",
        team: str = "", since: datetime | None = None, until: datetime | None = None, sort: str = "",
        most: int | None = None, tags: Sequence[str] = (),
    ) -> Iterator[Run]:  # fmt: skip
        """The newest first by default. `tags`: KEY=VALUE, or KEY for any value; only runs with all of them."""
        query = {
            "q": q,
            "state": list_(states),
            "workflow": workflow,
            "version": version,
            "owner": owner,
            "team": team,
            "since": since.isoformat() if since else "",
            "until": until.isoformat() if until else "",
            "tag": list_(tags),
            "sort": sort,
        }
        return (parse_record(Run, item) for item in self._transport.pages("runs", query, most))

    def get(self, run: str) -> RunDetail:
        return parse_record(RunDetail, self._transport.request("GET", _path(run)))

    def graph(self, run: str) -> dict[str, Any]:
        """The nodes and edges to draw, by scope."""
        found: dict[str, Any] = self._transport.request("GET", f"{_path(run)}/graph")
        return found

    def create(
        self, workflow: str, version: str = "latest", *, name: str = "", parameters: Mapping[str, str] | None = None,
        team: str | None = None, tags: Sequence[str] = (),
    ) -> Run:  # fmt: skip
        body = {
            "workflow": workflow,
            "version": version,
            "name": name,
            "parameters": dict(parameters or {}),
            "tags": list_(tags),
        }
        return parse_record(
            Run, self._transport.request("POST", "runs", body | ({} if team is None else {"team": team}))
        )

    def copy(
        self, run: str, *, name: str = "", version: str = "", parameters: Mapping[str, str] | None = None,
        tags: Sequence[str] | None = None,
    ) -> Run:  # fmt: skip
        """Starts a new run with the values and tags of an old one, and changes."""
        body: dict[str, Any] = {"name": name, "version": version, "parameters": dict(parameters or {})}
        if tags is not None:
            body["tags"] = list_(tags)
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/copy", body))

    def rename(self, run: str, name: str) -> Run:
        return parse_record(Run, self._transport.request("PATCH", _path(run), {"name": name}))

    def set_tags(self, run: str, tags: Sequence[str]) -> Run:
        """Replaces the tags of a run."""
        return parse_record(Run, self._transport.request("PATCH", _path(run), {"tags": list_(tags)}))

    def tags(self, workflow: str = "") -> list_[TagCount]:
        """The tags that runs have, or those of one workflow, the most frequent first."""
        found = self._transport.request("GET", "runs/tags", query={"workflow": workflow})
        return [parse_record(TagCount, each) for each in found]

    def stop(self, run: str) -> Run:
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/stop"))

    def retry(self, run: str) -> Run:
        """Retries the run. Nodes that succeeded are not repeated."""
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/retry"))

    def delete(self, run: str) -> None:
        self._transport.request("DELETE", _path(run))

    def node(self, run: str, node: str) -> RunNodeDetail:
        """Everything about a node: inputs and outputs with their values, command, image, resources, attempts."""
        return parse_record(RunNodeDetail, self._transport.request("GET", _path(run, node)))

    def pods(self, run: str, node: str) -> list_[PodSummary]:
        found = self._transport.request("GET", f"{_path(run, node)}/pods")
        return [parse_record(PodSummary, pod) for pod in found]

    def events(self, run: str, node: str) -> list_[KubernetesEvent]:
        """The Kubernetes events of the node's Pods, the oldest first."""
        found = self._transport.request("GET", f"{_path(run, node)}/events")
        return [parse_record(KubernetesEvent, event) for event in found]

    def log(
        self, run: str, node: str, *, attempt: int | None = None, tail: int | None = None, times: bool = False
    ) -> str:
        query = {"attempt": attempt, "tail": tail, "times": "true" if times else ""}
        return str(self._transport.request("GET", f"{_path(run, node)}/log", query=query) or "")

    def follow_log(self, run: str, node: str, *, attempt: int | None = None) -> Iterator[str]:
        """Yields lines as they are written, until the attempt has ended. Reconnects if the connection is lost."""
        for event in self._transport.events(f"{_path(run, node)}/log/events", {"attempt": attempt}):
            if event.name == "end":
                return
            yield event.data["text"]

    def watch(self, run: str) -> Iterator[RunWithNodes]:
        """Yields the run as it is now, and after every change."""
        for event in self._transport.events(f"{_path(run)}/events"):
            yield parse_record(RunWithNodes, event.data)

    def wait(self, run: str, timeout: float | None = None) -> Run:
        """Waits until the run has ended. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.get(run)
            if found.state in ENDED:
                return found
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"the run {run} is still {found.state}")
            time.sleep(_PAUSE_SECONDS)


list_ = list
"""`list` is a method above."""


def _path(run: str, node: str = "") -> str:
    path = f"runs/{quote(run, safe='')}"
    return f"{path}/nodes/{quote(node, safe='')}" if node else path
