"""A process that does artifact work for a member: packs, unpacks, downloads, uploads, clones.

It reads one job from stdin, confines itself, does the job and writes the result to stdout. It has no environment of
the server, reaches only the job's folder and what the job reads, and connects only to allowed addresses. `Job` is
started by `muster.workflows.artifacts.member_jobs`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from muster.workflows.artifacts.archives import Form, Limits, pack, unpack
from muster.workflows.artifacts.landlock import Confinement, confine, die_with_parent
from muster.workflows.artifacts.locations import ArtifactError, ArtifactMissing, ArtifactUnreachable

if TYPE_CHECKING:
    from muster.workflows.artifacts.stores import ArtifactStore, StoreAccess

ERRORS: Mapping[str, type[ArtifactError]] = {
    each.__name__: each for each in (ArtifactError, ArtifactMissing, ArtifactUnreachable)
}


@dataclass(frozen=True, slots=True)
class Job:
    work: str
    """`pack`, `unpack`, or a method of a store: `load`, `save`, `delete`, `keys`."""
    folder: str
    """The only folder that can be written. The result of `pack`, `unpack` and `load` is `RESULT` in it."""
    sources: str
    """The folder of Muster's own code."""
    file_bytes: int
    entries: int
    source: str = ""
    """What is packed, unpacked or saved. Its folder contains nothing that the member may not read."""
    artifact: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    form: Form | None = None
    location: dict[str, Any] = field(default_factory=dict)
    secrets: list[tuple[dict[str, Any], str]] = field(default_factory=list, repr=False)
    """The Secrets that the location names, with their values."""
    allowed: list[str] = field(default_factory=list)
    """Addresses that may be used all the same."""
    upstream: str = ""
    """The proxy that this machine uses for all connections, if any."""
    known_hosts: str = ""


RESULT = "result"


def main() -> None:
    job = Job(**json.load(sys.stdin))
    die_with_parent()
    readable = (job.sources, str(Path(job.source).parent)) if job.source else (job.sources,)
    confine(Confinement((job.folder,), readable, file_bytes=job.file_bytes))
    os.chdir(job.folder)
    try:
        result: dict[str, Any] = {"value": _do(job)}
    except ArtifactError as error:
        result = {"error": str(error), "kind": type(error).__name__}
    except MemoryError:
        result = {"error": "the artifact needs more memory than its process may use", "kind": "ArtifactError"}
    except OSError as error:
        result = {"error": error.strerror or str(error), "kind": "ArtifactError"}
    sys.stdout.write(json.dumps(result))


def _do(job: Job) -> Any:
    target = Path(job.folder, RESULT)
    match job.work:
        case "pack":
            pack(Path(job.source), job.name, target, job.artifact, _Budget(job))
        case "unpack":
            unpack(Path(job.source), target, job.form, Limits(entries=job.entries))
        case _:
            import asyncio  # archives do without

            return asyncio.run(_use_store(job, target))
    return None


class _Budget:
    def __init__(self, job: Job) -> None:
        self._bytes, self._entries = job.file_bytes, job.entries

    def __call__(self, size: int) -> None:
        self._bytes -= size
        self._entries -= 1
        if self._bytes < 0 or self._entries < 0:
            raise ArtifactError(
                "the artifact is larger than budgets.outputMegabytes, or has more files than outputFiles"
            )


async def _use_store(job: Job, target: Path) -> Any:
    from muster.workflows.artifacts.egress import Egress, egress_proxy
    from muster.workflows.artifacts.stores import StoreAccess

    egress = Egress(job.allowed)
    async with egress_proxy(egress) as url:
        access = StoreAccess(True, job.upstream or url, _connector(job), job.known_hosts)
        store, location = _open_store(job, access), job.location
        try:
            match job.work:
                case "load":
                    await store.load(location, target)
                case "save":
                    await store.save(Path(job.source), location)
                case "delete":
                    await store.delete(location)
                case "keys":
                    return await store.keys(location)
        except ArtifactError:
            if egress.refused:
                raise ArtifactError(egress.refused[0]) from None
            raise
    return None


def _open_store(job: Job, access: StoreAccess) -> ArtifactStore:
    from muster.workflows.artifacts.stores import open_store

    async def secret_of(selector: Mapping[str, Any]) -> str:
        for known, value in job.secrets:
            if (known.get("name"), known.get("key")) == (selector.get("name"), selector.get("key")):
                return value
        raise ArtifactError(f'the location names no key of the Secret "{selector.get("name")}"')

    return open_store(job.location, secret_of, access)


def _connector(job: Job) -> str:
    """Writes the program that connects ssh and git://."""
    import shlex

    from muster.workflows.artifacts import egress

    path = Path(job.folder, "connect")
    words = shlex.join([sys.executable, "-I", "-S", egress.__file__])
    path.write_text(f'#!/bin/sh\nexec {words} "$1" "$2" {shlex.join(job.allowed)}\n')
    path.chmod(0o700)
    return str(path)


if __name__ == "__main__":
    main()
