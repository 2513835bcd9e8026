"""The cluster that a command talks to, the options that commands share, and the types and names on a command line:
`pods`, `pod x y`, `po,svc`, `job/train pod/x`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, NamedTuple, ParamSpec

import typer

from muster.cli.errors import NO_CLUSTER, CommandError
from muster.cli.output import warn
from muster.kube.cluster import Cluster
from muster.kube.errors import ApiError, NotFound, StorageFull
from muster.kube.kinds import Catalogue, Kind
from muster.kube.objects import Object, creation_order, name_of

if TYPE_CHECKING:
    from muster.embedded.cluster import EmbeddedCluster
    from muster.kube.remote.client import RemoteCluster
    from muster.kube.remote.kubeconfig import Access
    from muster.server.settings import Settings


RUNTIMES: tuple[Literal["sandbox", "podman", "docker"], ...] = ("sandbox", "podman", "docker")
_LOOK_SECONDS = 0.5
LATEST = "@latest"


@dataclass(frozen=True, slots=True)
class Session:
    cluster: Cluster
    namespace: str
    """The namespace of objects that do not name one."""
    remote: RemoteCluster | None = None
    """The same cluster, if it is reached over HTTP; for requests that only a server can handle."""
    box: EmbeddedCluster | None = None
    """The same cluster, if it runs in this process."""
    in_the_box: bool = False
    """Whether it is the embedded cluster of this user."""
    warn_of: Callable[[str], None] = lambda text: warn(f"Warning: {text}")

    @contextmanager
    def warnings(self) -> Iterator[None]:
        """Prints the warnings that writes in this block cause. A server sends them with its responses; for a cluster in
        this process, they are collected here."""
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
        """Returns the kinds and names that the words of a command line select."""
        if not all(self._is_known(word) for word in type_words(words)):
            await self.discover()
        with _unknown_type_errors():
            found = parse_targets(words, self.cluster.catalogue)
        return [await self._resolve_latest(target) if LATEST in target.names else target for target in found]

    async def _resolve_latest(self, target: Target) -> Target:
        """Replaces `@latest` by the name of the newest object."""
        page = await self.cluster.list(target.kind, self.namespace if target.kind.namespaced else "")
        newest = max(page.items, key=creation_order, default=None)
        if newest is None:
            raise CommandError(f"{LATEST}: there are no {target.kind.plural} in namespace {self.namespace}")
        return Target(target.kind, tuple(name_of(newest) if name == LATEST else name for name in target.names))

    async def target(self, word: str, default: str = "pods") -> tuple[Kind, str]:
        """Parses TYPE/NAME, or a NAME of the `default` type."""
        if not all(self._is_known(type_word) for type_word in type_words([word]) if "/" in word):
            await self.discover()
        with _unknown_type_errors():
            return parse_target(word, self.cluster.catalogue, default)

    async def kind_of(self, obj: Object) -> Kind:
        try:
            return self.cluster.catalogue.of_object(obj)
        except NotFound:
            await self.discover()
            return self.cluster.catalogue.of_object(obj)

    async def discover(self) -> None:
        """Loads the kinds of the server. Called only when needed: most commands are about built-in kinds."""
        if self.remote is not None:
            await self.remote.discover()

    async def trouble(self) -> str:
        """Returns why the embedded cluster cannot store anything now, such as a full disk; '' if it can."""
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
            pass  # a server that cannot be reached for a moment is not a storage problem
        return ""

    def _is_known(self, type_word: str) -> bool:
        try:
            self.cluster.catalogue.find(type_word)
        except NotFound:
            return False
        return True


@asynccontextmanager
async def connect(kubeconfig: str = "", context: str = "", namespace: str = "") -> AsyncIterator[Session]:
    """Connects to the cluster of the kubeconfig or context, if given; otherwise to the running embedded cluster."""
    access = _load_access(kubeconfig, context)
    with _skip_system_certificates():
        from muster.kube.remote.client import RemoteCluster

    async with RemoteCluster(access, on_warning=_warn_once()) as remote:
        boxed = not (kubeconfig or context or os.environ.get("KUBERNETES_SERVICE_HOST"))
        yield Session(remote, namespace or access.namespace, remote, in_the_box=boxed)


@asynccontextmanager
async def connect_or_start(
    kubeconfig: str = "", context: str = "", namespace: str = "", *, runtime: str = "", gang: bool = False
) -> AsyncIterator[Session]:
    """Like `connect`, but starts an embedded cluster in this process if none runs. It ends with the block; until then
    other commands can use it, too."""
    from muster.server.pidfile import ServerError, running_server

    if kubeconfig or context or running_server(home()) is not None:
        if runtime or gang:
            option = "--runtime" if runtime else "--gang"
            raise CommandError(
                f"{option} applies only to a cluster that this command starts; pass it to `muster up` instead"
            )
        async with connect(kubeconfig, context, namespace) as session:
            takeover = None if kubeconfig or context else asyncio.create_task(_take_over_cluster())
            try:
                yield session
            finally:
                if takeover is not None:
                    takeover.cancel()
                    await asyncio.gather(takeover, return_exceptions=True)
        return
    from muster.server.embedded_server import run_server

    try:
        async with run_server(load_settings(runtime, gang=gang)) as server:
            yield Session(
                server.cluster, namespace or "default", box=server.cluster, in_the_box=True, warn_of=_warn_once()
            )
    except ServerError as error:
        raise CommandError(f"error: {error}") from None


def load_settings(runtime: str = "", *, gang: bool = False, web_port: int = 0) -> Settings:
    """Reads the settings of the data directory. Options of the command line take precedence."""
    from muster.server.settings import Settings, SettingsError

    try:
        settings = Settings.load(home())
    except SettingsError as error:
        raise CommandError(str(error)) from None
    settings = replace(settings, gang=gang or settings.gang)
    if web_port:
        settings = replace(settings, web=replace(settings.web, port=web_port))
    if not runtime:
        return settings
    if runtime not in RUNTIMES:
        raise CommandError(f'--runtime: "{runtime}" is not a known runtime; use one of {", ".join(RUNTIMES)}')
    return replace(settings, agent=replace(settings.agent, runtime=runtime))


def home() -> Path:
    """Returns the data directory of the embedded cluster."""
    given = os.environ.get("MUSTER_HOME")
    if given:
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "muster"


async def _take_over_cluster() -> None:
    """Serves the cluster, at the same address, if the process that serves it now ends first. That process may be
    another `muster run`, whose cluster ends with it."""
    from muster.server.pidfile import ServerError, running_server

    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if running_server(home()) is not None:
            continue
        from muster.server.embedded_server import run_server

        with suppress(ServerError):  # another process took over first
            async with run_server(load_settings()):
                await asyncio.Event().wait()


def _warn_once() -> Callable[[str], None]:
    """Returns a function that prints each warning once. A run validates objects before it stores them, so the cluster
    sends each warning twice."""
    printed: set[str] = set()

    def warn_of(text: str) -> None:
        if text not in printed:
            printed.add(text)
            warn(f"Warning: {text}")

    return warn_of


@contextmanager
def _unknown_type_errors() -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        raise CommandError(f"error: {error.message}") from None


@contextmanager
def _skip_system_certificates() -> Iterator[None]:
    """Skips the certificates that an import of aiohttp loads, which takes a tenth of a second. Our client does not use
    that default context: it creates one for each cluster."""
    import ssl

    load = ssl.SSLContext.load_default_certs
    setattr(ssl.SSLContext, "load_default_certs", lambda *_: None)  # noqa: B010 (a type checker forbids assigning it)
    try:
        yield
    finally:
        setattr(ssl.SSLContext, "load_default_certs", load)  # noqa: B010


def _load_access(kubeconfig: str, context: str) -> Access:
    from muster.kube.remote.kubeconfig import KubeconfigError, in_cluster, load_kubeconfig
    from muster.server.pidfile import running_server

    try:
        if kubeconfig or context:
            return load_kubeconfig([kubeconfig] if kubeconfig else _default_kubeconfigs(), context)
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            return in_cluster()  # in a Pod, the command uses the Pod's service account
        info = running_server(home())
        if info is None:
            raise CommandError(NO_CLUSTER)
        if not info.kubeconfig:
            raise CommandError(
                f"error: the server here uses the cluster {info.url}; to use it with this command, name it with "
                "--context or --kubeconfig"
            )
        return load_kubeconfig([info.kubeconfig])
    except KubeconfigError as error:
        raise CommandError(f"error: {error}") from None


def _default_kubeconfigs() -> list[str]:
    return [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path] or ["~/.kube/config"]


# Options that several commands share, and the decorator that connects a command to its cluster.


P = ParamSpec("P")

Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help="The namespace. Default: the namespace of the context.")
]
Kubeconfig = Annotated[
    str,
    typer.Option("--kubeconfig", help="A kubeconfig file; the command uses its cluster instead of the embedded one."),
]
ContextName = Annotated[str, typer.Option("--context", help="The context of the kubeconfig.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and debug logs.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Use all namespaces.")]
LabelSelector = Annotated[str, typer.Option("--selector", "-l", help="Select objects by label, as in app=x,tier!=y.")]
FieldSelector = Annotated[
    str, typer.Option("--field-selector", help="Select objects by field, as in status.phase=Running.")
]
Files = Annotated[
    list[str] | None, typer.Option("--filename", "-f", help="A file, a directory, or - for stdin; may be repeated.")
]
Gang = Annotated[
    bool,
    typer.Option("--gang", help="Treat every training job as a gang: no member starts before there is room for all."),
]
Timeout = Annotated[str, typer.Option("--timeout", help="How long to wait, as in 30s or 5m.")]


def on_cluster(function: Callable[Concatenate[Session, P], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turns `async def command(session, ...)` into a command with --namespace, --kubeconfig, --context and --debug."""

    @functools.wraps(function)
    def command(
        *args: Any, namespace: str = "", kubeconfig: str = "", context: str = "", debug: bool = False, **kwargs: Any
    ) -> None:
        configure_logging(debug)

        async def run_connected() -> None:
            async with connect(kubeconfig, context, namespace) as session:
                await function(session, *args, **kwargs)

        asyncio.run(run_connected())

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, annotation, default in (
            ("namespace", Namespace, ""),
            ("kubeconfig", Kubeconfig, ""),
            ("context", ContextName, ""),
            ("debug", Debug, False),
        )
    ]
    # Typer reads the options of a command from its signature.
    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    del command.__wrapped__
    return command


def configure_logging(debug: bool, *, service: bool = False) -> None:
    """Shows debug logs with --debug, warnings for a service, and otherwise nothing: commands print their own errors."""
    level = logging.DEBUG if debug else logging.WARNING if service else logging.CRITICAL
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def parse_duration(text: str, option: str = "the duration") -> float:
    """Returns the seconds of `30s`, `5m`, `1h30m` or a plain number. An error names the `option`."""
    wanted = text.strip()
    negative = wanted.startswith("-")
    digits = wanted.removeprefix("-")
    if re.fullmatch(r"\d+(\.\d+)?", digits):
        total = float(digits)
    elif digits and re.fullmatch(f"(?:{_PART.pattern})+", digits):
        total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(digits))
    else:
        raise CommandError(f'{option}: "{text}" is not a duration; use a value such as 30s, 5m or 1h30m')
    return -total if negative else total


class Target(NamedTuple):
    """Objects of one kind: those with these names, or all if there are no names."""

    kind: Kind
    names: tuple[str, ...] = ()


def parse_targets(words: Sequence[str], catalogue: Catalogue) -> list[Target]:
    """Parses TYPE[,TYPE...] [NAME...] or TYPE/NAME... as kubectl does. Adjacent words of one kind become one target."""
    words = [word for word in words if word]
    if not words:
        raise CommandError("specify the objects: a type (`pods`), a type and a name (`pod x`), or TYPE/NAME (`pod/x`)")
    if any("/" in word for word in words):
        return _merge_adjacent([_parse_slashed(word, catalogue) for word in words])
    kinds = [kind for word in words[0].split(",") if word for kind in find_kinds(word, catalogue)]
    return [Target(kind, tuple(words[1:])) for kind in kinds]


def parse_target(word: str, catalogue: Catalogue, default: str = "pods") -> tuple[Kind, str]:
    """Parses TYPE/NAME, or a NAME of the `default` type."""
    type_word, slash, name = word.rpartition("/")
    if slash and not (type_word and name):
        raise CommandError(f'"{word}" is not valid; use TYPE/NAME, as in pod/x')
    return catalogue.find(type_word or default), name


def type_words(words: Sequence[str]) -> list[str]:
    """Returns the words, or parts of words, that are types."""
    if any("/" in word for word in words):
        return [word.partition("/")[0] for word in words]
    return [word for word in words[0].split(",") if word] if words else []


def find_kinds(word: str, catalogue: Catalogue) -> list[Kind]:
    """Returns the kind with that name, or all kinds of that category (`all`)."""
    try:
        return [catalogue.find(word)]
    except NotFound:
        members = [kind for kind in catalogue if word.lower() in kind.categories]
        if members:
            return members
        raise


def resource_name(kind: Kind, name: str) -> str:
    """Returns the name of an object in messages: `pod/x`, `job.batch/train`."""
    return f"{type_name(kind)}/{name}"


def type_name(kind: Kind) -> str:
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def _parse_slashed(word: str, catalogue: Catalogue) -> Target:
    if "/" not in word:
        raise CommandError(f'"{word}" has no type; if one argument is TYPE/NAME, all must be, as in pod/{word}')
    type_word, _, name = word.partition("/")
    if not type_word or not name or "/" in name:
        raise CommandError(f'"{word}" is not valid; use TYPE/NAME, as in pod/x')
    return Target(catalogue.find(type_word), (name,))


def _merge_adjacent(targets: Sequence[Target]) -> list[Target]:
    merged: list[Target] = []
    for target in targets:
        if merged and merged[-1].kind is target.kind:
            merged[-1] = Target(target.kind, merged[-1].names + target.names)
        else:
            merged.append(target)
    return merged
