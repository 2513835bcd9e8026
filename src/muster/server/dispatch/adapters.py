"""The adapters of the server's dispatcher, from the settings: this cluster first, then the clouds."""

from __future__ import annotations

from urllib.parse import urlsplit

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.aihc.adapter import AihcAdapter
from muster.dispatch.aihc.client import SERVERLESS
from muster.dispatch.cluster import ClusterAdapter
from muster.dispatch.model import Job, Spec
from muster.dispatch.secrets import secret
from muster.dispatch.timaker.adapter import TimakerAdapter
from muster.dispatch.timaker.task import TimakerTaskInfo
from muster.kube.builtin import POD
from muster.kube.cluster import Cluster
from muster.kube.objects import Object
from muster.server.dispatch.jobs import NAMESPACE_LABEL
from muster.server.dispatch.settings import AihcSettings, DispatchSettings, TimakerSettings
from muster.server.dispatch.types import JOB_TYPES

CLUSTER = "cluster"
"""The adapter of this cluster."""
_KEEP_SECONDS = 86_400
"""How long an ended training job stays on the cluster, with its Pods and events."""


def create_adapters(settings: DispatchSettings, cluster: Cluster) -> list[DispatcherAdapter]:
    adapters: list[DispatcherAdapter] = [MemberClusterAdapter(cluster, "", name=CLUSTER)]
    if settings.aihc is not None:
        adapters.append(aihc_adapter(settings.aihc))
    if settings.timaker is not None:
        adapters.append(timaker_adapter(settings.timaker))
    return adapters


class MemberClusterAdapter(ClusterAdapter):
    """This cluster. The objects of a job are in the namespace of its user or team, where the platform's rules decide
    what its Pods may do."""

    def namespace_of(self, job: Job) -> str:
        return job.labels.get(NAMESPACE_LABEL) or "default"

    def request(self, job: Job, spec: Spec, name: str) -> Object:
        return dict(super().request(job, spec, name))

    async def release(self, job: Job) -> None:
        """Pods are deleted; a training job stays for a while, so that its members and events can still be looked at."""
        if (job.external_id or "").startswith(f"{POD.resource}/"):
            await super().release(job)
        else:
            await self.release_keys(job)


def with_expiry(manifest: Object) -> Object:
    """Returns a training job that the cluster deletes a day after its end, unless it says otherwise."""
    spec = manifest.get("spec") or {}
    policy = {"ttlSecondsAfterFinished": _KEEP_SECONDS, **(spec.get("runPolicy") or {})}
    return {**manifest, "spec": {**spec, "runPolicy": policy}}


def aihc_adapter(settings: AihcSettings) -> AihcAdapter:
    return AihcAdapter(
        settings.endpoint,
        secret(settings.access_key),
        secret(settings.secret_key),
        pool=SERVERLESS if settings.managed else settings.pool,
        queue=settings.queue,
        queues=settings.queues,
        pfs_instance=settings.pfs,
    )


def timaker_adapter(settings: TimakerSettings) -> TimakerAdapter:
    """Every type of job goes there with the same account; what it runs comes from the job."""
    info = TimakerTaskInfo(
        host=settings.host or urlsplit(settings.address).netloc,
        addr=settings.address,
        secret_id=secret(settings.secret_id),
        secret_key=secret(settings.secret_key),
        uin=settings.uin,
        project_id=settings.project,
    )

    def parse(job: Job, /) -> TimakerTaskInfo:
        return info

    return TimakerAdapter(
        dict.fromkeys(JOB_TYPES, parse),
        app_group=settings.app_group or None,
        account=lambda: info,
        timeout=settings.timeout,
    )
