"""Artifact work of members, each piece in a confined process of its own.

The process is `muster.workflows.artifacts.member_job_process`. A member's work waits only for the same member's work.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import muster
from muster.kube.beneath import Folder
from muster.kube.budgets import Budgets, setting_name
from muster.workflows.artifacts.archives import Form
from muster.workflows.artifacts.egress import upstream_proxy
from muster.workflows.artifacts.local_store import measure
from muster.workflows.artifacts.locations import ArtifactError, ArtifactUnreachable, Location, kind_of
from muster.workflows.artifacts.member_job_process import ERRORS, RESULT, Job
from muster.workflows.artifacts.stores import SecretOf

_SOURCES: Final = str(Path(muster.__file__).parent.parent)
_PROGRAM: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from muster.workflows.artifacts.member_job_process import main; main()"
)
_BY_STANDARD_LIBRARY: Final = ("pack", "unpack")
_AT_ONCE, _AT_ONCE_IN_ALL = 3, 24
_SECONDS = 3600.0
_LOOK_SECONDS = 1.0
_LONGEST_ANSWER = 64 << 20
_BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class MemberAccess:
    """What the settings allow members."""

    budgets: Budgets
    addresses: tuple[str, ...] = ()
    """Addresses that artifacts may use although they are on this machine."""


class ConfinedWork:
    """`folder` holds files in transit."""

    def __init__(self, folder: Path, access: MemberAccess) -> None:
        self._folder = folder
        self._access = access
        self._gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_AT_ONCE))
        """By namespace."""
        self._all = asyncio.Semaphore(_AT_ONCE_IN_ALL)

    async def pack(self, namespace: str, source: Path, name: str, target: Path, artifact: Mapping[str, Any]) -> None:
        async with self._job("pack", source=str(source), name=name, artifact=dict(artifact)) as job:
            await self._run(namespace, job)
            _take(job, target)

    async def unpack(self, namespace: str, archive: Path, target: Path, form: Form | None) -> None:
        """The archive is deleted."""
        async with self._job("unpack", form=form) as job:
            inside = Path(job.folder, "archive")
            archive.rename(inside)
            await self._run(namespace, replace(job, source=str(inside)))
            _take(job, target)

    async def use_store(self, namespace: str, work: str, location: Location, secret_of: SecretOf, source: Path) -> Any:
        """Calls a method of the store: `load` to `source`, `save` from it, `delete` or `keys`."""
        secrets = [(selector, await secret_of(selector)) for selector in secret_selectors(location)]
        async with self._job(work, location=location, secrets=secrets) as job:
            given = replace(job, source=str(source)) if work == "save" else job
            value = await self._run(namespace, given)
            if work == "load":
                _take(job, source)
            return value

    @asynccontextmanager
    async def temporary_folder(self) -> AsyncIterator[Path]:
        self._folder.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(dir=self._folder))
        try:
            yield folder
        finally:
            await asyncio.to_thread(_remove, folder)

    @asynccontextmanager
    async def _job(self, work: str, **more: Any) -> AsyncIterator[Job]:
        budgets = self._access.budgets
        is_git = kind_of(more.get("location") or {}) == "git"
        async with self.temporary_folder() as folder:
            yield Job(
                work, str(folder), _SOURCES, budgets.output_megabytes << 20, budgets.output_files,
                allowed=list(self._access.addresses), upstream=upstream_proxy(),
                known_hosts=_known_hosts() if is_git else "", **more,
            )  # fmt: skip

    async def _run(self, namespace: str, job: Job) -> Any:
        async with self._gates[namespace], self._all:
            try:
                async with asyncio.timeout(_SECONDS):
                    return await self._run_process(job)
            except TimeoutError:
                raise ArtifactUnreachable(f"it took more than {_SECONDS / 60:.0f} minutes") from None

    async def _run_process(self, job: Job) -> Any:
        flags = ["-I", "-S"] if job.work in _BY_STANDARD_LIBRARY else ["-I"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *flags, "-c", _PROGRAM, _SOURCES,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            cwd=job.folder, env=_environment(job.folder), start_new_session=True, limit=_LONGEST_ANSWER,
        )  # fmt: skip
        watch = asyncio.create_task(self._watch_size(job, process))
        try:
            answer, said = await process.communicate(json.dumps(asdict(job)).encode())
        except BaseException:
            _kill(process)
            await process.wait()
            raise
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        if not watch.cancelled() and watch.done() and watch.exception() is not None:
            raise ArtifactError(str(watch.exception()))
        try:
            result: dict[str, Any] = json.loads(answer)
        except ValueError:
            raise ArtifactError(_last_words(said, process.returncode)) from None
        if "error" in result:
            raise ERRORS.get(str(result.get("kind")), ArtifactError)(str(result["error"]))
        return result.get("value")

    async def _watch_size(self, job: Job, process: asyncio.subprocess.Process) -> None:
        """Ends a process that fills the disk with many files."""
        budgets = self._access.budgets
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            files, size = await asyncio.to_thread(measure, Path(job.folder))
            for used, most, field in (
                (size >> 20, budgets.output_megabytes, "output_megabytes"),
                (files, budgets.output_files, "output_files"),
            ):
                if used > most:
                    _kill(process)
                    raise ArtifactError(f"the artifact exceeds {setting_name(field)} ({most})")


class ConfinedStore:
    """A store of a member, as an `ArtifactStore`. Each call is a process."""

    def __init__(self, work: ConfinedWork, namespace: str, secret_of: SecretOf) -> None:
        self._work, self._namespace, self._secret_of = work, namespace, secret_of

    async def load(self, location: Location, target: Path) -> None:
        await self._use("load", location, target)

    async def save(self, source: Path, location: Location) -> None:
        await self._use("save", location, source)

    async def delete(self, location: Location) -> None:
        await self._use("delete", location)

    async def keys(self, location: Location) -> list[str]:
        found: list[str] = await self._use("keys", location)
        return found

    async def read(self, location: Location) -> AsyncIterator[bytes]:
        async with self._work.temporary_folder() as folder:
            await self.load(location, folder / RESULT)
            with Folder.at(folder) as opened:
                if opened.kind(RESULT) != "file":
                    raise ArtifactError("it is a folder: read its files one by one")
                with opened.file(RESULT) as file:
                    while block := await asyncio.to_thread(file.read, _BLOCK):
                        yield block

    async def _use(self, work: str, location: Location, path: Path = Path()) -> Any:
        return await self._work.use_store(self._namespace, work, location, self._secret_of, path)


def secret_selectors(value: Any) -> list[dict[str, Any]]:
    """Returns the keys of Secrets that a location names."""
    found: list[dict[str, Any]] = []
    for field, inner in value.items() if isinstance(value, Mapping) else ():
        if str(field).endswith("Secret") and isinstance(inner, Mapping) and inner.get("name"):
            found.append(dict(inner))
        else:
            found += secret_selectors(inner)
    return found


def _take(job: Job, target: Path) -> None:
    """Moves the result to its place: a file or a folder, never a link."""
    with Folder.at(job.folder) as folder:
        if folder.kind(RESULT) not in ("file", "folder"):
            raise ArtifactError("the artifact is neither a file nor a folder")
    Path(job.folder, RESULT).rename(target)


def _environment(folder: str) -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8"}


def _known_hosts() -> str:
    with suppress(OSError):
        return Path("~/.ssh/known_hosts").expanduser().read_text()
    return ""


def _remove(folder: Path) -> None:
    with suppress(OSError), Folder.at(folder.parent) as above:
        above.remove([folder.name])


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(said: bytes, code: int | None) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    told = lines[-1][:300] if lines else f"exit code {code}"
    return f"the process of the artifact ended early: {told}"
