"""The objects that belong to a job: builds the Pod and the Service of a replica, creates and deletes them, and
records events.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

from muster.kube.cluster import Cluster
from muster.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, controller_of, labels_of, name_of, namespace_of, owner_reference, uid_of
from muster.training.gang import GangMembership
from muster.training.kinds.base import JobKind
from muster.training.model import (
    ATTEMPT_ANNOTATION,
    Addresses,
    PeerDirectory,
    Replica,
    Role,
    TrainingJob,
    Wiring,
    job_labels,
    replica_name,
)

# Builds the Pod and the Service of a replica.


SHARED_NETWORK_ENV: Mapping[str, str] = {
    "MUSTER_EXEC": f"{sys.executable} -m muster exec -i",
    "HYDRA_IFACE": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    # Open MPI refuses to run as root unless told twice. Here a Pod runs as the user who started the cluster.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "GLOO_SOCKET_IFNAME": "lo",
}
"""Environment of every container of the embedded cluster, where all Pods share the host's network. A Pod's own
variables take precedence."""


def build_replica_pod(
    job_kind: JobKind,
    job: TrainingJob,
    replica: Replica,
    addresses: Addresses,
    *,
    attempt: int = 0,
    membership: GangMembership | None = None,
) -> Object:
    role = job.role(replica.role)
    assert role is not None
    template = role.template
    meta = template.get("metadata") or {}
    labels = {**(meta.get("labels") or {}), **job_kind.labels(job, replica)}
    annotations = {**(meta.get("annotations") or {}), ATTEMPT_ANNOTATION: str(attempt)}
    spec = dict(template.get("spec") or {})
    spec["restartPolicy"] = _pod_restart_policy(job, role)
    spec["containers"] = _with_port(spec, job_kind)
    spec = wire(spec, job_kind.wiring(job, replica, addresses))
    if membership is not None:
        labels |= membership.labels
        annotations |= membership.annotations
        spec["schedulerName"] = spec.get("schedulerName") or membership.scheduler
        if membership.priority_class and not spec.get("priorityClassName"):
            spec["priorityClassName"] = membership.priority_class
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": replica_name(job, replica),
            "namespace": job.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner_reference(job.object)],
        },
        "spec": spec,
    }


def build_replica_service(job_kind: JobKind, job: TrainingJob, replica: Replica) -> Object:
    """The Service is headless, with every port of the training container."""
    role = job.role(replica.role)
    assert role is not None
    labels = job_kind.labels(job, replica)
    trainer = job_kind.training_container({"containers": _with_port(role.template.get("spec") or {}, job_kind)})
    ports = [
        {"name": port.get("name") or f"port-{port['containerPort']}", "port": port["containerPort"]}
        for port in trainer.get("ports") or ()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": replica_name(job, replica),
            "namespace": job.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(job.object)],
        },
        # Replicas look for each other before they are ready, and many become ready only after they have met.
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels, "ports": ports},
    }


def build_peer_directory(job: TrainingJob, directory: PeerDirectory) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": directory.name,
            "namespace": job.namespace,
            "labels": job_labels(job),
            "ownerReferences": [owner_reference(job.object)],
        },
        "data": dict(directory.content or {}),
    }


def wire(spec: Mapping[str, Any], wiring: Wiring) -> dict[str, Any]:
    """Returns a Pod spec with the wiring added. The wiring takes precedence over the template."""
    env = [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in wiring.env.items()
    ]

    def wired_container(container: Mapping[str, Any]) -> dict[str, Any]:
        if wiring.only_container and container.get("name") != wiring.only_container:
            return dict(container)
        kept = [e for e in container.get("env") or () if e["name"] not in wiring.env]
        result = {**container, "env": [*kept, *env]}
        if wiring.from_config_map:
            source = {"configMapRef": {"name": wiring.from_config_map}}
            result["envFrom"] = [*(container.get("envFrom") or ()), source]
        if wiring.mounts:
            result["volumeMounts"] = [*(container.get("volumeMounts") or ()), *wiring.mounts]
        return result

    wired = {**spec, "containers": [wired_container(c) for c in spec.get("containers") or ()]}
    if spec.get("initContainers") and not wiring.only_container:
        wired["initContainers"] = [wired_container(c) for c in spec["initContainers"]]
    if wiring.service_account and not spec.get("serviceAccountName"):
        wired["serviceAccountName"] = wiring.service_account
    if wiring.init_containers:
        wired["initContainers"] = [*(wired.get("initContainers") or ()), *wiring.init_containers]
    if wiring.volumes:
        wired["volumes"] = [*(spec.get("volumes") or ()), *wiring.volumes]
    return wired


def _with_port(pod_spec: Mapping[str, Any], job_kind: JobKind) -> list[dict[str, Any]]:
    """Returns the containers, with the job kind's port added to the training container unless it has it."""
    trainer = job_kind.training_container(pod_spec)
    ports = trainer.get("ports") or []
    if any(p.get("name") == job_kind.port_name for p in ports):
        return list(pod_spec.get("containers") or ())
    with_port = {**trainer, "ports": [*ports, {"name": job_kind.port_name, "containerPort": job_kind.port}]}
    return [with_port if c is trainer else c for c in pod_spec.get("containers") or ()]


def _pod_restart_policy(job: TrainingJob, role: Role) -> str:
    """We handle `ExitCode` ourselves, and a gang restarts as a whole, so the node must not restart single
    containers."""
    if role.restart == "ExitCode" or job.restart_scope == "gang":
        return "Never"
    return role.restart


class EventSink(Protocol):
    def event(self, about: Object, type: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


class JobChildren:
    def __init__(self, cluster: Cluster, recorder: EventSink) -> None:
        self._cluster = cluster
        self._recorder = recorder

    async def create(self, job: Object, objects: Sequence[Object], on_created: Callable[[Object], None]) -> None:
        """Creates Services and ConfigMaps before the Pods that look for them, each group concurrently. Records one
        event for all of them: with many jobs, events would be most of the work."""
        created: list[Object] = []
        try:
            for are_pods in (False, True):
                wanted = [obj for obj in objects if (obj["kind"] == "Pod") is are_pods]
                results = await asyncio.gather(
                    *(self._create(job, obj, on_created) for obj in wanted), return_exceptions=True
                )
                created += [result for result in results if isinstance(result, dict)]
                for result in results:
                    if isinstance(result, BaseException):
                        raise result
        finally:
            if created:
                self._recorder.event(
                    job, "Normal", f"SuccessfulCreate{created[-1]['kind']}", f"Created {_format_names(created)}"
                )

    async def delete(self, job: Object, obj: Object) -> None:
        kind = self._cluster.catalogue.of_object(obj)
        await ignore_not_found(self._cluster.delete(kind, name_of(obj), namespace_of(obj), uid=uid_of(obj)))
        what = obj["kind"].lower()
        self._recorder.event(job, "Normal", f"SuccessfulDelete{obj['kind']}", f"Deleted {what}: {name_of(obj)}")

    async def _create(self, job: Object, obj: Object, on_created: Callable[[Object], None]) -> Object | None:
        if not find_kind(self._cluster, (obj["apiVersion"], obj["kind"])):
            reason, message = _MISSING_KINDS[obj["kind"]]
            self._recorder.event(job, "Warning", reason, message)
            return None
        try:
            created = await self._cluster.create(obj)
        except AlreadyExists:
            await self._check_owner(job, obj)
            return None
        except ApiError as error:
            message = f"Error creating {obj['kind'].lower()} {name_of(obj)}: {error.message}"
            self._recorder.event(job, "Warning", f"FailedCreate{obj['kind']}", message)
            raise
        on_created(created)
        return created

    async def _check_owner(self, job: Object, obj: Object) -> None:
        """An object of that name exists. If it is not ours, say so, because waiting silently would look like a hang.
        Only a PodGroup may belong to the user."""
        kind = self._cluster.catalogue.of_object(obj)
        existing = await self._cluster.get(kind, name_of(obj), namespace_of(obj))
        owner = controller_of(existing)
        if owner is None and kind.kind == "PodGroup":
            return
        if owner is None or owner.get("uid") != uid_of(job):
            message = (
                f"{kind.singular} {name_of(obj)} already exists and belongs to something else; delete or rename it"
            )
            self._recorder.event(job, "Warning", f"FailedCreate{obj['kind']}", message)
            raise Conflict(message)
        wanted, found = labels_of(obj), labels_of(existing)
        if any(found.get(name) != value for name, value in wanted.items()):
            # Created by another operator before us. Our labels make it visible to our informers.
            await self._cluster.patch(kind, name_of(existing), namespace_of(existing), {"metadata": {"labels": wanted}})


def find_kind(cluster: Cluster, names: tuple[str, str]) -> list[Kind]:
    """Returns the kind of that (apiVersion, kind), if the cluster has it."""
    try:
        return [cluster.catalogue.of(*names)]
    except NotFound:
        return []


async def ignore_not_found(call: Awaitable[Object]) -> None:
    try:
        await call
    except NotFound:
        return


def _format_names(objects: Sequence[Object]) -> str:
    """Returns text such as "configmap: job-config; 2 services and pods: job-worker-0, job-worker-1"."""
    names: dict[str, list[str]] = {}
    for obj in objects:
        names.setdefault(obj["kind"].lower(), []).append(name_of(obj))
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind, named in names.items():
        kinds.setdefault(tuple(named), []).append(kind)
    return "; ".join(
        f"{' and '.join(alike)}: {named[0]}"
        if len(named) == 1
        else f"{len(named)} {' and '.join(f'{kind}s' for kind in alike)}: {', '.join(named)}"
        for named, alike in kinds.items()
    )


_MISSING_KINDS = {
    "HorizontalPodAutoscaler": (
        "NoAutoscaler",
        "elasticPolicy.metrics: this cluster has no HorizontalPodAutoscaler; scale by changing replicas",
    ),
    "PodGroup": (
        "NoPodGroups",
        "this cluster has no PodGroups, so nothing can hold a gang together: install the gang scheduler that the job "
        "asks for, or remove schedulerName and schedulingPolicy",
    ),
}


K = TypeVar("K", bound=Hashable)

TIMEOUT = 5.0


class _Expected(NamedTuple):
    things: set[str]
    until: float


class Expectations(Generic[K]):
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._expected: dict[K, _Expected] = {}

    def expect(self, key: K, what: str) -> None:
        known = self._expected.get(key)
        self._expected[key] = _Expected({*(known.things if known else ()), what}, self._clock() + TIMEOUT)

    def observe(self, key: K, what: str) -> None:
        expected = self._expected.get(key)
        if expected is not None:
            expected.things.discard(what)

    def seconds_left(self, key: K) -> float:
        """Returns the seconds that are worth waiting; 0 if nothing is missing or the wait has timed out."""
        expected = self._expected.get(key)
        left = expected.until - self._clock() if expected is not None and expected.things else 0.0
        if left <= 0:
            self._expected.pop(key, None)
            return 0.0
        return left

    def forget(self, key: K) -> None:
        self._expected.pop(key, None)
