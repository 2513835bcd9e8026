"""The cluster a command talks to: the one in the box that is running, or the one a kubeconfig names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from muster.cli.errors import NO_CLUSTER, CommandError
from muster.cli.output import warn
from muster.cli.targets import Target, parse_target, parse_targets, type_words
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound, StorageFull
from muster.kube.kinds import Kind
from muster.kube.objects import Object

if TYPE_CHECKING:
    from muster.embedded.cluster import EmbeddedCluster
    from muster.kube.remote.client import RemoteCluster
    from muster.kube.remote.kubeconfig import Access
    from muster.server.settings import Settings

RUNTIMES: tuple[Literal["sandbox", "podman", "docker"], ...] = ("sandbox", "podman", "docker")
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Session:
    cluster: Cluster
    namespace: str
    """Where objects without a namespace of their own are meant to be."""
    remote: RemoteCluster | None = None
    """The same cluster where it is reached over HTTP, for what only a server can tell."""
    box: EmbeddedCluster | None = None
    """The same cluster where it is in this process."""
    in_the_box: bool = False
    """Whether it is the cluster in the box, and the box ours to arrange."""
    warn_of: Callable[[str], None] = lambda text: warn(f"Warning: {text}")

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Shows what the cluster warns of while the block stores things. A server says so by itself; a box in this
        process has to be asked."""
        if self.remote is not None:
            yield
            return
        from muster.embedded.store.admission import collect_warnings

        with collect_warnings() as collected:
            try:
                yield
            finally:
                for text in collected:
                    self.warn_of(text)

    async def targets(self, words: Sequence[str]) -> list[Target]:
        """What the words of a command line are about."""
        if not all(self._knows(word) for word in type_words(words)):
            await self.discover()
        with _unknown_types():
            return parse_targets(words, self.cluster.catalogue)

    async def target(self, word: str, default: str = "pods") -> tuple[Kind, str]:
        """One object: TYPE/NAME, or a NAME of the `default` type."""
        if not all(self._knows(type_word) for type_word in type_words([word]) if "/" in word):
            await self.discover()
        with _unknown_types():
            return parse_target(word, self.cluster.catalogue, default)

    async def kind_of(self, obj: Object) -> Kind:
        try:
            return self.cluster.catalogue.of_object(obj)
        except NotFound:
            await self.discover()
            return self.cluster.catalogue.of_object(obj)

    async def discover(self) -> None:
        """Learns the kinds that only the server knows. Asked for when needed: most commands are about Pods."""
        if self.remote is not None:
            await self.remote.discover()

    async def trouble(self) -> str:
        """Why the cluster in the box stores nothing at present, such as a full disk; '' if all is well."""
        if not self.in_the_box:
            return ""
        try:
            if self.remote is not None:
                await self.remote.raw("/readyz", accept="*/*")
            elif self.box is not None and self.box.store.last_error is not None:
                raise self.box.store.last_error
        except StorageFull as error:
            return error.message
        except (ApiError, OSError):
            pass  # who is away for a moment stores nothing either, but will again
        return ""

    def _knows(self, type_word: str) -> bool:
        try:
            self.cluster.catalogue.find(type_word)
        except NotFound:
            return False
        return True


@asynccontextmanager
async def connect(kubeconfig: str = "", context: str = "", namespace: str = "") -> AsyncIterator[Session]:
    """The cluster of a kubeconfig if one is named, else the box that is running."""
    access = _access(kubeconfig, context)
    with _without_system_certificates():
        from muster.kube.remote.client import RemoteCluster

    async with RemoteCluster(access, on_warning=_warn_once()) as remote:
        boxed = not (kubeconfig or context or os.environ.get("KUBERNETES_SERVICE_HOST"))
        yield Session(remote, namespace or access.namespace, remote, in_the_box=boxed)


@asynccontextmanager
async def connect_or_start(
    kubeconfig: str = "", context: str = "", namespace: str = "", *, runtime: str = "", gang: bool = False
) -> AsyncIterator[Session]:
    """The same, or a box in this process for as long as the block lasts. Other commands can use it meanwhile."""
    from muster.server.pidfile import ServerError, running_server

    if kubeconfig or context or running_server(home()) is not None:
        if runtime or gang:
            option = "--runtime" if runtime else "--gang"
            raise CommandError(
                f"{option} is for a cluster that this command starts itself; say it to `muster up` instead"
            )
        async with connect(kubeconfig, context, namespace) as session:
            stand_in = None if kubeconfig or context else asyncio.create_task(_stand_in())
            try:
                yield session
            finally:
                if stand_in is not None:
                    stand_in.cancel()
                    await asyncio.gather(stand_in, return_exceptions=True)
        return
    from muster.server.serving import serving

    try:
        async with serving(load_settings(runtime, gang=gang)) as server:
            yield Session(
                server.cluster, namespace or "default", box=server.cluster, in_the_box=True, warn_of=_warn_once()
            )
    except ServerError as error:
        raise CommandError(f"error: {error}") from None


def load_settings(runtime: str = "", *, gang: bool = False) -> Settings:
    from muster.server.settings import Settings, SettingsError

    try:
        settings = Settings.load(home())
    except SettingsError as error:
        raise CommandError(str(error)) from None
    settings = replace(settings, gang=gang or settings.gang)
    if not runtime:
        return settings
    if runtime not in RUNTIMES:
        raise CommandError(f'--runtime: "{runtime}" is not known; write {", ".join(RUNTIMES)}')
    return replace(settings, agent=replace(settings.agent, runtime=runtime))


def home() -> Path:
    """Where the cluster in the box lives."""
    given = os.environ.get("MUSTER_HOME")
    if given:
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "muster"


async def _stand_in() -> None:
    """The cluster may be that of another `muster run`, which takes it along when it ends. Then this process carries on
    with it, at the same address."""
    from muster.server.pidfile import ServerError, running_server

    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if running_server(home()) is not None:
            continue
        from muster.server.serving import serving

        with suppress(ServerError):  # somebody else was quicker
            async with serving(load_settings()):
                await asyncio.Event().wait()


def _warn_once() -> Callable[[str], None]:
    """A run checks what it stores before it stores it, and is warned both times."""
    told: set[str] = set()

    def warn_of(text: str) -> None:
        if text not in told:
            told.add(text)
            warn(f"Warning: {text}")

    return warn_of


@contextmanager
def _unknown_types() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise CommandError(f"error: {error.message}") from None


@contextmanager
def _without_system_certificates() -> Iterator[None]:
    """Importing aiohttp reads all certificates of the machine, which takes a tenth of a second, for a default that our
    client never uses: it makes a context of its own for every cluster."""
    import ssl

    load = ssl.SSLContext.load_default_certs
    setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)  # noqa: B010 (a type checker forbids assigning it)
    try:
        yield
    finally:
        setattr(ssl.SSLContext, "load_default_certs", load)  # noqa: B010


def _access(kubeconfig: str, context: str) -> Access:
    from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig
    from muster.server.pidfile import running_server

    try:
        if kubeconfig or context:
            return load_kubeconfig([kubeconfig] if kubeconfig else _usual_kubeconfigs(), context)
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster()  # this is a Pod: it speaks for its service account
        info = running_server(home())
        if info is None:
            raise CommandError(NO_CLUSTER)
        return load_kubeconfig([info.kubeconfig])
    except KubeconfigError as error:
        raise CommandError(f"error: {error}") from None


def _usual_kubeconfigs() -> list[str]:
    return [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or ["~/.kube/config"]
