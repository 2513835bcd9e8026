"""What an operator is told: whose jobs it looks after, how, and where it is asked about itself."""

from __future__ import annotations

import hashlib
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.operator.election import ElectionSettings
from muster.operator.webhook import WebhookSettings
from muster.training.gang import GangSettings, Scheduler
from muster.training.kinds.base import JobKind
from muster.training.kinds.mpi import Mpi
from muster.training.kinds.pytorch import PyTorch
from muster.training.registry import JOB_KINDS

LEASE_NAME = "muster-operator"


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    namespaces: tuple[str, ...] = ()
    """Whose jobs; none named means all."""
    kinds: tuple[str, ...] = ()
    """Which kinds of job, such as PyTorchJob; none named means all that the cluster has."""
    workers: int = 16
    """How many jobs are looked at at the same time."""
    requests: int = 12
    """How many requests are under way at the same time, besides watches. An API server that is busy gets no more done
    by more of them; it only keeps the scheduler and the nodes waiting, too."""
    event_requests: int = 2
    """How many of events, apart from the others."""
    settle_seconds: float = 5.0
    """How long mere numbers of members in a status may wait for each other."""
    gang: Scheduler = "none"
    gang_name: str = ""
    """Of a scheduler with the plugin of scheduler-plugins, if it is not called as usual."""
    election: ElectionSettings | None = None
    """None: it is the only one, and leads."""
    host: str = "0.0.0.0"  # noqa: S104 (a Pod's probes come from its node)
    port: int = 8080
    """0 takes any that is free."""
    webhook: WebhookSettings | None = None
    """None: API servers are not told what is wrong with a job; it fails and says so itself."""
    grace_seconds: float = 10.0
    """How long a shutdown waits for what was begun."""
    look_again_seconds: float = 30.0
    """How often the cluster is asked which kinds it has."""
    waiting_image: str = ""
    delivery_image: str = ""

    @property
    def gang_settings(self) -> GangSettings:
        return GangSettings(self.gang, self.gang_name, by_policy=self.gang != "none")

    @property
    def scopes(self) -> tuple[str, ...]:
        return self.namespaces or ("",)


class SettingsError(ValueError):
    """Says what to write instead."""


def enabled_job_kinds(settings: OperatorSettings) -> Sequence[JobKind]:
    """Those that the settings want, with their images."""
    configured: dict[type[JobKind], JobKind] = {
        PyTorch: PyTorch(waiting_image=settings.waiting_image),
        Mpi: Mpi(delivery_image=settings.delivery_image),
    }
    spoken = [configured.get(type(job_kind), job_kind) for job_kind in JOB_KINDS]
    if not settings.kinds:
        return spoken
    names = {job_kind.kind.kind.lower() for job_kind in spoken}
    strange = [kind for kind in settings.kinds if kind.lower() not in names]
    if strange:
        known = ", ".join(dict.fromkeys(job_kind.kind.kind for job_kind in spoken))
        raise SettingsError(f'"{strange[0]}" is not a kind of training job; write one of {known}')
    wanted = {kind.lower() for kind in settings.kinds}
    return [job_kind for job_kind in spoken if job_kind.kind.kind.lower() in wanted]


def lease_name(namespaces: Sequence[str]) -> str:
    """Those who look after the same namespaces stand for the same election."""
    if not namespaces:
        return LEASE_NAME
    told = hashlib.sha256(",".join(sorted(set(namespaces))).encode()).hexdigest()
    return f"{LEASE_NAME}-{told[:10]}"


def own_identity() -> str:
    """Another one for each process, and one that a reader of the Lease recognises."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


def with_election(settings: OperatorSettings, namespace: str, **more: float) -> OperatorSettings:
    election = ElectionSettings(lease_name(settings.namespaces), namespace, own_identity(), **more)
    return replace(settings, election=election)
