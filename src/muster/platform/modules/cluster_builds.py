"""Builds images of modules in a Job of a real cluster, with rootless buildah, and pushes them to a registry.

The server fetches and checks the repository, as everywhere, and streams it into the Job's Pod: no credentials of git
get there. The Dockerfile is its author's program. So it runs in an init container, without privileges and without a
token of the cluster, and hands over an archive. Another container, which has the credentials of the registry, pushes
that. Runs use the image by its digest.
"""

from __future__ import annotations

import asyncio
import re
import tarfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from muster.kube.builtin import JOB, NAMESPACE, POD
from muster.kube.cluster import Cluster, LogQuery
from muster.kube.errors import AlreadyExists, ApiError, NotFound
from muster.kube.objects import Object, name_of, status_of
from muster.kube.pod_diagnosis import diagnose_pod
from muster.platform.modules.build_process import BuildContext, BuildFailed
from muster.platform.settings import ModuleSettings

BUILD_LABEL: Final = "muster.dev/build"
_BUILD, _PUSH = "build", "push"
_USER = 1000
"""Builder images have this user, with subordinate ids."""
_BLOCK = 1 << 18
_LOOK_SECONDS = 0.5
_KEPT_SECONDS = 600
_RESULT = re.compile(r"(sha256:[0-9a-f]{64}) ([0-9]+)")

_RECEIVE = "tar --extract --no-same-owner --directory=/source && touch /space/complete"
_BUILD_SCRIPT = """\
set -e
mkdir -p "$HOME"
until [ -e /space/complete ]; do sleep 1; done
cd /source/tree
buildah bud $TLS --layers=false --tag=module "--file=$DOCKERFILE" "./$BUILD_DIR"
buildah push --quiet module oci-archive:/result/image.tar
"""
_PUSH_SCRIPT = """\
set -e
mkdir -p "$HOME"
size=$(stat --format=%s /result/image.tar)
if [ "$size" -gt "$MOST_BYTES" ]; then
  echo "the image has $((size / 1000000)) MB; at most $((MOST_BYTES / 1000000)) MB are allowed"
  exit 1
fi
image=$(buildah pull --quiet oci-archive:/result/image.tar)
buildah push --quiet $TLS --digestfile=/tmp/digest "$image" "docker://$IMAGE"
printf '%s %s' "$(cat /tmp/digest)" "$size" > /dev/termination-log
"""


class PushedImage(NamedTuple):
    image: str
    """With its digest."""
    size: int


@dataclass(frozen=True, slots=True)
class BuildSource:
    """What a Job builds."""

    version_id: str
    image: str
    """The name that the platform gave the image, on no registry."""
    root: Path
    """The checkout."""
    dockerfile: str
    build_dir: str
    """Paths in the checkout."""


class JobBuilder:
    def __init__(self, cluster: Cluster, settings: ModuleSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    async def build(self, source: BuildSource, here: BuildContext) -> PushedImage:
        """Raises BuildFailed."""
        settings = self._settings
        if not settings.registry or not settings.builder_image:
            raise BuildFailed(
                "images of modules cannot be built on this cluster yet: an admin has to set modules.registry and "
                "modules.builderImage"
            )
        job = build_job(source, settings)
        here.log.say(f"building {target_image(source.image, settings)} in the Job {settings.namespace}/{name_of(job)}")
        try:
            async with asyncio.timeout_at(here.deadline):
                return await self._build(job, source, here)
        except TimeoutError:
            raise BuildFailed("the build took too long") from None
        except ApiError as error:
            raise BuildFailed(f"the cluster refused it: {error.message}") from None
        finally:
            await asyncio.shield(self._delete(name_of(job)))

    async def _build(self, job: Object, source: BuildSource, here: BuildContext) -> PushedImage:
        name = name_of(job)
        with suppress(AlreadyExists):
            await self._cluster.create(builds_namespace(self._settings.namespace))
        await self._delete(name)  # of an earlier server that was killed
        await self._until_gone(name)
        await self._cluster.create(job)
        pod = await self._until_started(name, here)
        await self._send(name_of(pod), source.root, here)
        for container in (_BUILD, _PUSH):
            pod = await self._until_started(name, here, container)
            if not _has_begun(pod, container):
                break
            query = LogQuery(container=container, follow=True)
            with suppress(NotFound):
                async for piece in self._cluster.logs(name_of(pod), self._settings.namespace, query):
                    here.log.write(piece)
        return read_result(await self._until_ended(name), target_image(source.image, self._settings))

    async def _send(self, pod: str, root: Path, here: BuildContext) -> None:
        archive = here.folder / "source.tar"
        await asyncio.to_thread(_pack, root, archive)
        process = await self._cluster.exec(
            pod, self._settings.namespace, ["sh", "-c", _RECEIVE], container=_BUILD, stdin=True
        )
        try:
            async for block in _read(archive):
                await process.write(block)
            await process.write(b"")
            async for _, printed in process.output():
                here.log.write(printed)
            if await process.wait() != 0:
                raise BuildFailed("the source could not be sent to the builder; see the log")
        finally:
            await process.close()
            archive.unlink(missing_ok=True)

    async def _until_started(self, job: str, here: BuildContext, container: str = _BUILD) -> Object:
        """Returns the Pod when the container runs or has ended, or never will run. Says meanwhile what it waits for."""
        said = ""
        while True:
            pod = await self._pod(job)
            if pod is not None and (_has_begun(pod, container) or status_of(pod).get("phase") == "Failed"):
                return pod
            waits_for = "; ".join(diagnose_pod(pod)) if pod is not None else ""
            if waits_for and waits_for != said:
                here.log.say(waits_for)
                said = waits_for
            await asyncio.sleep(_LOOK_SECONDS)

    async def _until_ended(self, job: str) -> Object:
        while True:
            pod = await self._pod(job)
            if pod is None:
                raise BuildFailed("the builder's Pod was deleted")
            if status_of(pod).get("phase") in ("Succeeded", "Failed"):
                return pod
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pod(self, job: str) -> Object | None:
        found = (await self._cluster.list(POD, self._settings.namespace, labels=f"job-name={job}")).items
        return found[0] if found else None

    async def _until_gone(self, job: str) -> None:
        while True:
            if await self._pod(job) is None:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _delete(self, job: str) -> None:
        with suppress(ApiError):  # it is gone, or its own limits end it
            await self._cluster.delete(JOB, job, self._settings.namespace)


def target_image(image: str, settings: ModuleSettings) -> str:
    """The image's name on the registry."""
    return f"{settings.registry.rstrip('/')}/{image.removeprefix('localhost/')}"


def read_result(pod: Object, image: str) -> PushedImage:
    """Returns the image of a Pod that has ended. Raises BuildFailed."""
    for status in status_of(pod).get("containerStatuses") or ():
        ended = (status.get("state") or {}).get("terminated") or {}
        found = _RESULT.fullmatch(str(ended.get("message") or "").strip())
        if status.get("name") == _PUSH and ended.get("exitCode") == 0 and found is not None:
            repository, _, _ = image.rpartition(":")
            return PushedImage(f"{repository}@{found[1]}", int(found[2]))
    raise BuildFailed("; ".join(diagnose_pod(pod)) or "the builder ended without an image; see the log")


def builds_namespace(name: str) -> Object:
    """Rootless builds create user namespaces, which the stricter levels of Pod Security forbid."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    return {"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": name, "labels": labels}}


def build_job(source: BuildSource, settings: ModuleSettings) -> Object:
    tls = {"name": "TLS", "value": "--tls-verify=false" if settings.registry_insecure else ""}
    storage = [
        # Every file system has it. A faster driver needs a device that most clusters do not hand out.
        {"name": "STORAGE_DRIVER", "value": "vfs"},
        {"name": "BUILDAH_ISOLATION", "value": "chroot"},
    ]
    build = _container(_BUILD, _BUILD_SCRIPT, settings)
    build["env"] = [
        {"name": "HOME", "value": "/space/home"},
        {"name": "DOCKERFILE", "value": source.dockerfile},
        {"name": "BUILD_DIR", "value": source.build_dir},
        tls,
        *storage,
    ]
    build["volumeMounts"] = [_mount("space", "/space"), _mount("source", "/source"), _mount("result", "/result")]
    push = _container(_PUSH, _PUSH_SCRIPT, settings)
    push["env"] = [
        {"name": "HOME", "value": "/space/home"},
        {"name": "IMAGE", "value": target_image(source.image, settings)},
        {"name": "MOST_BYTES", "value": str(settings.megabytes * 1_000_000)},
        tls,
        *storage,
    ]
    push["volumeMounts"] = [_mount("push-space", "/space"), {**_mount("result", "/result"), "readOnly": True}]
    # The driver stores every layer whole.
    limit = f"{settings.megabytes * 5}M"
    volumes: list[Object] = [
        {"name": name, "emptyDir": {"sizeLimit": limit}} for name in ("space", "source", "result", "push-space")
    ]
    if settings.registry_secret:
        items = [{"key": ".dockerconfigjson", "path": "config.json"}]
        volumes.append({"name": "registry", "secret": {"secretName": settings.registry_secret, "items": items}})
        push["volumeMounts"].append({**_mount("registry", "/registry"), "readOnly": True})
        push["env"].append({"name": "REGISTRY_AUTH_FILE", "value": "/registry/config.json"})
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "runAsNonRoot": True,
            # The default profiles forbid to create user namespaces.
            "seccompProfile": {"type": "Unconfined"},
        },
        "initContainers": [build],
        "containers": [push],
        "volumes": volumes,
    }
    labels = {BUILD_LABEL: source.version_id}
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {"name": f"build-{source.version_id}", "namespace": settings.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(settings.minutes * 60) + _KEPT_SECONDS,
            "ttlSecondsAfterFinished": _KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _container(name: str, script: str, settings: ModuleSettings) -> Object:
    return {
        "name": name,
        "image": settings.builder_image,
        "command": ["sh", "-c", script],
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
        # newuidmap has the two capabilities as file capabilities.
        "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["SETUID", "SETGID"]}},
    }


def _mount(name: str, path: str) -> Object:
    return {"name": name, "mountPath": path}


def _has_begun(pod: Object, container: str) -> bool:
    statuses = (*(status_of(pod).get("initContainerStatuses") or ()), *(status_of(pod).get("containerStatuses") or ()))
    return any(
        status.get("name") == container and not (status.get("state") or {}).get("waiting")
        for status in statuses
        if status.get("state")
    )


def _pack(root: Path, target: Path) -> None:
    with tarfile.open(target, "w") as archive:
        archive.add(root, "tree")


async def _read(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while block := await asyncio.to_thread(file.read, _BLOCK):
            yield block
