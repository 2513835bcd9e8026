"""What can go wrong with a job, as exceptions.

An adapter maps every answer of its cluster to one of five kinds, and the dispatcher decides what follows:

| raised | meaning | what the dispatcher does |
| --- | --- | --- |
| `JobError` | the job itself is at fault | fails the job; `Retry` may start it again |
| `NoCapacity` | the cluster has no room at the moment | waits; not counted as an attempt |
| `Transient` | nothing has happened; the same call may work later | repeats with back-off; not counted as an attempt |
| `Unclear` | the call may or may not have been carried out | looks for the job before it creates one |
| `Refused` | the cluster will never accept this | fails the job; no retry |

Any other exception of an adapter counts as `Unclear` when it comes from `start`, and as `Transient` otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from muster.dispatch.model import JobFault


class DispatchError(Exception):
    """Base of all errors of `muster.dispatch`. `code` is for programs, `message` for people."""

    code = "Dispatch.Error"

    def __init__(self, message: str, *, code: str = "", retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.retry_after = retry_after
        """Seconds after which another try makes sense, if the cluster said so."""


class JobError(DispatchError):
    """The job cannot succeed. Raised by hooks and functions: `raise JobError("Train.Diverged", "the loss is NaN")`."""

    code = "Job.Failed"

    def __init__(self, code: str, message: str = "", *, retryable: bool = True) -> None:
        super().__init__(message or code, code=code)
        self.retryable = retryable
        """False: `Retry` does not start the job again."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_job_error, (self.code, self.message, self.retryable))


class NoCapacity(DispatchError):
    """There is no room at the moment. The job waits, with this message as its reason."""

    code = "Dispatch.NoCapacity"


class Transient(DispatchError):
    """The call had no effect and may work later."""

    code = "Dispatch.Transient"


class Unclear(DispatchError):
    """The call was sent, and whether it was carried out is not known."""

    code = "Dispatch.Unclear"


class Refused(DispatchError):
    """The cluster will never accept this request."""

    code = "Dispatch.Refused"


class InvalidJob(DispatchError):
    """The caller asked for something that cannot be: an unknown type, arguments that are not JSON, a bad state."""

    code = "Dispatch.Invalid"


class JobNotFound(DispatchError):
    """The dispatcher has no job with this id."""

    code = "Dispatch.NotFound"


class JobFailed(DispatchError):
    """Raised by `JobHandle.result()` of a failed job."""

    def __init__(self, fault: JobFault) -> None:
        super().__init__(f"{fault.code}: {fault.message}", code=fault.code)
        self.fault = fault

    def __reduce__(self) -> tuple[object, ...]:
        return (JobFailed, (self.fault,))


class JobCancelled(DispatchError):
    """Raised by `JobHandle.result()` of a cancelled job."""

    code = "Job.Cancelled"


def _job_error(code: str, message: str, retryable: bool) -> JobError:
    return JobError(code, message, retryable=retryable)
