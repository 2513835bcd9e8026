"""Everything a supervisor has to know of a Pod, worked out once before it starts.

What can be missing (a ConfigMap, a volume, a command) is found out first and raises `NotReady`; only then are folders
and files made. Doing it again for the same Pod is harmless.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from muster.embedded.agent.containers import (
    SHARED_MEMORY,
    Here,
    Layout,
    Part,
    containers_of,
    grace_of,
    prepare_container,
    resolve,
)
from muster.embedded.agent.contract import POD_FILE, Mount, PreparedPod
from muster.embedded.agent.engines import Engine
from muster.embedded.agent.hosts import hostname_of
from muster.embedded.agent.logs import DEFAULT
from muster.embedded.agent.mounting import container_mounts, make_volume
from muster.embedded.agent.requests import arrangement_of
from muster.embedded.agent.surroundings import Surroundings
from muster.embedded.agent.unsupported import ignored_fields
from muster.embedded.agent.volumes import (
    SERVICE_ACCOUNT_FOLDER,
    SERVICE_ACCOUNT_VOLUME,
    EmptyDir,
    Memory,
    Volume,
    lacks_account,
    plan_volumes,
)
from muster.kube.objects import Object, name_of, namespace_of, spec_of, uid_of


@dataclass(frozen=True, slots=True)
class Prepared:
    pod: PreparedPod
    notes: Mapping[str, str]
    """Per container: where it comes from, in place of `Pulled`."""
    ignored: tuple[str, ...] = ()
    """Fields of the Pod that mean nothing here."""


def prepare(
    pod: Object, around: Surroundings, layout: Layout, here: Here, *,
    engine: Engine | None = None, deadline: float | None = None,
    devices: Mapping[str, Mapping[str, str]] | None = None,
) -> Prepared:  # fmt: skip
    """Raises NotReady while something is missing. Makes everything but the Pod's own file."""
    spec, settings = spec_of(pod), here.settings
    volumes = plan_volumes(pod, around, layout.folder, settings.nfs)
    if engine is not None:
        volumes = {name: _for_engine(pod, name, volume) for name, volume in volumes.items()}
    parts = [
        resolve(pod, container, role, around, here, engine, (devices or {}).get(container.get("name") or "") or {})
        for container, role in containers_of(spec)
    ]
    arrangement = arrangement_of(pod)
    _make_folder(layout.folder)
    shared = _make_volumes(volumes, _group(pod, here))
    is_alone = len(parts) == 1
    if not is_alone:
        shared.append(SHARED_MEMORY)
        _name_default(layout.logs, parts)
    containers = [
        prepare_container(
            pod, part, _mounts(part, volumes), layout, here, engine=engine, address=around.pod_ip, is_alone=is_alone
        )
        for part in parts
    ]
    isolation = "none" if engine is not None else here.isolation
    prepared: PreparedPod = {
        "uid": uid_of(pod),
        "namespace": namespace_of(pod),
        "name": name_of(pod),
        "hostname": hostname_of(pod),
        "address": around.pod_ip,
        "restartPolicy": spec.get("restartPolicy") or "Always",
        "grace": grace_of(spec),
        "deadline": deadline,
        "isolation": isolation,
        "mounts": shared if isolation != "none" else [],
        "arrangement": arrangement,
        "containers": containers,
        "notify": layout.notify,
        "logFileBytes": settings.logs.file_bytes,
        "logFiles": settings.logs.files,
        "backoffBase": settings.backoff_base,
        "backoffMax": settings.backoff_max,
    }
    notes = {part.name: part.note(engine) for part in parts}
    limits_cpu = here.limits_cpu if engine is None else engine.limits
    ignored = [*ignored_fields(pod, here.isolation, by_engine=engine is not None, limits_cpu=limits_cpu)]
    if lacks_account(volumes):
        ignored.append(f"spec.serviceAccountName (there is no service account {spec['serviceAccountName']})")
    return Prepared(prepared, notes, tuple(ignored))


def write_pod_file(folder: str, pod: PreparedPod) -> None:
    """All of it or nothing: a Pod with this file may be started, and a supervisor may read it at any time."""
    try:
        text = orjson.dumps(pod)
    except TypeError:  # bytes of a Secret that are not text stand in the environment as lone surrogates
        text = json.dumps(pod).encode()
    fresh = f"{folder}/{POD_FILE}.new"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(text)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    os.rename(fresh, f"{folder}/{POD_FILE}")


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(path, mode=0o700)


def _make_volumes(volumes: Mapping[str, Volume], group: int | None) -> list[Mount]:
    made = [make_volume(name, volume, group) for name, volume in volumes.items()]
    return [mount for mount in made if mount is not None]


def _group(pod: Object, here: Here) -> int | None:
    """Only root may give files to any group."""
    group: int | None = (spec_of(pod).get("securityContext") or {}).get("fsGroup")
    return group if here.isolation == "namespaces" else None


def _mounts(part: Part, volumes: Mapping[str, Volume]) -> list[Mount]:
    mounts = container_mounts(part.spec, volumes, part.env)
    account = volumes.get(SERVICE_ACCOUNT_VOLUME)
    if account is not None and not any(mount["target"] == SERVICE_ACCOUNT_FOLDER for mount in mounts):
        mounts.append({"type": "bind", "source": account.path, "target": SERVICE_ACCOUNT_FOLDER, "readOnly": True})
    return mounts


def _for_engine(pod: Object, name: str, volume: Volume) -> Volume:
    """The engine has mount namespaces of its own, so memory has to come from a tmpfs that both see."""
    return EmptyDir(f"/dev/shm/muster-{uid_of(pod)}/{name}") if isinstance(volume, Memory) else volume


def _name_default(logs: str, parts: list[Part]) -> None:
    """Tells, even after the Pod has gone, whose log is meant when nobody says: clear if there is one main container."""
    mains = [part.name for part in parts if part.role == "main"]
    if len(mains) == 1 and not os.path.islink(f"{logs}/{DEFAULT}"):
        os.makedirs(logs, exist_ok=True)
        os.symlink(mains[0], f"{logs}/{DEFAULT}")
