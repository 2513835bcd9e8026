"""The settings of an operator: which jobs it runs, how, and where it serves health and metrics."""

from __future__ import annotations

import hashlib
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from muster.operator.election import ElectionSettings
from muster.operator.webhook import WebhookSettings
from muster.training.gang import GangSettings, Scheduler
from muster.training.kinds.base import JobKind
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.pytorch import PyTorch
from muster.training.registry import JOB_KINDS
from muster.workspaces.images import WorkspaceSettings

LEASE_NAME = "muster-operator"


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """How Notebooks and Tensorboards are run."""

    tensorboard_image: str = "tensorflow/tensorflow:2.16.1"
    """An image with Python and TensorBoard."""
    fs_group: int = 100
    """The group of the files in notebooks' volumes, as in Kubeflow: `users` in its images."""
    culling: WorkspaceSettings = field(default_factory=WorkspaceSettings)


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    namespaces: tuple[str, ...] = ()
    """The namespaces of the jobs; empty means all."""
    kinds: tuple[str, ...] = ()
    """The kinds of jobs, such as PyTorchJob; empty means all that the cluster has."""
    workers: int = 16
    """The number of concurrent reconciles."""
    requests: int = 12
    """The number of concurrent requests, besides watches. More would not help a busy API server; they would only delay
    the scheduler and the nodes."""
    event_requests: int = 2
    """The number of concurrent requests for events, apart from the others."""
    settle_seconds: float = 5.0
    """How long a status may wait if only counts of replicas have changed."""
    gang: Scheduler = "none"
    gang_name: str = ""
    """The name of a scheduler with the Coscheduling plugin, unless it is the usual one."""
    election: ElectionSettings | None = None
    """None: this is the only operator, and it leads."""
    host: str = "0.0.0.0"  # noqa: S104 (a Pod's probes come from its node)
    port: int = 8080
    """0 takes any free port."""
    webhook: WebhookSettings | None = None
    """None: API servers do not reject invalid jobs; they fail later, with the reason."""
    grace_seconds: float = 10.0
    """How long a shutdown waits for running reconciles."""
    discovery_seconds: float = 30.0
    """How often the kinds of the cluster are discovered."""
    waiting_image: str = ""
    delivery_image: str = ""
    workspaces: WorkspaceOptions | None = None
    """None: Notebooks and Tensorboards are left to others, such as Kubeflow's controllers."""

    @property
    def gang_settings(self) -> GangSettings:
        return GangSettings(self.gang, self.gang_name, by_policy=self.gang != "none")

    @property
    def scopes(self) -> tuple[str, ...]:
        return self.namespaces or ("",)


class SettingsError(ValueError):
    """Says what to write instead."""


def enabled_job_kinds(settings: OperatorSettings) -> Sequence[JobKind]:
    """Returns the job kinds that the settings enable, with their images."""
    configured: dict[type[JobKind], JobKind] = {
        PyTorch: PyTorch(waiting_image=settings.waiting_image),
        Mpi: Mpi(delivery_image=settings.delivery_image),
    }
    spoken = [configured.get(type(job_kind), job_kind) for job_kind in JOB_KINDS]
    if not settings.kinds:
        return spoken
    names = {job_kind.kind.kind.lower() for job_kind in spoken}
    unknown = [kind for kind in settings.kinds if kind.lower() not in names]
    if unknown:
        known = ", ".join(dict.fromkeys(job_kind.kind.kind for job_kind in spoken))
        raise SettingsError(f'"{unknown[0]}" is not a kind of training job; use one of {known}')
    wanted = {kind.lower() for kind in settings.kinds}
    return [job_kind for job_kind in spoken if job_kind.kind.kind.lower() in wanted]


def lease_name(namespaces: Sequence[str]) -> str:
    """Operators of the same namespaces take part in the same election."""
    if not namespaces:
        return LEASE_NAME
    told = hashlib.sha256(",".join(sorted(set(namespaces))).encode()).hexdigest()
    return f"{LEASE_NAME}-{told[:10]}"


def own_identity() -> str:
    """Returns an identity that is unique to the process, and recognizable in the Lease."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def with_election(settings: OperatorSettings, namespace: str, **more: float) -> OperatorSettings:
    election = ElectionSettings(lease_name(settings.namespaces), namespace, own_identity(), **more)
    return replace(settings, election=election)
