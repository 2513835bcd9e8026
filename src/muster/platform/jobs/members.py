"""The members of a job, role by role, with the Pods they are now. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from muster.kube.objects import Object, name_of, spec_of, status_of, uid_of
from muster.kube.pod_columns import summarize
from muster.kube.why import why
from muster.platform.jobs.jobs import ENDED, State
from muster.training.dialect import Dialect
from muster.training.model import TrainingJob
from muster.training.names import replica_name

MemberState: TypeAlias = Literal["waiting", "running", "succeeded", "failed", "gone"]

_PHASES: Mapping[str, MemberState] = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


@dataclass(frozen=True, slots=True)
class Member:
    index: int
    pod: str
    """What its Pod is called, whether it is there or not."""
    uid: str
    """Of the Pod; '' if there is none."""
    state: MemberState
    word: str
    """As `kubectl get pods` has it."""
    restarts: int
    host: str
    started: str | None
    finished: str | None
    exit_code: int | None
    message: str
    """Why it waits or has failed."""
    containers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoleMembers:
    name: str
    replicas: int
    restart: str
    members: tuple[Member, ...]


def members_of(job: TrainingJob, pods: Iterable[Object], state: State) -> list[RoleMembers]:
    """Also those that have no Pod: not yet, or not any more."""
    by_name = {name_of(pod): pod for pod in pods}
    return [
        RoleMembers(
            role.name,
            role.replicas,
            role.restart,
            tuple(
                _member(replica.index, replica_name(job, replica), by_name.get(replica_name(job, replica)), state)
                for replica in role.members()
            ),
        )
        for role in job.roles
    ]


def trainers(dialect: Dialect, job: TrainingJob) -> dict[str, str]:
    """The container that trains, by the names of the Pods that the job has or will have."""
    return {
        replica_name(job, replica): str(dialect.trainer(role.template.get("spec") or {}).get("name") or "")
        for role in job.roles
        for replica in role.members()
    }


def _member(index: int, name: str, pod: Object | None, state: State) -> Member:
    if pod is None:
        gone = state in ENDED
        return Member(index, name, "", "gone" if gone else "waiting", "", 0, "", None, None, None, "", ())
    summary, ends = summarize(pod), _ends(pod)
    finished = [end["finishedAt"] for end in ends if end.get("finishedAt")]
    codes = [int(end.get("exitCode") or 0) for end in ends]
    phase = str(status_of(pod).get("phase") or "Pending")
    over = phase in ("Succeeded", "Failed")
    reasons = why(pod)
    return Member(
        index=index,
        pod=name,
        uid=uid_of(pod),
        state=_PHASES.get(phase, "waiting"),
        word=summary.status,
        restarts=summary.restarts,
        host=str(spec_of(pod).get("nodeName") or ""),
        started=status_of(pod).get("startTime"),
        finished=max(finished) if over and finished else None,
        exit_code=max(codes) if over and codes else None,
        message=reasons[0] if reasons else "",
        containers=tuple(str(each.get("name") or "") for each in spec_of(pod).get("containers") or ()),
    )


def _ends(pod: Object) -> Sequence[Mapping[str, Any]]:
    statuses = status_of(pod).get("containerStatuses") or ()
    return [end for each in statuses if (end := (each.get("state") or {}).get("terminated"))]
