"""`ClusterAdapter` and `LocalAdapter`: jobs as objects of a Kubernetes API, a real one's or the embedded cluster's.

Start is exactly once: the name of an attempt is stored before the call, and a cluster has at most one object of a name.
An object that is there already is adopted if its label says that it is this job's.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from muster.dispatch.adapter import DispatcherAdapter
from muster.dispatch.context import ERROR, RESULT, write_json
from muster.dispatch.errors import DispatchError, NoCapacity, Refused, Transient, Unclear
from muster.dispatch.kubernetes_objects import (
    ENDED_STATES,
    JOB_LABEL,
    PodOptions,
    build_object,
    build_secret,
    describe_object,
    folder_in_pod,
    job_kinds,
    measure_capacity,
    secrets_of,
    termination_message,
)
from muster.dispatch.model import Capacity, Job, JobDescription, Line, Mount, Spec
from muster.dispatch.secrets import Secret
from muster.kube.builtin import NODE, POD, SECRET
from muster.kube.cluster import Cluster, LogQuery
from muster.kube.controller import Informer
from muster.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    Unauthorized,
    Unavailable,
)
from muster.kube.kinds import Kind
from muster.kube.objects import Object, labels_of, name_of, namespace_of, parse_time, uid_of, version_of

_UP_SECONDS = 90.0
_STOP_TRIES = 5
_LONGEST_LINE = 1 << 20
"""Of a log. A longer one is cut into pieces, so that reading it takes little memory and linear time."""


class _Place(NamedTuple):
    """An external id: `pods/default/train-1/UID`."""

    resource: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def parse(cls, external_id: str | None) -> _Place | None:
        parts = (external_id or "").split("/")
        return cls(*parts) if len(parts) == 4 else None

    def __str__(self) -> str:
        return "/".join(self)


class _Connection:
    """A cluster, and a copy of the objects that dispatchers created there."""

    def __init__(self, cluster: Cluster, namespace: str, close: Callable[[], Awaitable[None]]) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.loop = asyncio.get_running_loop()
        self.changed = asyncio.Event()
        self._close = close
        self._informers: dict[str, Informer] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def informer(self, kind: Kind) -> Informer:
        found = self._informers.get(kind.resource)
        if found is None:
            found = Informer(
                self.cluster, kind, self.namespace, labels=JOB_LABEL, on_change=lambda *_: self.changed.set(),
                indexers={"job": lambda obj: [(namespace_of(obj), labels_of(obj).get(JOB_LABEL))]},
            )  # fmt: skip
            self._informers[kind.resource] = found
            self._tasks.append(asyncio.create_task(found.run()))
        await found.synced.wait()
        return found

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._close()


class ClusterAdapter(DispatcherAdapter):
    """Runs jobs on a Kubernetes cluster."""

    functions = False
    settle = 0.5

    def __init__(
        self,
        cluster: Cluster | str | Path | None = None,
        namespace: str = "default",
        *,
        name: str = "cluster",
        context: str = "",
        image: str = "",
        folder: Mount | None = None,
        storage: Mapping[str, Mount] | None = None,
        env: Mapping[str, str | Secret] | None = None,
        rdma_resource: str = "",
        service_account: str = "",
    ) -> None:
        """`cluster` is a kubeconfig file; without one, the cluster whose Pod this is, or the usual kubeconfig. `folder`
        says where Pods find the dispatcher's folder: Mount("/jobs", "", "claim", "shared") mounts a claim. `storage`
        maps kinds of storage that this cluster does not know, such as pfs, to claims and paths."""
        self.name = name
        self._given, self._context = cluster, context
        self.options = PodOptions(
            namespace, image, folder, storage or {}, env or {}, rdma_resource=rdma_resource,
            service_account=service_account,
        )  # fmt: skip
        self._connection: _Connection | None = None
        self._connecting: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def namespace_of(self, job: Job) -> str:
        """Where the objects of a job are. A subclass that uses several namespaces is created with the namespace ''."""
        return self.options.namespace

    def job_folder(self, job: Job) -> str:
        return folder_in_pod(job, self.options)

    async def capacity(self) -> Capacity | None:
        cluster = (await self._connect()).cluster
        running = "status.phase!=Succeeded,status.phase!=Failed"
        try:
            nodes, pods = await asyncio.gather(cluster.list(NODE), cluster.list(POD, fields=running))
        except Forbidden:
            return None  # allowed to create Pods, but not to look at nodes: the cluster's own queue decides
        except ApiError as error:
            raise await self._error(error, Transient) from None
        return measure_capacity(nodes.items, pods.items, self.options)

    async def start(self, job: Job, spec: Spec, name: str) -> str:
        obj = self._build(job, spec, name)
        connection = await self._connect()
        keys = secrets_of(spec, self.options)
        try:
            kind = self._kind_of(obj)
            namespace = str(obj["metadata"]["namespace"])
            if keys:
                secret = build_secret(name, namespace, labels_of(obj), keys)
                with suppress(AlreadyExists):
                    await connection.cluster.create(secret)
            try:
                created = await connection.cluster.create(obj)
            except AlreadyExists:
                created = await connection.cluster.get(kind, name, namespace)
                if labels_of(created).get(JOB_LABEL) != job.id:
                    raise Refused(f'{self.name} has a {kind.kind} "{name}" that is not this job\'s') from None
        except ApiError as error:
            raise await self._error(error, Unclear) from None
        return str(_Place(kind.resource, namespace, name, uid_of(created)))

    async def find(self, job: Job, name: str) -> str | None:
        connection = await self._connect()
        try:
            for kind in job_kinds():
                with suppress(NotFound):
                    found = await connection.cluster.get(kind, name, self.namespace_of(job))
                    if labels_of(found).get(JOB_LABEL) == job.id:
                        return str(_Place(kind.resource, self.namespace_of(job), name, uid_of(found)))
        except ApiError as error:
            raise await self._error(error, Transient) from None
        return None

    async def describe(self, jobs: Sequence[Job]) -> Mapping[str, JobDescription]:
        connection = await self._connect()
        found: dict[str, JobDescription] = {}
        try:
            pods = await connection.informer(POD)
            for job in jobs:
                obj = await self._look(connection, job)
                if obj is None:
                    continue
                described = describe_object(obj, pods.by("job", (namespace_of(obj), job.id)))
                found[job.id] = described
                if described.state in ENDED_STATES and self.options.folder is None and obj["kind"] == "Pod":
                    await asyncio.to_thread(_keep_message, job, termination_message(obj))
        except ApiError as error:
            raise await self._error(error, Transient) from None
        return found

    async def stop(self, job: Job, grace: float) -> None:
        place = _Place.parse(job.external_id)
        connection = await self._connect()
        if place is None:
            return
        try:
            kind = self._kind(place.resource)
            for _ in range(_STOP_TRIES):
                try:
                    obj = await connection.cluster.get(kind, place.name, place.namespace)
                    if uid_of(obj) != place.uid or describe_object(obj, ()).state in ENDED_STATES:
                        return
                    # Only as it was read: an object that has just succeeded must not be deleted.
                    # Gone means ended: the Pods of a job go first, and a grace of 0 would remove a Pod that still runs.
                    await connection.cluster.delete(
                        kind, place.name, place.namespace, uid=place.uid, resource_version=version_of(obj),
                        propagation="Background" if kind is POD else "Foreground",
                        grace_seconds=max(1, round(grace)) if kind is POD else None,
                    )  # fmt: skip
                except Conflict:
                    continue
                return
        except NotFound:
            return
        except ApiError as error:
            raise await self._error(error, Transient) from None
        raise Transient(f"{self.name}: {place.name} changes faster than it can be deleted")

    async def release(self, job: Job) -> None:
        """Deletes the ended object and its Secret; the dispatcher has kept the log."""
        place = _Place.parse(job.external_id)
        connection = await self._connect()
        if place is None:
            return
        kind = self._kind(place.resource)
        with suppress(NotFound, Conflict):
            await connection.cluster.delete(kind, place.name, place.namespace, uid=place.uid)
        await self.release_keys(job)

    async def release_keys(self, job: Job) -> None:
        place = _Place.parse(job.external_id)
        if place is not None:
            with suppress(NotFound, Forbidden):
                await (await self._connect()).cluster.delete(SECRET, place.name, place.namespace)

    async def logs(self, job: Job, *, follow: bool = False, tail: int | None = None) -> AsyncIterator[Line]:
        connection = await self._connect()
        place = _Place.parse(job.external_id)
        if place is None:
            return
        names = [place.name]
        if place.resource != POD.resource:
            pods = await connection.informer(POD)
            names = sorted(name_of(pod) for pod in pods.by("job", (place.namespace, job.id)))
        queue: asyncio.Queue[Line | None] = asyncio.Queue(1000)
        query = LogQuery(follow=follow, tail_lines=tail, timestamps=True)

        async def read(pod: str) -> None:
            try:
                async for line in _lines(connection.cluster.logs(pod, place.namespace, query)):
                    await queue.put(_parse_line(line, pod))
            except ApiError as error:
                if not isinstance(error, NotFound | BadRequest):
                    await queue.put(Line(f"the log of {pod} cannot be read: {error.message}", pod))
            finally:
                await queue.put(None)

        async def read_all() -> None:
            if follow:
                await asyncio.gather(*(read(pod) for pod in names))
            else:
                for pod in names:
                    await read(pod)

        reading, missing = asyncio.create_task(read_all()), len(names)
        try:
            while missing:
                line = await queue.get()
                if line is None:
                    missing -= 1
                else:
                    yield line
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    def request(self, job: Job, spec: Spec, name: str) -> Mapping[str, Any]:
        obj = self._build(job, spec, name)
        self._kind_of(obj)
        return obj

    def _build(self, job: Job, spec: Spec, name: str) -> Object:
        return build_object(job, spec, name, replace(self.options, namespace=self.namespace_of(job)))

    async def changed(self) -> None:
        connection = await self._connect()
        await connection.informer(POD)
        await connection.changed.wait()
        connection.changed.clear()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def open_cluster(self) -> tuple[Cluster, Callable[[], Awaitable[None]]]:
        """Returns the cluster and what closes it."""
        from muster.kube.remote.client import RemoteCluster
        from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig

        given = self._given
        if given is not None and not isinstance(given, str | Path):
            return given, _nothing
        try:
            if given is None and os.environ.get("KUBERNETES_SERVICE_HOST"):
                access = in_cluster()
            else:
                paths = [given] if given else os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep)
                access = load_kubeconfig(paths, self._context)
        except KubeconfigError as error:
            raise Transient(f"{self.name}: {error}") from None
        remote = RemoteCluster(access, field_manager="muster-dispatch")
        return remote, remote.close

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        if self._connection is not None and self._connection.loop is loop:
            return self._connection
        if self._connecting is None or self._connecting[0] is not loop:
            self._connecting = (loop, asyncio.Lock())
        async with self._connecting[1]:
            if self._connection is None or self._connection.loop is not loop:
                cluster, close = await self.open_cluster()
                self._connection = _Connection(cluster, self.options.namespace, close)
            return self._connection

    async def _look(self, connection: _Connection, job: Job) -> Object | None:
        place = _Place.parse(job.external_id)
        if place is None:
            return None
        kind = self._kind(place.resource)
        informer = await connection.informer(kind)
        obj = informer.get(place.namespace, place.name)
        if obj is None or uid_of(obj) != place.uid:
            # The copy may be older than the object.
            with suppress(NotFound):
                obj = await connection.cluster.get(kind, place.name, place.namespace)
        return obj if obj is not None and uid_of(obj) == place.uid else None

    def _kind(self, resource: str) -> Kind:
        if resource == POD.resource:
            return POD
        found = next((kind for kind in job_kinds() if kind.resource == resource), None)
        if found is None:
            raise Refused(f"{self.name}: {resource} is not a kind of job")
        return found

    def _kind_of(self, obj: Object) -> Kind:
        if obj["kind"] == "Pod":
            return POD
        group = str(obj.get("apiVersion", "")).rpartition("/")[0]
        for kind in job_kinds():
            if (kind.kind, kind.group) == (obj["kind"], group):
                return kind
        known = ", ".join(sorted({kind.kind for kind in job_kinds()}))
        raise Refused(f"{self.name} cannot run a {obj['kind']} as a job; it can run: {known}")

    async def _error(self, error: ApiError, unknown: type[DispatchError]) -> DispatchError:
        """Returns what an error of the API means. `unknown`: what it means that no answer came."""
        message = f"{self.name}: {error.message}"
        match error:
            case Forbidden() if "quota" in error.message:
                return NoCapacity(message)
            case Invalid() | BadRequest() | Forbidden() | NotFound() | TooLarge() | Unauthorized():
                return Refused(message) if unknown is Unclear else Transient(message)
            case Unavailable():
                await self.revive()
                return unknown(message, retry_after=error.retry_after)
        return unknown(message, retry_after=error.retry_after)

    async def revive(self) -> None:
        """Called when the cluster does not answer."""


class LocalAdapter(ClusterAdapter):
    """Runs jobs on this machine, in the user's embedded cluster, which it starts when needed. Functions run with the
    dispatcher's own Python and `sys.path`."""

    functions = True

    def __init__(
        self,
        cluster: Cluster | str | Path | None = None,
        namespace: str = "default",
        *,
        name: str = "local",
        home: str | Path | None = None,
        storage: Mapping[str, Mount] | None = None,
        env: Mapping[str, str | Secret] | None = None,
    ) -> None:
        """`home` is the data directory of the embedded cluster; by default MUSTER_HOME, or ~/.local/share/muster. `env`
        is added to every job."""
        image = f"python:{sys.version_info.major}.{sys.version_info.minor}"
        super().__init__(
            cluster, namespace, name=name, image=image, folder=Mount("", "", "hostpath"), storage=storage, env=env
        )
        self._home = Path(home).expanduser().absolute() if home is not None else _default_home()

    async def open_cluster(self) -> tuple[Cluster, Callable[[], Awaitable[None]]]:
        if self._given is not None:
            return await super().open_cluster()
        from muster.kube.remote.client import RemoteCluster
        from muster.kube.remote.kubeconfig import KubeconfigError, load_kubeconfig

        await self._bring_up()
        try:
            server = json.loads((self._home / "server.json").read_bytes())
            remote = RemoteCluster(load_kubeconfig(server["kubeconfig"]), field_manager="muster-dispatch")
        except (OSError, ValueError, KeyError, KubeconfigError) as error:
            raise Transient(f"{self.name}: the embedded cluster of {self._home} cannot be reached: {error}") from None
        return remote, remote.close

    async def revive(self) -> None:
        """The server has ended, or was killed. Its Pods go on, and the next one adopts them."""
        if self._given is None:
            with suppress(DispatchError):
                await self._bring_up()

    async def _bring_up(self) -> None:
        """Starts the embedded cluster in the background, unless it runs. It outlives the dispatcher, as its Pods do."""
        environment = {**os.environ, "MUSTER_HOME": str(self._home), "NO_COLOR": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "muster", "up", "-d", env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(_UP_SECONDS):
                said, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise Transient(f"{self.name}: the embedded cluster did not start in {_UP_SECONDS:.0f} seconds") from None
        if process.returncode:
            text = said.decode(errors="replace").strip()
            raise Transient(f"{self.name}: the embedded cluster cannot be started: {text}")


def _default_home() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.environ.get("MUSTER_HOME") or f"{data}/muster").expanduser().absolute()


def _keep_message(job: Job, message: str) -> None:
    """Stores the result or error of a function that had no shared folder to write it to."""
    try:
        said = orjson.loads(message)
    except orjson.JSONDecodeError:
        return  # also numbers and depths that could not be stored
    if isinstance(said, dict) and job.folder:
        folder = Path(job.folder)
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(TypeError):  # nested deeper than it could be shown
            write_json(folder / (RESULT if "result" in said else ERROR), said)


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    rest = b""
    async for piece in pieces:
        *complete, rest = (rest + piece).split(b"\n")
        for line in complete:
            yield line.decode(errors="replace")
        if len(rest) > _LONGEST_LINE:
            yield rest.decode(errors="replace")
            rest = b""
    if rest:
        yield rest.decode(errors="replace")


def _parse_line(line: str, pod: str) -> Line:
    time, _, text = line.partition(" ")
    try:
        return Line(text, pod, parse_time(time))
    except ValueError:
        return Line(line, pod)


async def _nothing() -> None:
    pass
