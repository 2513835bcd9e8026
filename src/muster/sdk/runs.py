"""Runs, their nodes and logs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from muster.sdk.transport import Event, Transport, parse_record

ENDED = ("succeeded", "failed", "stopped")
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    name: str
    workflow_name: str
    version_id: str
    version_number: int
    version_name: str
    owner_name: str
    team_name: str | None
    copied_from: str
    state: str
    """waiting, running, succeeded, failed or stopped"""
    message: str
    nodes: int
    done: int
    retries: int
    created: datetime
    started: datetime | None
    finished: datetime | None
    revision: int


@dataclass(frozen=True, slots=True)
class RunNode:
    name: str
    kind: str
    state: str
    message: str
    attempts: int
    started: datetime | None
    finished: datetime | None
    cluster: str
    skus: int


@dataclass(frozen=True, slots=True)
class WholeRun:
    run: Run
    nodes: list[RunNode]
    parameters: dict[str, str] | None
    """None if it is not shared with you."""
    document: dict[str, Any]


class Runs:
    """Runs are named by their ids."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, q: str = "", states: Sequence[str] = (), workflow: str = "", version: str = "", owner: str = "",
        team: str = "", since: datetime | None = None, until: datetime | None = None, sort: str = "",
        most: int | None = None,
    ) -> Iterator[Run]:  # fmt: skip
        """The newest first, if nothing else is said."""
        query = {
            "q": q,
            "state": list_(states),
            "workflow": workflow,
            "version": version,
            "owner": owner,
            "team": team,
            "since": since.isoformat() if since else "",
            "until": until.isoformat() if until else "",
            "sort": sort,
        }
        return (parse_record(Run, item) for item in self._transport.pages("runs", query, most))

    def get(self, run: str) -> WholeRun:
        said = self._transport.request("GET", _path(run))
        nodes = [parse_record(RunNode, node) for node in said["node_states"]]
        return WholeRun(parse_record(Run, said), nodes, said["parameters"], said["document"])

    def create(
        self, workflow: str, version: str = "latest", *, name: str = "", parameters: Mapping[str, str] | None = None,
        team: str | None = None,
    ) -> Run:  # fmt: skip
        body = {"workflow": workflow, "version": version, "name": name, "parameters": dict(parameters or {})}
        return parse_record(
            Run, self._transport.request("POST", "runs", body | ({} if team is None else {"team": team}))
        )

    def copy(self, run: str, *, name: str = "", version: str = "", parameters: Mapping[str, str] | None = None) -> Run:
        """A new run with the values of an old one, except for what is said."""
        body = {"name": name, "version": version, "parameters": dict(parameters or {})}
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/copy", body))

    def rename(self, run: str, name: str) -> Run:
        return parse_record(Run, self._transport.request("PATCH", _path(run), {"name": name}))

    def stop(self, run: str) -> Run:
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/stop"))

    def retry(self, run: str) -> Run:
        """What has succeeded is not done again."""
        return parse_record(Run, self._transport.request("POST", f"{_path(run)}/retry"))

    def delete(self, run: str) -> None:
        self._transport.request("DELETE", _path(run))

    def node(self, run: str, node: str) -> dict[str, Any]:
        """All about a node: inputs and outputs with their values, command, image, resources, attempts."""
        found: dict[str, Any] = self._transport.request("GET", _path(run, node))
        return found

    def pods(self, run: str, node: str) -> list_[dict[str, Any]]:
        found: list_[dict[str, Any]] = self._transport.request("GET", f"{_path(run, node)}/pods")
        return found

    def happenings(self, run: str, node: str) -> list_[dict[str, Any]]:
        found: list_[dict[str, Any]] = self._transport.request("GET", f"{_path(run, node)}/events")
        return found

    def log(
        self, run: str, node: str, *, attempt: int | None = None, tail: int | None = None, times: bool = False
    ) -> str:
        query = {"attempt": attempt, "tail": tail, "times": "true" if times else ""}
        return str(self._transport.request("GET", f"{_path(run, node)}/log", query=query) or "")

    def follow_log(self, run: str, node: str, *, attempt: int | None = None) -> Iterator[str]:
        """Lines as they are written, until the attempt has ended. A connection that is lost is made again."""
        for event in self._transport.events(f"{_path(run, node)}/log/events", {"attempt": attempt}):
            if event.name == "end":
                return
            yield event.data["text"]

    def watch(self, run: str) -> Iterator[WholeRun]:
        """The run as it is now, and whenever it has changed."""
        for event in self._transport.events(f"{_path(run)}/events"):
            yield _watched(event)

    def wait(self, run: str, timeout: float | None = None) -> Run:
        """Until it has ended. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.get(run).run
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


def _watched(event: Event) -> WholeRun:
    nodes = [parse_record(RunNode, node) for node in event.data["node_states"]]
    return WholeRun(parse_record(Run, event.data), nodes, None, {})
