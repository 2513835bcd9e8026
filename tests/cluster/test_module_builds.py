"""Images of modules, built in the real cluster by rootless buildah and pushed to a real registry."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from muster.kube.builtin import CONFIG_MAP, JOB, NAMESPACE, POD, SECRET, SERVICE
from muster.kube.cluster import LogQuery
from muster.kube.kinds import Kind
from muster.kube.objects import Object, spec_of
from muster.kube.remote.client import RemoteCluster
from muster.platform.modules.build_process import BuildFailed
from muster.platform.modules.builds import BuildRequest, Built, build_version
from muster.platform.modules.cluster_builds import JobBuilder, builds_namespace
from muster.platform.settings import ModuleSettings
from tests.cluster.waiting import has, phase_of, until
from tests.platform.modules.git_repositories import GitRepository
from tools.cluster import images
from tools.cluster.cluster import Cluster as RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

DOCKERFILE = """\
FROM scratch
COPY bin /bin
COPY lib64 /lib64
COPY lib /lib
WORKDIR /app
COPY main.sh /app/main.sh
RUN id -u > /app/built-by && chown 7:7 /app/built-by
ENTRYPOINT ["/bin/sh", "/app/main.sh"]
"""
README = {"README.md": "# Greets", "main.sh": "echo built by $(cat built-by), run with $1\n"}


REGISTRY = {
    "REGISTRY_STORAGE_FILESYSTEM_ROOTDIRECTORY": "/tmp/registry",
    "REGISTRY_AUTH_HTPASSWD_PATH": "/users/htpasswd",
}
PASSWORD = "push-me"
HASHED = "pusher:$2b$04$gxoyr94j41FlAn3pAJnyZ.JrSKwnO9IopFNOXAcgmBnYDSMuODv1G\n"
"""The same, as the registry wants it (bcrypt)."""


@pytest.fixture
async def settings(real: RealCluster, remote: RemoteCluster, namespace: str) -> AsyncIterator[ModuleSettings]:
    """A registry that asks for a password, and a namespace for builds."""
    image = real.load(images.buildah())
    await remote.create(_object(CONFIG_MAP, "users", namespace, data={"htpasswd": HASHED}))
    container = {
        "name": "registry", "image": image, "imagePullPolicy": "Never",
        "command": ["docker-registry", "serve", "/etc/docker/registry/config.yml"],
        "env": [{"name": name, "value": value} for name, value in REGISTRY.items()],
        "readinessProbe": {"tcpSocket": {"port": 5000}, "periodSeconds": 1},
        "volumeMounts": [{"name": "users", "mountPath": "/users"}],
    }  # fmt: skip
    pod = {"containers": [container], "volumes": [{"name": "users", "configMap": {"name": "users"}}]}
    await remote.create(_object(POD, "registry", namespace, spec=pod))
    ports = {"selector": {"app": "registry"}, "ports": [{"port": 5000}]}
    service = await remote.create(_object(SERVICE, "registry", namespace, spec=ports))
    await until(remote, POD, "registry", namespace, has("Ready"))
    address = f"{spec_of(service)['clusterIP']}:5000"
    hosts = real.layout.registries / address
    hosts.mkdir(parents=True)
    (hosts / "hosts.toml").write_text(f'[host."http://{address}"]\ncapabilities = ["pull", "resolve"]\n')
    builds = f"{namespace}-builds"
    await remote.create(builds_namespace(builds))
    for place in (builds, namespace):
        await remote.create(_credentials(address, place))
    yield ModuleSettings(
        registry=f"{address}/ml", registry_insecure=True, registry_secret="registry",
        builder_image=image, namespace=builds, minutes=4,
    )  # fmt: skip
    (hosts / "hosts.toml").unlink()
    hosts.rmdir()
    await remote.delete(NAMESPACE, builds)


def _object(kind: Kind, name: str, namespace: str, **content: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **content}


def _credentials(address: str, namespace: str) -> Object:
    login = b64encode(f"pusher:{PASSWORD}".encode()).decode()
    text = json.dumps({"auths": {address: {"auth": login}}})
    return _object(
        SECRET, "registry", namespace, type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": text}
    )


def repository(place: Path, dockerfile: str) -> GitRepository:
    made = GitRepository(place, {"Dockerfile": dockerfile, **README})
    layer = images.busybox().layers[0]
    images.checked(["tar", "--extract", f"--directory={place}", f"--file={layer}", "./bin", "./lib64", "./lib"])
    made.commit()
    return made


async def built(remote: RemoteCluster, settings: ModuleSettings, place: Path, dockerfile: str) -> Built:
    source = repository(place / "repository", dockerfile)
    image = "localhost/muster-modules/greet-00000001:1"
    order = BuildRequest("v1", str(source.path), "main", "", "Dockerfile", "", "README.md", image)

    async def pin(_: str) -> None:
        return

    return await build_version(order, place / "v1", settings, JobBuilder(remote, settings), pin)


@pytest.mark.smoke
async def test_a_module_is_built_pushed_and_run_by_its_digest(
    remote: RemoteCluster, settings: ModuleSettings, namespace: str, tmp_path: Path
) -> None:
    result = await built(remote, settings, tmp_path, DOCKERFILE)
    assert result.image.startswith(f"{settings.registry}/muster-modules/greet-00000001@sha256:")
    assert result.size > 0
    log = (tmp_path / "v1" / "build.log").read_text()
    assert "STEP 7/8: RUN id -u" in log
    container = {"name": "main", "image": result.image, "command": [*result.entrypoint, "--name=value"]}
    pod = {"restartPolicy": "Never", "containers": [container], "imagePullSecrets": [{"name": "registry"}]}
    await remote.create(_object(POD, "greet", namespace, spec=pod))
    await until(remote, POD, "greet", namespace, lambda pod: phase_of(pod) == "Succeeded")
    printed = b"".join([piece async for piece in remote.logs("greet", namespace, LogQuery())])
    assert printed == b"built by 0, run with --name=value\n"


async def test_what_fails_is_in_the_log_and_nothing_stays(
    remote: RemoteCluster, settings: ModuleSettings, tmp_path: Path
) -> None:
    with pytest.raises(BuildFailed, match='init container "build" exited with code'):
        await built(remote, settings, tmp_path, DOCKERFILE.replace("chown 7:7", "no-such-program"))
    assert "no-such-program: not found" in (tmp_path / "v1" / "build.log").read_text()
    assert (await remote.list(JOB, settings.namespace)).items == []


async def test_a_build_that_is_stopped_ends_its_job(
    remote: RemoteCluster, settings: ModuleSettings, tmp_path: Path
) -> None:
    slow = DOCKERFILE.replace("chown 7:7", "sleep 1000; chown 7:7")
    task = asyncio.create_task(built(remote, settings, tmp_path, slow))
    log = tmp_path / "v1" / "build.log"
    async with asyncio.timeout(90):
        while not log.exists() or "STEP 7/8" not in log.read_text():  # noqa: ASYNC110 (a file)
            await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await remote.list(JOB, settings.namespace)).items == []
