"""Runs a function as a job: `python -m muster.dispatch.run shop.jobs:train`.

The job is described by the variable MUSTER_JOB (JSON), or by the file that MUSTER_JOB_FILE names. The result goes into
`result.json` of the job's folder, an error into `error.json`; without a folder, both go into the Pod's termination
message.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import traceback
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from threading import Event
from typing import Any

import orjson

from muster.dispatch.codec import job_from_json
from muster.dispatch.context import ERROR, RESULT, Context, default_errors, encode_result, marshal, write_json
from muster.dispatch.model import Job
from muster.dispatch.targets import load_target

JOB_VARIABLE, FILE_VARIABLE, ERRORS_VARIABLE = "MUSTER_JOB", "MUSTER_JOB_FILE", "MUSTER_JOB_ERRORS"
TERMINATION_LOG = Path("/dev/termination-log")
_TERMINATION_BYTES = 4000


def main(target: str) -> int:
    job = _read_job()
    folder = Path(job.folder) if job.folder else Path(mkdtemp(prefix="muster-job-"))
    cancelled = Event()

    def stop(*_: object) -> None:
        if cancelled.is_set():
            sys.exit(143)
        cancelled.set()

    signal.signal(signal.SIGTERM, stop)
    try:
        function = load_target(target)
        context = Context(job, folder, cancelled, dict(job.tracking.kept))
        result = function(context, **job.args)
        if inspect.isawaitable(result):
            import asyncio  # a third of the time that this program takes to start

            result = asyncio.run(_wait(result))
        value = orjson.loads(encode_result(result))
    except (Exception, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code in (None, 0, 143):
            return int(error.code or 0)
        traceback.print_exc()
        errors = os.environ.get(ERRORS_VARIABLE)
        fault = marshal(error, "run", job, load_target(errors) if errors else default_errors)
        _write(job, ERROR, {"attempt": job.attempt, "fault": asdict(fault)})
        return 1
    if cancelled.is_set() and value is None:
        return 143  # it noticed that it was cancelled, and returned
    _write(job, RESULT, {"attempt": job.attempt, "result": value})
    return 0


async def _wait(awaitable: Any) -> Any:
    return await awaitable


def _read_job() -> Job:
    file = os.environ.get(FILE_VARIABLE)
    return job_from_json(orjson.loads(Path(file).read_bytes() if file else os.environ[JOB_VARIABLE]))


def _write(job: Job, name: str, data: dict[str, Any]) -> None:
    if job.folder:
        write_json(Path(job.folder) / name, data)
        return
    text = orjson.dumps(data)
    if len(text) > _TERMINATION_BYTES:
        print(f"the result has {len(text)} bytes; without a shared folder, at most {_TERMINATION_BYTES} fit")
        sys.exit(1)
    TERMINATION_LOG.write_bytes(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
