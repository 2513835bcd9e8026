"""Finds the event files of runs, jobs and notebooks for a TensorBoard, and copies those that only a Pod has."""

from __future__ import annotations

import asyncio
import posixpath
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from sqlalchemy import Connection

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node.operations import AgentFiles
from muster.kube.beneath import Folder, move
from muster.kube.builtin import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from muster.kube.errors import AlreadyExists, ApiError
from muster.kube.objects import Object, labels_of, namespace_of, owner_reference, owners_of, spec_of, uid_of
from muster.kube.pod_security import is_below
from muster.platform.errors import ConflictProblem, InvalidProblem, UnavailableProblem
from muster.platform.jobs.detail import pods_of
from muster.platform.permissions import Actor
from muster.platform.records.workspaces import LogFolder
from muster.platform.runs.runs import get_run, nodes_of
from muster.server.platform.jobs import visible_job
from muster.server.platform.notebook_form import folder_in_mounts, mounts_in
from muster.server.platform.run_nodes import find_node, node_pods
from muster.server.platform.services import Services
from muster.server.platform.volume_access import find_room
from muster.server.platform.workspace_access import find_workspace, to_problem
from muster.workspaces.kinds import NOTEBOOK
from muster.workspaces.mounted_files import EventFile, event_files_of, event_folders_of

MOST_FOLDERS: Final = 50
"""In one TensorBoard."""
_MOST_COPIED: Final = 1 << 30
_BIND_SECONDS: Final = 20.0
_BLOCK: Final = 1 << 20


@dataclass(slots=True)
class LogCopies:
    """Event files that only a Pod has, and the claim that they are copied to, because they go away with the Pod."""

    claim: str
    files: dict[str, EventFile] = field(default_factory=dict)
    """By the path in the claim."""


FoundLogs = tuple[str, str, list[LogFolder], LogCopies]
"""The namespace, a title, the folders to show, and what has to be copied."""


async def find_logs_of_job(here: Services, who: Actor, written: str) -> FoundLogs:
    """`written` is NAMESPACE/KIND/NAME."""
    namespace, _, rest = written.partition("/")
    kind, _, name = rest.partition("/")
    _, job = await visible_job(here, who, namespace, kind, name)
    copies = LogCopies(_copy_claim(written))
    folders = await _folders_of_pods(here, await pods_of(here.cluster, job), "job", copies)
    if not folders:
        raise InvalidProblem.field("job", "tensorboard.none", what=f'the job "{name}"')
    return namespace, name, name_folders("", folders), copies


async def find_logs_of_runs(here: Services, who: Actor, runs: Sequence[str]) -> FoundLogs:
    """`runs` are ids."""
    found: list[LogFolder] = []
    namespaces: dict[str, None] = {}
    titles: list[str] = []
    copies = LogCopies(_copy_claim(",".join(runs)))
    for number, run_id in enumerate(runs):
        namespace, title, pods = await _pods_of_run(here, who, run_id)
        folders = await _folders_of_pods(here, pods, run_id, copies)
        if not folders:
            raise InvalidProblem.field(f"runs[{number}]", "tensorboard.none", what=f'the run "{title}"')
        namespaces.setdefault(namespace)
        unique = title if title not in titles else f"{title}-{number + 1}"
        titles.append(unique)
        found += name_folders(unique if len(runs) > 1 else "", folders)
    if len(namespaces) > 1:
        raise InvalidProblem.field("runs", "tensorboard.namespace", namespaces=sorted(namespaces))
    return next(iter(namespaces)), "-".join(titles), found, copies


def _copy_claim(of: str) -> str:
    """The same for the same runs or job, so that a second request finds the board of the first."""
    return f"tensorboard-logs-{sha256(of.encode()).hexdigest()[:16]}"


async def find_logs_of_notebook(here: Services, who: Actor, namespace: str, name: str, path: str) -> FoundLogs:
    """`path` is a folder as the notebook sees it."""
    notebook = await find_workspace(here, who, NOTEBOOK, namespace, name)
    found = folder_in_mounts(notebook.object, path)
    if found is None:
        known = [each.path for each in mounts_in(notebook.object)]
        raise InvalidProblem.field("notebook.path", "tensorboard.mounted", path=path, known=known)
    return namespace, name, [LogFolder("", found)], LogCopies("")


async def _pods_of_run(here: Services, who: Actor, run_id: str) -> tuple[str, str, list[Object]]:
    def look(connection: Connection) -> tuple[str, str, list[str]]:
        run = get_run(connection, who, run_id, "inspect")
        return run.namespace, run.name, [node.name for node in nodes_of(connection, run_id) if node.attempts]

    namespace, title, nodes = await here.database.read(look)
    pods: list[Object] = []
    for name in nodes:
        pods += await node_pods(here, await find_node(here, who, run_id, name))
    return namespace, title, pods


async def _folders_of_pods(here: Services, pods: Iterable[Object], title: str, copies: LogCopies) -> list[str]:
    """Returns the folders that hold event files of these Pods; if there are none yet, all claims that they mount. Files
    that only a Pod has are added to the copies, below `title`."""
    claims: dict[str, None] = {}
    folders = []
    for pod in pods:
        for volume in spec_of(pod).get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim:
                claims.setdefault(f"pvc://{claim}")
        if isinstance(here.cluster, EmbeddedCluster):
            folders += await event_folders_of(here.cluster, AgentFiles(here.settings.agent), pod)
    found: dict[str, None] = {}
    for file in (await asyncio.to_thread(event_files_of, folders)).files:
        if file.folder.is_private:
            mounted = posixpath.normpath(file.folder.mount_path).strip("/")
            copies.files[posixpath.join(title, file.folder.pod, mounted, file.name)] = file
            found.setdefault(f"pvc://{copies.claim}/{title}")
            continue
        inner = posixpath.join(file.folder.inside, posixpath.dirname(file.name)).strip("/")
        start = f"pvc://{file.folder.claim}" if file.folder.claim else file.folder.path
        found.setdefault(f"{start}/{inner}".rstrip("/"))
    return topmost(found)[:MOST_FOLDERS] or list(claims)


async def copy_logs(here: Services, board: Object, claim: str, files: Mapping[str, EventFile]) -> None:
    """Copies event files to a claim that belongs to the board. Raises Unavailable."""
    if not files:
        return
    namespace = namespace_of(board)
    size = sum(file.size for file in files.values())
    if size > _MOST_COPIED:
        raise InvalidProblem.field("", "tensorboard.large", megabytes=size >> 20, most=_MOST_COPIED >> 20)
    obj = {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME_CLAIM.kind,
        "metadata": {
            "name": claim,
            "namespace": namespace,
            "labels": dict(labels_of(board)),
            "ownerReferences": [owner_reference(board, controller=False, block_deletion=False)],
        },
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}}},
    }
    with suppress(AlreadyExists):
        await here.cluster.create(obj)
    try:
        async with asyncio.timeout(_BIND_SECONDS):
            async for event in here.cluster.watch(PERSISTENT_VOLUME_CLAIM, namespace, fields=f"metadata.name={claim}"):
                if uid_of(board) not in [each.get("uid") for each in owners_of(event.object)]:
                    raise ConflictProblem.of("tensorboard.claim", name=claim)  # of a board that is being deleted
                if spec_of(event.object).get("volumeName"):
                    break
        volume = await here.cluster.get(PERSISTENT_VOLUME, str(spec_of(event.object)["volumeName"]))
    except TimeoutError:
        raise UnavailableProblem.of("tensorboard.claim", name=claim) from None
    except ApiError as error:
        raise to_problem(error) from None
    source = spec_of(volume).get("hostPath") or spec_of(volume).get("local") or {}
    if not source.get("path"):
        raise UnavailableProblem.of("tensorboard.claim", name=claim)
    room = await find_room(here, event.object)
    if room is not None:
        if size > room.left:
            raise room.problem()
        here.volume_files.add(room.folder, size)
    await asyncio.to_thread(_copy_files, str(source["path"]), files)


def _copy_files(folder: str, files: Mapping[str, EventFile]) -> None:
    """Users may write into the claim, too, so no link is followed there."""
    with Folder.at(folder) as top:
        for name, file in files.items():
            with suppress(OSError):  # removed meanwhile, or in the way: the rest is still worth seeing
                _copy_file(top, name, file)


def _copy_file(top: Folder, name: str, file: EventFile) -> None:
    with file.open() as source, top.make_folders(posixpath.dirname(name)) as target:
        draft = f".copy-{secrets.token_hex(8)}"
        with target.create(draft, 0o644) as written:
            left = file.size  # what is appended meanwhile was not counted
            while left > 0 and (block := source.read(min(left, _BLOCK))):
                written.write(block)
                left -= len(block)
        move(target, draft, target, posixpath.basename(name))


def topmost(paths: Iterable[str]) -> list[str]:
    """Those that are not below another one: TensorBoard looks into folders by itself."""
    known = sorted(set(paths))
    return [path for path in known if not any(path != other and is_below(path, other) for other in known)]


def name_folders(title: str, paths: Sequence[str]) -> list[LogFolder]:
    """Folders with names: that of the run, and of the folder if there are several."""
    if len(paths) == 1:
        return [LogFolder(title, paths[0])]
    ends = [posixpath.basename(path) or str(number + 1) for number, path in enumerate(paths)]
    names = [end if ends.count(end) == 1 else f"{end}-{number + 1}" for number, end in enumerate(ends)]
    return [LogFolder(f"{title}-{name}" if title else name, path) for name, path in zip(names, paths, strict=True)]
