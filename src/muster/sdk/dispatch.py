"""Jobs of the dispatcher, on any of its clusters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from muster.platform.records.dispatch import DispatchAdapter, DispatchJob, DispatchJobDetail
from muster.sdk.transport import Transport, parse_record

ENDED = ("succeeded", "failed", "cancelled")
_PAUSE_SECONDS = 1.0


class Dispatch:
    """Jobs are named by their ids."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def adapters(self) -> list_[DispatchAdapter]:
        found = self._transport.request("GET", "dispatch/adapters")
        return [parse_record(DispatchAdapter, each) for each in found]

    def list(
        self, *, q: str = "", states: Sequence[str] = (), adapters: Sequence[str] = (), types: Sequence[str] = (),
        owner: str = "", team: str = "", since: datetime | None = None, until: datetime | None = None, sort: str = "",
        most: int | None = None,
    ) -> Iterator[DispatchJob]:  # fmt: skip
        """The newest first by default."""
        query = {
            "q": q,
            "state": list_(states),
            "adapter": list_(adapters),
            "type": list_(types),
            "owner": owner,
            "team": team,
            "since": since.isoformat() if since else "",
            "until": until.isoformat() if until else "",
            "sort": sort,
        }
        return (parse_record(DispatchJob, item) for item in self._transport.pages("dispatch/jobs", query, most))

    def get(self, job: str) -> DispatchJobDetail:
        return parse_record(DispatchJobDetail, self._transport.request("GET", _path(job)))

    def submit(
        self, name: str, *, image: str = "", command: Sequence[str] = (), env: Mapping[str, str] | None = None,
        manifest: str = "", adapter: str = "", team: str = "", key: str = "", priority: int = 0,
        resources: Mapping[str, Any] | None = None, **more: Any,
    ) -> DispatchJob:  # fmt: skip
        """Submits an image with a command, or a manifest. `more`: mounts, working_dir, retries, timeout. The same `key`
        is the same job."""
        body: dict[str, Any] = {
            "name": name, "image": image, "command": list_(command), "env": dict(env or {}), "manifest": manifest,
            "adapter": adapter, "team": team, "key": key, "priority": priority, **more,
        }  # fmt: skip
        if resources:
            body["resources"] = dict(resources)
        return parse_record(DispatchJob, self._transport.request("POST", "dispatch/jobs", body))

    def cancel(self, job: str, grace: float = 30) -> DispatchJobDetail:
        """Returns at once; the state says when the job has ended."""
        found = self._transport.request("POST", f"{_path(job)}/cancel", query={"grace": grace})
        return parse_record(DispatchJobDetail, found)

    def restart(self, job: str) -> DispatchJobDetail:
        return parse_record(DispatchJobDetail, self._transport.request("POST", f"{_path(job)}/restart"))

    def resolve(self, job: str, how: Literal["again", "fail", "adopt"], external_id: str = "") -> DispatchJobDetail:
        """Decides about a job whose start is unclear."""
        body = {"how": how, "external_id": external_id}
        return parse_record(DispatchJobDetail, self._transport.request("POST", f"{_path(job)}/resolve", body))

    def set_priority(self, job: str, priority: int) -> DispatchJobDetail:
        found = self._transport.request("PATCH", _path(job), {"priority": priority})
        return parse_record(DispatchJobDetail, found)

    def delete(self, job: str) -> None:
        self._transport.request("DELETE", _path(job))

    def log(self, job: str, *, tail: int | None = None, times: bool = False) -> str:
        query = {"tail": tail, "times": "true" if times else ""}
        return str(self._transport.request("GET", f"{_path(job)}/log", query=query) or "")

    def follow_log(self, job: str) -> Iterator[str]:
        """Yields lines as they are written, until the attempt has ended. Reconnects if the connection is lost."""
        for event in self._transport.events(f"{_path(job)}/log/events"):
            if event.name == "end":
                return
            yield event.data["text"]

    def watch(self, job: str) -> Iterator[DispatchJobDetail]:
        """Yields the job as it is now, and after every change, until it is deleted."""
        for event in self._transport.events(f"{_path(job)}/events"):
            if event.name == "gone":
                return
            yield parse_record(DispatchJobDetail, event.data)

    def wait(self, job: str, timeout: float | None = None) -> DispatchJobDetail:
        """Waits until the job has ended. Raises TimeoutError."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self.get(job)
            if found.state in ENDED:
                return found
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"the job {job} is still {found.state}")
            time.sleep(_PAUSE_SECONDS)


list_ = list
"""`list` is a method above."""


def _path(job: str) -> str:
    return f"dispatch/jobs/{quote(job, safe='')}"
