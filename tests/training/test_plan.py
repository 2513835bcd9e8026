"""Plans for training jobs, as tables: the job and its Pods in, a plan out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from muster.kube.cluster import Endpoint
from muster.kube.objects import Object, name_of, owner_reference, timestamp
from muster.training.gang import GangSettings
from muster.training.kinds.paddlecloud import PaddleCloud
from muster.training.kinds.pytorch import PyTorch
from muster.training.model import (
    ATTEMPT_ANNOTATION,
    REPLICA_INDEX,
    REPLICA_TYPE,
    RESTART_SCOPE,
    ObservedObjects,
    Progress,
    Replica,
    TrainingJob,
)
from muster.training.plan import EXCEEDED_ANNOTATION, Plan, plan
from muster.training.replicas import RESTARTS_ANNOTATION, gang_attempt
from tests.training.sample_jobs import cluster_addresses, naming

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
MakeJob = Callable[..., Object]
DIALECT = PyTorch()


def pod(
    role: str,
    index: int,
    phase: str,
    *,
    code: int | None = None,
    attempt: int = 0,
    restarts: int = 0,
    ended: datetime = NOW,
) -> Object:
    state = {}
    if code is not None:
        state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": timestamp(ended)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"job-{role.lower()}-{index}",
            "namespace": "default",
            "labels": {REPLICA_TYPE: role.lower(), REPLICA_INDEX: str(index)},
            "annotations": {ATTEMPT_ANNOTATION: str(attempt)},
        },
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "pytorch", "state": state, "restartCount": restarts}],
        },
    }


def decide(
    obj: Object,
    pods: Sequence[Object] = (),
    *,
    progress: Progress = Progress(),  # noqa: B008
    gang: GangSettings = GangSettings(),  # noqa: B008
    group: Object | None = None,
    services: Sequence[Object] = (),
    now: datetime = NOW,
) -> Plan:
    job: TrainingJob = DIALECT.read(obj)
    addresses = {replica: Endpoint("127.0.0.1", 20000) for replica in [*job.replicas(), Replica("Worker", 0)]}
    return plan(DIALECT, job, progress, ObservedObjects(pods, services, (), group), addresses, now, gang)


def created(decided: Plan, kind: str) -> list[str]:
    return [name_of(thing) for thing in decided.create if thing["kind"] == kind]


def state(decided: Plan) -> str:
    """The State column."""
    return str(decided.progress.conditions[-1]["type"])


def with_policy(obj: Object, **policy: Any) -> Object:
    return {**obj, "spec": {**obj["spec"], "runPolicy": policy}}


def annotated(obj: Object, annotations: Mapping[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "annotations": dict(annotations)}}


def running(*roles: tuple[str, int]) -> list[Object]:
    return [pod(role, index, "Running") for role, index in roles]


ALL = [("Master", 0), ("Worker", 0), ("Worker", 1)]


def test_a_new_job_gets_a_pod_and_a_service_for_each_replica(pytorch_job: MakeJob) -> None:
    decided = decide(pytorch_job())
    names = ["job-master-0", "job-worker-0", "job-worker-1"]
    assert created(decided, "Pod") == names
    assert created(decided, "Service") == names
    assert state(decided) == "Created"
    assert decided.progress.start == timestamp(NOW)


def test_only_what_is_missing_is_created(pytorch_job: MakeJob) -> None:
    decided = decide(pytorch_job(), running(("Master", 0), ("Worker", 1)))
    assert created(decided, "Pod") == ["job-worker-0"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([pod("Master", 0, "Pending")], "Created"),
        (running(*ALL), "Running"),
        ([pod("Master", 0, "Succeeded"), pod("Worker", 0, "Running")], "Succeeded"),
        ([pod("Master", 0, "Running"), pod("Worker", 0, "Succeeded")], "Running"),
    ],
)
def test_the_state_follows_the_master(pytorch_job: MakeJob, pods: list[Object], expected: str) -> None:
    assert state(decide(pytorch_job(), pods)) == expected


@pytest.mark.parametrize(
    ("policy", "code", "restarted"),
    [
        ("Never", 1, False),
        ("OnFailure", 1, True),
        ("Always", 1, True),
        ("ExitCode", 1, False),
        ("ExitCode", 127, False),
        ("ExitCode", 128, True),
        ("ExitCode", 137, True),
        ("ExitCode", None, True),
    ],
)
def test_a_failed_replica_is_restarted_if_its_policy_says_so(
    pytorch_job: MakeJob, policy: str, code: int | None, restarted: bool
) -> None:
    obj = pytorch_job({"Master": 1, "Worker": {"replicas": 2, "restartPolicy": policy}})
    decided = decide(obj, [*running(("Master", 0), ("Worker", 1)), pod("Worker", 0, "Failed", code=code)])
    if not restarted:
        assert decided.progress.has("Failed")
        assert "1 Worker replica(s) failed" in decided.progress.conditions[-1]["message"]
        return
    assert decided.annotations == {RESTARTS_ANNOTATION: '{"worker-0":1}'}
    assert [name_of(p) for p in decided.delete] == ["job-worker-0"]
    again = decide(annotated(obj, decided.annotations), running(("Master", 0), ("Worker", 1)))
    (made,) = [p for p in again.create if p["kind"] == "Pod"]
    assert made["metadata"]["annotations"][ATTEMPT_ANNOTATION] == "1"


def test_a_restart_is_counted_before_the_pod_is_deleted_so_a_crash_loses_no_count(pytorch_job: MakeJob) -> None:
    obj = annotated(pytorch_job(), {RESTARTS_ANNOTATION: '{"worker-0":1}'})
    decided = decide(obj, [*running(("Master", 0), ("Worker", 1)), pod("Worker", 0, "Failed", code=1)])
    assert decided.annotations == {}, "counted already: the old Pod is only still to be deleted"
    assert [name_of(p) for p in decided.delete] == ["job-worker-0"]


@pytest.mark.parametrize(
    ("limit", "so_far", "in_place", "fails"),
    [(0, "{}", 0, True), (1, "{}", 0, False), (1, '{"worker-0":1}', 0, True), (3, "{}", 3, False), (3, "{}", 4, True)],
)
def test_all_restarts_count_towards_the_backoff_limit(
    pytorch_job: MakeJob, limit: int, so_far: str, in_place: int, fails: bool
) -> None:
    obj = annotated(with_policy(pytorch_job(), backoffLimit=limit), {RESTARTS_ANNOTATION: so_far})
    bad = pod("Worker", 0, "Running", restarts=in_place) if in_place else pod("Worker", 0, "Failed", code=1, attempt=9)
    decided = decide(obj, [*running(("Master", 0)), bad])
    assert decided.progress.has("Failed") == fails
    if fails:
        assert decided.progress.conditions[-1]["reason"] == "PyTorchJobFailed"
        assert decided.events[-1][1] == "PyTorchJobBackoffLimitExceeded"
        assert RESTARTS_ANNOTATION not in decided.annotations
        assert not decided.progress.has("Restarting")


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize(("limit", "restarts", "fails"), [(0, 0, True), (2, 1, False), (2, 2, True)])
def test_a_job_fails_when_a_container_needs_one_restart_too_many_and_not_only_after_it(
    pytorch_job: MakeJob, field: str, limit: int, restarts: int, fails: bool
) -> None:
    crashing = pod("Worker", 0, "Running")
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing["status"][field] = [{"name": "pytorch", "state": state, "restartCount": restarts}]
    decided = decide(with_policy(pytorch_job(), backoffLimit=limit), [*running(("Master", 0)), crashing])
    assert decided.progress.has("Failed") == fails


def test_what_a_node_restarted_in_place_still_counts_when_its_pod_is_replaced(pytorch_job: MakeJob) -> None:
    decided = decide(pytorch_job(), [*running(("Master", 0)), pod("Worker", 0, "Failed", code=1, restarts=2)])
    assert decided.annotations == {RESTARTS_ANNOTATION: '{"worker-0":3}'}


@pytest.mark.parametrize(
    ("so_far", "ended_ago", "left"),
    [(0, 0, None), (1, 0, 1), (1, 1, None), (3, 1, 3), (3, 4, None), (50, 0, 300), (50, 300, None)],
)
def test_a_member_that_fails_again_and_again_is_started_later_and_later(
    pytorch_job: MakeJob, so_far: int, ended_ago: int, left: float | None
) -> None:
    obj = annotated(pytorch_job(), {RESTARTS_ANNOTATION: f'{{"worker-0":{so_far}}}'})
    ended = NOW - timedelta(seconds=ended_ago)
    bad = pod("Worker", 0, "Failed", code=1, attempt=so_far, ended=ended)
    decided = decide(obj, [*running(("Master", 0), ("Worker", 1)), bad])
    assert decided.again == left
    assert bool(decided.annotations) == (left is None)
    assert decided.delete == ([bad] if left is None else [])


def test_a_pod_that_a_user_deletes_has_not_failed_and_is_replaced(pytorch_job: MakeJob) -> None:
    obj = pytorch_job({"Master": 1, "Worker": {"replicas": 1, "restartPolicy": "Never"}})
    dying = pod("Worker", 0, "Failed", code=143)
    dying["metadata"]["deletionTimestamp"] = timestamp(NOW)
    decided = decide(obj, [*running(("Master", 0)), dying])
    assert not decided.progress.has("Failed")
    assert (decided.counts["Worker"].failed, decided.annotations) == (0, {})
    assert created(decide(obj, running(("Master", 0))), "Pod") == ["job-worker-0"]


def test_pods_and_services_of_a_role_that_is_gone_go_too(pytorch_job: MakeJob) -> None:
    services = [{"kind": "Service", "metadata": {"name": f"job-worker-{n}"}} for n in (0, 1)]
    decided = decide(pytorch_job({"Master": 1}), running(*ALL), services=services)
    names = sorted(name_of(thing) for thing in decided.delete)
    assert names == ["job-worker-0", "job-worker-0", "job-worker-1", "job-worker-1"]


def test_with_restart_scope_gang_the_whole_gang_goes_before_any_of_it_comes_back(pytorch_job: MakeJob) -> None:
    obj = annotated(pytorch_job(), {RESTART_SCOPE: "gang"})
    decided = decide(obj, [*running(("Master", 0), ("Worker", 1)), pod("Worker", 0, "Failed", code=1)])
    assert decided.annotations == {RESTARTS_ANNOTATION: '{"gang":1}'}
    assert state(decided) == "Restarting"

    obj = annotated(pytorch_job(), {RESTART_SCOPE: "gang", **decided.annotations})
    going = decide(obj, running(("Master", 0)), progress=decided.progress)
    assert [name_of(p) for p in going.delete] == ["job-master-0"]
    assert created(going, "Pod") == []
    back = decide(obj, [], progress=decided.progress)
    assert len(created(back, "Pod")) == 3
    assert all(p["spec"]["restartPolicy"] == "Never" for p in back.create if p["kind"] == "Pod")


def test_a_deadline_fails_the_job_on_time(pytorch_job: MakeJob) -> None:
    obj = with_policy(pytorch_job(), activeDeadlineSeconds=60)
    began = Progress(start=timestamp(NOW - timedelta(seconds=45)))
    assert decide(obj, running(*ALL), progress=began).again == pytest.approx(15)
    late = decide(obj, running(*ALL), progress=began, now=NOW + timedelta(seconds=15))
    assert late.progress.conditions[-1]["reason"] == "PyTorchJobFailed"
    assert [event[1] for event in late.events] == ["PyTorchJobDeadlineExceeded"]


@pytest.mark.parametrize("policy", ["None", "Running", "All"])
@pytest.mark.parametrize(
    ("limit", "reason"),
    [({"activeDeadlineSeconds": 60}, "DeadlineExceeded"), ({"backoffLimit": 2}, "BackoffLimitExceeded")],
)
def test_a_job_past_a_limit_loses_all_its_pods_whatever_the_clean_policy_says(
    pytorch_job: MakeJob, limit: dict[str, int], reason: str, policy: str
) -> None:
    obj = with_policy(pytorch_job(), cleanPodPolicy=policy, **limit)
    began = Progress(start=timestamp(NOW - timedelta(seconds=60)))
    pods = [pod("Master", 0, "Running"), pod("Worker", 0, "Running", restarts=3), pod("Worker", 1, "Succeeded")]
    decided = decide(obj, pods, progress=began)
    assert decided.progress.has("Failed")
    assert [name_of(p) for p in decided.delete] == ["job-master-0", "job-worker-0", "job-worker-1"]
    assert decided.annotations == {EXCEEDED_ANNOTATION: reason}


def test_pods_of_a_job_past_a_limit_go_even_after_a_crash(pytorch_job: MakeJob) -> None:
    obj = annotated(pytorch_job(), {EXCEEDED_ANNOTATION: "DeadlineExceeded"})
    failed = Progress().with_condition("PyTorchJob", "Failed", "too long", NOW)
    assert [name_of(p) for p in decide(obj, running(*ALL), progress=failed).delete] == [
        "job-master-0",
        "job-worker-0",
        "job-worker-1",
    ]


@pytest.mark.parametrize(
    ("policy", "deleted"),
    [("None", []), ("Running", ["job-worker-0"]), ("All", ["job-master-0", "job-worker-0", "job-worker-1"])],
)
def test_clean_pod_policy(pytorch_job: MakeJob, policy: str, deleted: list[str]) -> None:
    pods = [pod("Master", 0, "Succeeded"), pod("Worker", 0, "Running"), pod("Worker", 1, "Succeeded")]
    decided = decide(with_policy(pytorch_job(), cleanPodPolicy=policy), pods)
    assert decided.progress.has("Succeeded")
    assert [name_of(p) for p in decided.delete] == deleted


def test_a_finished_job_is_deleted_after_its_ttl(pytorch_job: MakeJob) -> None:
    obj = with_policy(pytorch_job(), ttlSecondsAfterFinished=60)
    done = decide(pytorch_job(), [pod("Master", 0, "Succeeded")]).progress
    assert decide(obj, progress=done).again == pytest.approx(60)
    assert not decide(obj, progress=done).expired
    assert decide(obj, progress=done, now=NOW + timedelta(seconds=60)).expired


def test_suspending_takes_everything_away_and_resuming_starts_the_clock_anew(pytorch_job: MakeJob) -> None:
    before = decide(pytorch_job(), running(*ALL))
    suspended = decide(
        with_policy(pytorch_job(), suspend=True, cleanPodPolicy="None"), running(*ALL), progress=before.progress
    )
    assert len(suspended.delete) == 3
    assert state(suspended) == "Suspended"
    assert not suspended.progress.has("Running")
    assert suspended.progress.start is None
    assert suspended.annotations == {RESTARTS_ANNOTATION: '{"resumed":1}'}
    later = NOW + timedelta(hours=1)
    obj = annotated(with_policy(pytorch_job(), backoffLimit=0), suspended.annotations)
    going = decide(with_policy(obj, suspend=True), running(*ALL), progress=suspended.progress)
    assert going.annotations == {}, "counted already"
    resumed = decide(obj, progress=suspended.progress, now=later)
    assert not resumed.progress.has("Suspended")
    assert resumed.progress.start == timestamp(later)
    assert len(created(resumed, "Pod")) == 3, "resuming is no restart in the sense of backoffLimit"
    assert gang_attempt(DIALECT.read(obj)) == 1, "they meet elsewhere: ports of a moment ago may not be bound"


def test_scaling_down_deletes_the_highest_indices_first(pytorch_job: MakeJob) -> None:
    decided = decide(pytorch_job({"Master": 1, "Worker": 1}), running(*ALL))
    assert [name_of(p) for p in decided.delete] == ["job-worker-1"]


GROUP: Object = {"kind": "PodGroup", "metadata": {"name": "job", "namespace": "default"}}


@pytest.mark.parametrize(("phase", "pods"), [(None, 0), ("Pending", 0), ("Inqueue", 3), ("Running", 3)])
def test_no_pod_of_a_gang_exists_before_its_group_is_admitted(
    pytorch_job: MakeJob, phase: str | None, pods: int
) -> None:
    group = {**GROUP, "status": {"phase": phase} if phase else {}}
    decided = decide(pytorch_job(), gang=GangSettings(always=True), group=group)
    assert len(created(decided, "Pod")) == pods
    assert created(decided, "PodGroup") == []


def test_a_user_who_only_names_the_scheduler_has_a_moment_to_bring_a_group(pytorch_job: MakeJob) -> None:
    job = pytorch_job(naming("volcano"))
    job["metadata"]["creationTimestamp"] = timestamp(NOW - timedelta(seconds=1))
    decided = decide(job)
    assert (decided.again, decided.create) == (2.0, [])
    theirs = decide(job, group={**GROUP, "status": {"phase": "Inqueue"}})
    assert created(theirs, "Pod"), "with a group, no Pod waits"
    later = decide(job, now=NOW + timedelta(seconds=2))
    assert created(later, "PodGroup") == ["job"]


def test_a_gangs_group_asks_for_what_its_members_ask_for(pytorch_job: MakeJob) -> None:
    container = {"name": "pytorch", "image": "i", "resources": {"limits": {"cpu": "500m", "nvidia.com/gpu": 1}}}
    worker = {"replicas": 4, "template": {"spec": {"containers": [container]}}}
    obj = pytorch_job({"Worker": worker}, runPolicy={"schedulingPolicy": {"queue": "q", "priorityClass": "high"}})
    (group,) = decide(obj).create
    assert group["spec"] == {
        "minMember": 4,
        "minResources": {"cpu": "2", "nvidia.com/gpu": "4"},
        "queue": "q",
        "priorityClassName": "high",
    }


def test_only_a_group_of_ours_is_deleted_in_the_end(pytorch_job: MakeJob) -> None:
    done = [pod("Master", 0, "Succeeded")]
    theirs = decide(pytorch_job(), done, group=GROUP)
    assert theirs.delete == []
    job = pytorch_job()
    ours = {**GROUP, "metadata": {**GROUP["metadata"], "ownerReferences": [owner_reference(job)]}}
    assert decide(job, done, group=ours).delete == [ours]


def test_a_smaller_job_needs_a_smaller_group(pytorch_job: MakeJob) -> None:
    job = pytorch_job({"Master": 1, "Worker": 1})
    ours = {
        **GROUP,
        "metadata": {**GROUP["metadata"], "ownerReferences": [owner_reference(job)]},
        "spec": {"minMember": 3},
        "status": {"phase": "Running"},
    }
    (changed,) = decide(job, running(*ALL), gang=GangSettings(always=True), group=ours).update
    assert changed["spec"]["minMember"] == 2
    theirs = {**ours, "metadata": GROUP["metadata"]}
    assert decide(job, running(*ALL), gang=GangSettings(always=True), group=theirs).update == []


def test_the_group_of_another_job_of_the_same_name_is_not_ours(pytorch_job: MakeJob) -> None:
    other = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "job", "uid": "other"}}
    group = {
        **GROUP,
        "metadata": {**GROUP["metadata"], "ownerReferences": [owner_reference(other)]},
        "status": {"phase": "Running"},
    }
    decided = decide(pytorch_job(), gang=GangSettings(always=True), group=group)
    assert created(decided, "PodGroup") == ["job"], "the cluster refuses it, and an event says why"
    assert created(decided, "Pod") == []


def test_a_job_that_is_being_deleted_is_left_alone(pytorch_job: MakeJob) -> None:
    obj = pytorch_job()
    obj["metadata"]["deletionTimestamp"] = timestamp(NOW)
    decided = decide(obj, progress=replace(Progress(), start=timestamp(NOW)))
    assert decided.create == []
    assert decided.delete == []


COMPLETE = {
    "PADDLE_TRAINER_ENDPOINTS": "10.0.0.1:2379,10.0.0.2:2379",
    "PADDLE_TRAINERS": "10.0.0.1,10.0.0.2",
    "PADDLE_MASTER": "10.0.0.1:2379",
    "PADDLE_NNODES": "2",
}


@pytest.mark.parametrize(
    ("pods", "there", "done"),
    [
        ({}, None, "create Pods"),
        ({0: ("Pending", ""), 1: ("Pending", "10.0.0.2")}, None, ""),
        ({0: ("Pending", "10.0.0.1"), 1: ("Pending", "10.0.0.2")}, None, "create ConfigMap"),
        ({0: ("Running", "10.0.0.1"), 1: ("Running", "10.0.0.2")}, COMPLETE, ""),
        # A sandbox that the node recreated has another address.
        ({0: ("Running", "10.0.0.1"), 1: ("Running", "10.0.0.9")}, COMPLETE, "update ConfigMap"),
        # A replica that restarts must not rely on old addresses.
        ({0: ("Running", "10.0.0.1")}, COMPLETE, "delete ConfigMap, create Pods"),
        ({0: ("Running", "10.0.0.1"), 1: ("Pending", "")}, COMPLETE, "delete ConfigMap"),
        ({0: ("Running", "10.0.0.1"), 1: ("Succeeded", "")}, COMPLETE, ""),
    ],
)
def test_addresses_of_pods_are_set_only_when_complete(
    pods: Mapping[int, tuple[str, str]], there: Object | None, done: str
) -> None:
    worker = {"replicas": 2, "template": {"spec": {"containers": [{"name": "paddle", "image": "i"}]}}}
    job_kind = PaddleCloud()
    metadata = {"name": "job", "namespace": "default", "uid": "u"}
    job = job_kind.read({
        "apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": metadata,
        "spec": {"intranet": "PodIP", "worker": worker},
    })  # fmt: skip
    data = {**there, "PADDLE_TRAINERS_NUM": "2"} if there else None
    found = {"kind": "ConfigMap", "metadata": {"name": "job", "namespace": "default"}, "data": data}
    made = [
        {**pod("worker", index, phase), "status": {"phase": phase, **({"podIP": ip} if ip else {})}}
        for index, (phase, ip) in pods.items()
    ]
    services: list[Object] = [{"metadata": {"name": f"job-worker-{index}"}} for index in range(2)]
    observed = ObservedObjects(made, services, [found] if there else [])
    decided = plan(job_kind, job, Progress(), observed, cluster_addresses(job_kind, job), NOW, GangSettings())
    steps = {
        "delete ConfigMap": decided.delete == [found],
        "update ConfigMap": [thing["kind"] for thing in decided.update] == ["ConfigMap"],
        "create ConfigMap": created(decided, "ConfigMap") == ["job"],
        "create Pods": len(created(decided, "Pod")) == 2 - len(pods) > 0,
    }
    assert ", ".join(step for step, so in steps.items() if so) == done
    touched = {(thing["kind"], name_of(thing)) for thing in (*decided.delete, *decided.update, *decided.create)}
    assert touched == ({("ConfigMap", "job")} if "ConfigMap" in done else set()) | {
        ("Pod", f"job-worker-{index}") for index in range(2) if index not in pods
    }
