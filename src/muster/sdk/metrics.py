"""Scalars that runs, nodes and jobs have written."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from muster.platform.records.jobs import Job
from muster.platform.records.metrics import Metrics
from muster.sdk.transport import PlatformError, Transport, parse_record


class MetricsClient:
    """Subjects are `run:ID`, `node:RUN/NODE` and `job:NAMESPACE/KIND/NAME`, up to 20 of them.

    `pattern` is a regular expression (RE2) for log lines, whose named groups are metrics."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, *subjects: str, pattern: str = "", points: int = 500, since: str = "") -> Metrics:
        """`points` is the most of each series. With `since`, the cursor of an earlier answer, only series with new
        points."""
        query = {**_query(subjects, pattern), "points": points, "since": since}
        return parse_record(Metrics, self._transport.request("GET", "metrics", query=query))

    def csv(self, *subjects: str, pattern: str = "") -> Iterator[str]:
        """Yields the lines of a table with all stored points."""
        query = {**_query(subjects, pattern), "format": "csv"}
        with self._transport.download("metrics", query) as response:
            yield from io.TextIOWrapper(response, "utf-8")

    def find(self, name: str) -> str:
        """Returns the subject that a user means by the id or name of a run, the name of a job, RUN/NODE, KIND/NAME or
        NAMESPACE/KIND/NAME. Raises PlatformError if there is none, or several jobs have that name."""
        if name.partition(":")[0] in ("run", "node", "job"):
            return name
        first, *rest = name.split("/")
        if len(rest) == 2:
            return f"job:{name}"
        if not rest and self._exists(f"runs/{first}"):
            return f"run:{first}"
        if rest and self._exists(f"runs/{first}"):
            return f"node:{name}"
        jobs = [job for job in self._jobs(rest[0] if rest else first) if not rest or job.word == first.lower()]
        if len(jobs) > 1:
            known = ", ".join(f"{job.namespace}/{job.word}/{job.name}" for job in jobs[:5])
            raise PlatformError(409, "ambiguous", f'there are several jobs "{name}"; choose one of: {known}')
        if jobs:
            return f"job:{jobs[0].namespace}/{jobs[0].word}/{jobs[0].name}"
        runs = [] if rest else [run for run in self._transport.pages("runs", {"q": name}, 50) if run["name"] == name]
        if runs:
            return f"run:{runs[0]['id']}"
        raise PlatformError(404, "not-found", f'there is no run and no job "{name}" that you may see')

    def _exists(self, path: str) -> bool:
        try:
            self._transport.request("GET", path)
        except PlatformError as error:
            if error.status != 404:
                raise
            return False
        return True

    def _jobs(self, name: str) -> list[Job]:
        found = (parse_record(Job, item) for item in self._transport.pages("jobs", {"q": name}, 200))
        return [job for job in found if job.name == name]


def _query(subjects: Sequence[str], pattern: str) -> dict[str, Any]:
    return {"of": list(subjects), "pattern": pattern}
