"""Progress that the program of a job reports itself: `POST /api/v1/dispatch/jobs/{job}/progress`.

A program on AIHC, on timaker or in a Pod shares no folder with the dispatcher. It gets an address and a token as
variables. The token is derived from a key of this platform, the job and the attempt: it is stored nowhere, is valid
until the attempt ends, and allows nothing else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from muster.dispatch.errors import JobNotFound
from muster.dispatch.lifecycle import Reported, advance
from muster.dispatch.model import Job
from muster.dispatch.secrets import Secret
from muster.dispatch.store import change_job, get_job
from muster.platform.database.tables import settings
from muster.platform.errors import ConflictProblem, UnauthenticatedProblem
from muster.platform.users.credentials import secrets_equal

URL_VARIABLE: Final = "MUSTER_PROGRESS_URL"
TOKEN_VARIABLE: Final = "MUSTER_PROGRESS_TOKEN"  # noqa: S105 (the name of a variable)
PREFIX: Final = "mjp_"
_KEY: Final = "dispatch progress key"


@dataclass(frozen=True, slots=True)
class Progress:
    """What a program says about itself. What it leaves out stays as it is."""

    progress: float | None = None
    message: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, repr=False)
class ProgressToken(Secret):
    """The token of an attempt. As a `Secret`, adapters hide it wherever they can."""

    key: str

    def reveal(self) -> str:
        return PREFIX + hmac.new(self.key.encode(), self.reference.encode(), hashlib.sha256).hexdigest()


def ensure_progress_key(connection: Connection) -> str:
    """Returns the key of all servers that share this database, and creates it the first time."""
    make = postgres_insert if connection.dialect.name == "postgresql" else sqlite_insert
    fresh = make(settings).values(key=_KEY, value=secrets.token_hex(32))
    connection.execute(fresh.on_conflict_do_nothing(index_elements=["key"]))
    found: str = connection.execute(select(settings.c.value).where(settings.c.key == _KEY)).scalar_one()
    return found


def progress_token(job: Job, key: str) -> ProgressToken:
    return ProgressToken(f"{job.id} {job.attempt}", key)


def progress_variables(job: Job, key: str, server: str) -> dict[str, str | Secret]:
    """Returns what the program of a job needs to report. `server` is the address that it reaches; '' if it has none."""
    if not server:
        return {}
    url = f"{server}/api/v1/dispatch/jobs/{job.id}/progress"
    return {URL_VARIABLE: url, TOKEN_VARIABLE: progress_token(job, key)}


def check_token(connection: Connection, key: str, identifier: str, token: str) -> None:
    """Raises Unauthenticated, also for a job that does not exist."""
    try:
        job = get_job(connection, identifier)
    except JobNotFound:
        raise UnauthenticatedProblem.of("token.unknown") from None
    if not secrets_equal(token, progress_token(job, key).reveal()):
        raise UnauthenticatedProblem.of("token.unknown")


def store_progress(connection: Connection, identifier: str, said: Progress) -> None:
    """Raises Conflict if the job has ended."""

    def report(job: Job) -> Job:
        if job.has_ended:
            raise ConflictProblem.of("dispatch.ended", state=job.state)
        reported = Reported(job.tracking.report_offset, said.progress, said.message, tuple(said.metrics.items()))
        return advance(job, reported, datetime.now(UTC))

    change_job(connection, identifier, report)
