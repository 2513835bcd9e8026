"""Python environments that Pods share, built once from the `pip install` commands that their containers begin with.

A Pod asks for one with an annotation (`muster.dev/pip-install`, see kube/cluster.py). The first Pod that asks makes the
agent create a *build Pod* in the same namespace; the others wait for it. The environment is a folder below the data
directory. Containers see it at that path through the overlay that each of them has over the machine's files, so it
costs nothing to enter, a container may install more, and no other container sees that (see
supervisor/base_namespace.py).

- **Nothing runs in the server.** Installing a package can run code of users, so it happens in a Pod of their namespace,
  with its rights and limits.
- **Namespaces share nothing**: what one installs could change what another one runs.
- **It is only a shortcut.** If the build fails, the Pods start without it: their own pip then does what it would do
  anywhere, and its error is in their logs.
- **`kill -9` at any moment is harmless.** A build Pod writes to a folder named after its uid, which is renamed when the
  Pod has succeeded. What is left of others is swept.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import re
import shutil
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from muster.embedded.cluster import EmbeddedCluster
from muster.embedded.node import environment_builder, pip_shim
from muster.embedded.node.images import match_image, plain_name
from muster.embedded.node.pip_shim import REAL_PIP, RECORD, parse_install
from muster.embedded.node.pod_context import InvalidAnnotation, NotReady
from muster.embedded.node.pod_status import has_ended
from muster.embedded.node.supervisor.contract import Isolation
from muster.embedded.node.supervisor.output_files import remove_tree
from muster.embedded.settings import AgentSettings
from muster.kube.builtin import POD
from muster.kube.cluster import BUILD_ENVIRONMENT_ANNOTATION, PIP_INSTALL_ANNOTATION
from muster.kube.errors import AlreadyExists, ApiError, NotFound
from muster.kube.file_names import path_component
from muster.kube.objects import (
    Object,
    annotations_of,
    key_of,
    meta,
    namespace_of,
    parse_time,
    spec_of,
    status_of,
    uid_of,
)

log = logging.getLogger(__name__)

_FORMAT = 2
"""Part of the key. Raise it if environments are built in another way."""
_UNPINNED_SECONDS = 7 * 24 * 3600
"""An environment with a package of any version is built anew so often, for newer releases."""
_BUILD_SECONDS = 1800
_RETRY_SECONDS = 60.0
"""How long a failed build is not repeated. Meanwhile, Pods start without it."""
_POLL_SECONDS = 10.0
"""The end of a build wakes the Pods that wait for it. This is for what no event reports."""
_MOST_COMMANDS, _MOST_WORDS = 20, 500
_BUILDING, _REMOVING = ".building-", ".removing-"
_PYTHON_TAG = re.compile(r":(3\.\d+)(?:[.\-].*)?$")
_PROBE = "import os, sys; print('%d.%d.%d' % sys.version_info[:3]); print(os.path.realpath(sys._base_executable))"


class EnvironmentNotReady(NotReady):
    """The environment is being built."""

    reason = "ContainerCreating"
    event = "BuildingEnvironment"
    event_type = "Normal"
    retry_seconds = _POLL_SECONDS

    @property
    def event_message(self) -> str:
        return self.message


class Interpreter(NamedTuple):
    version: str
    path: str

    @property
    def folder(self) -> str:
        """The installation."""
        return os.path.dirname(os.path.dirname(self.path))


class PodEnvironment(NamedTuple):
    """The environment of a Pod: used if `source` is '', else built there."""

    path: str
    interpreter: Interpreter
    source: str = ""
    description: str = ""


class EnvironmentRequest(NamedTuple):
    commands: tuple[tuple[str, ...], ...]
    """The words after `pip install`, of each command."""
    variables: tuple[tuple[str, str], ...]
    """The container's variables that pip reads."""
    image: str

    def key(self, python: str, now: float) -> str:
        pinned = all(_is_pinned(word) for words in self.commands for word in (parse_install(words) or ([], True))[0])
        period = -1 if pinned else int(now // _UNPINNED_SECONDS)
        parts = [_FORMAT, python, self.commands, self.variables, period]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def read_request(pod: Object) -> EnvironmentRequest | None:
    """Returns what a Pod asks for, or None if it asks for nothing that can be shared: a package from an address or a
    folder may be another one each time, and a variable of pip may come from a Secret. Raises InvalidAnnotation."""
    text = annotations_of(pod).get(PIP_INSTALL_ANNOTATION)
    if not text:
        return None
    containers: list[Any] = spec_of(pod).get("containers") or []
    try:
        commands = orjson.loads(text)
    except orjson.JSONDecodeError:
        commands = None
    if not _is_list_of_commands(commands) or not commands:
        raise InvalidAnnotation(
            f'{PIP_INSTALL_ANNOTATION}: a list of lists of words is needed, such as [["kfp==2.17.0", "--no-deps"]]'
        )
    if len(containers) != 1 or any(parse_install(words) is None for words in commands):
        return None
    variables = list[tuple[str, str]]()
    for variable in containers[0].get("env") or ():
        name = str(variable.get("name") or "")
        if name.startswith("PIP_") or name == "PYTHONPATH":
            if "valueFrom" in variable or "$" in str(variable.get("value") or ""):
                return None
            variables.append((name, str(variable.get("value") or "")))
    image = str(containers[0].get("image") or "")
    return EnvironmentRequest(tuple(tuple(words) for words in commands), tuple(sorted(variables)), image)


def python_version_of(image: str) -> str:
    """Returns the version that the tag of an official image of Python names (`3.11` for `python:3.11-slim`), or ''."""
    found = _PYTHON_TAG.search(image)
    return found[1] if found is not None and plain_name(image) == "python" else ""


def choose_evictions(environments: Iterable[tuple[str, int, float]], in_use: Collection[str], limit: int) -> list[str]:
    """Returns the environments to remove so that the others fit into the limit: (path, size, last use), those that were
    not used for the longest time first. Those in use stay."""
    known = sorted(environments, key=lambda each: each[2])
    excess = sum(size for _, size, _ in known) - limit
    chosen = list[str]()
    for path, size, _ in known:
        if excess <= 0:
            break
        if path not in in_use:
            chosen.append(path)
            excess -= size
    return chosen


def build_pod(pod: Object, request: EnvironmentRequest, key: str, path: str, interpreter: Interpreter) -> Object:
    """The Pod that builds the environment of `pod` at `path`."""
    command = [interpreter.path, "-I", "-c", _source(environment_builder), path, json.dumps(request.commands)]
    container = {
        "name": "main",
        "image": request.image,
        "command": [
            *(word.replace("$(", "$$(") for word in command),
            _source(pip_shim).replace("$(", "$$("),
            RECORD,
            REAL_PIP,
        ],
        "env": [{"name": name, "value": value} for name, value in request.variables],
    }
    spec = spec_of(pod)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": build_pod_name(key),
            "namespace": namespace_of(pod),
            "annotations": {BUILD_ENVIRONMENT_ANNOTATION: key},
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "activeDeadlineSeconds": _BUILD_SECONDS,
            "containers": [container],
            **({"securityContext": spec["securityContext"]} if spec.get("securityContext") else {}),
        },
    }


class PythonEnvironments:
    """The environments of this machine. `pods` returns the Pods of this machine."""

    def __init__(
        self,
        cluster: EmbeddedCluster,
        settings: AgentSettings,
        isolation: Isolation,
        machine_path: str,
        pods: Callable[[], Iterable[Object]],
    ) -> None:
        self._cluster = cluster
        self._folder = settings.home / "environments"
        self._limit = settings.budgets.environment_megabytes << 20
        self._images = settings.images
        self._is_possible = isolation != "none"
        self._machine_path = machine_path
        self._pods = pods
        self._interpreters: dict[str, Interpreter | None] = {}
        self._failed: dict[str, float] = {}
        self._sizes: dict[str, int] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One Pod at a time finishes a build; the others then find the environment."""
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of the Pods that wait for an environment, by its path."""

    async def ensure(self, pod: Object) -> PodEnvironment | None:
        """Returns the environment that a Pod asks for, or None if it has to start without one. Raises
        EnvironmentNotReady while it is being built, and InvalidAnnotation."""
        if not self._is_possible:
            return None
        key = annotations_of(pod).get(BUILD_ENVIRONMENT_ANNOTATION)
        if key:
            return await self._start_build(pod, key)
        request = read_request(pod)
        if request is None or match_image(request.image, self._images):
            return None  # a mapped image has an environment of its own
        interpreter = await self._interpreter(request.image)
        if interpreter is None:
            return None
        key = request.key(interpreter.version, _created_at(pod))
        path = self._path(namespace_of(pod), key)
        if not path.is_dir():
            async with self._locks[str(path)]:
                if not path.is_dir() and not await self._finish_build(pod, request, key, path, interpreter):
                    return None
        with suppress(OSError):
            os.utime(path)
        return PodEnvironment(str(path), interpreter, description=_describe(request, interpreter))

    def stop_waiting(self, builder: Object) -> set[str]:
        """Returns the uids of the Pods that wait for a build Pod."""
        key = annotations_of(builder).get(BUILD_ENVIRONMENT_ANNOTATION)
        return self._waiting.pop(str(self._path(namespace_of(builder), key)), set()) if key else set()

    def scratch_folders(self, pod: Object) -> list[str]:
        """Returns where a build Pod writes, besides its own folder."""
        key = annotations_of(pod).get(BUILD_ENVIRONMENT_ANNOTATION)
        return [str(self._building(pod, key))] if key else []

    async def sweep(self, namespaces: Collection[str]) -> None:
        """Removes what is left of builds whose Pods are gone, the environments of other namespaces, and the least
        recently used ones if all together are too large."""
        pods = list(self._pods())
        building = {uid_of(pod) for pod in pods if BUILD_ENVIRONMENT_ANNOTATION in annotations_of(pod)}
        in_use = await self._paths_in_use(pods)
        await asyncio.to_thread(self._sweep, frozenset(namespaces), building, in_use)

    async def _start_build(self, pod: Object, key: str) -> PodEnvironment | None:
        interpreter = await self._interpreter(str(spec_of(pod)["containers"][0].get("image") or ""))
        if interpreter is None:
            return None
        source = self._building(pod, key)
        source.mkdir(parents=True, exist_ok=True)
        source.chmod(0o1777)  # the Pod may have any user, and no other user can enter the data directory
        return PodEnvironment(str(self._path(namespace_of(pod), key)), interpreter, str(source))

    async def _finish_build(
        self, pod: Object, request: EnvironmentRequest, key: str, path: Path, interpreter: Interpreter
    ) -> bool:
        """Returns whether the environment is there; False if it cannot be built. Raises EnvironmentNotReady."""
        if self._failed.get(str(path), 0.0) > time.monotonic():
            return False
        name, namespace = build_pod_name(key), namespace_of(pod)
        wait = EnvironmentNotReady(
            f"Pod {name} is building the Python environment: pip install {_words(request)}"[:500]
        )
        try:
            builder = await self._cluster.get(POD, name, namespace)
        except NotFound:
            try:
                builder = await self._cluster.create(build_pod(pod, request, key, str(path), interpreter))
            except AlreadyExists:
                raise wait from None
            except ApiError as error:  # such as a quota
                self._give_up(path, error.message)
                return False
        if not spec_of(builder).get("nodeName"):
            # It is not scheduled: the Pods that wait for it hold their place already, perhaps the last one.
            with suppress(ApiError):
                await self._cluster.bind([(key_of(builder), uid_of(builder), str(spec_of(pod)["nodeName"]))])
        phase = status_of(builder).get("phase")
        if phase not in ("Succeeded", "Failed"):
            self._waiting[str(path)].add(uid_of(pod))
            raise wait
        building = self._building(builder, key)
        if phase == "Succeeded":
            await asyncio.to_thread(_publish, building, path)
        else:
            self._give_up(path, f"Pod {namespace}/{name} failed: {status_of(builder).get('message') or 'see its log'}")
            await asyncio.to_thread(remove_tree, str(building))
        with suppress(NotFound):
            await self._cluster.delete(POD, name, namespace, grace_seconds=0, uid=uid_of(builder))
        if phase == "Succeeded":
            await self._make_room(path)
        return path.is_dir()

    def _give_up(self, path: Path, reason: str) -> None:
        log.warning("the Python environment %s cannot be built; Pods start without it: %s", path, reason)
        self._failed[str(path)] = time.monotonic() + _RETRY_SECONDS

    async def _make_room(self, new: Path) -> None:
        in_use = {*await self._paths_in_use(list(self._pods())), str(new)}
        await asyncio.to_thread(self._evict, in_use)

    async def _paths_in_use(self, pods: Iterable[Object]) -> set[str]:
        used = set[str]()
        for pod in pods:
            if has_ended(pod):
                continue
            with suppress(InvalidAnnotation):
                request = read_request(pod)
                interpreter = await self._interpreter(request.image) if request is not None else None
                if request is not None and interpreter is not None:
                    key = request.key(interpreter.version, _created_at(pod))
                    used.add(str(self._path(namespace_of(pod), key)))
        return used

    def _sweep(self, namespaces: Collection[str], building: Collection[str], in_use: Collection[str]) -> None:
        for namespace in _children(self._folder):
            for place in _children(namespace):
                is_left = place.name.startswith(_REMOVING) or (
                    place.name.startswith(_BUILDING) and place.name.removeprefix(_BUILDING) not in building
                )
                if is_left or (namespace.name not in namespaces and str(place) not in in_use):
                    _discard(place)
            with suppress(OSError):
                if namespace.name not in namespaces:
                    namespace.rmdir()
        self._evict(in_use)

    def _evict(self, in_use: Collection[str]) -> None:
        known = list[tuple[str, int, float]]()
        for namespace in _children(self._folder):
            for place in _children(namespace):
                if not place.name.startswith((_BUILDING, _REMOVING)):
                    if str(place) not in self._sizes:
                        self._sizes[str(place)] = _size(place)
                    with suppress(OSError):
                        known.append((str(place), self._sizes[str(place)], place.stat().st_mtime))
        for path in choose_evictions(known, in_use, self._limit):
            _discard(Path(path))
            self._sizes.pop(path, None)

    async def _interpreter(self, image: str) -> Interpreter | None:
        """The Python of this machine with the version that the image names, or else the one that `python3` is."""
        version = python_version_of(image)
        if version not in self._interpreters:
            self._interpreters[version] = await asyncio.to_thread(find_interpreter, version, self._machine_path)
        return self._interpreters[version]

    def _path(self, namespace: str, key: str) -> Path:
        return self._folder / path_component(namespace) / path_component(key)

    def _building(self, builder: Object, key: str) -> Path:
        return self._path(namespace_of(builder), key).with_name(f"{_BUILDING}{path_component(uid_of(builder))}")


def find_interpreter(version: str, path: str) -> Interpreter | None:
    """Finds a Python of this version in PATH or among pyenv's, or else `python3`. Links and shims are resolved: what is
    returned is the program itself."""
    candidates = list[str | None]()
    if version:
        root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
        candidates = [shutil.which(f"python{version}", path=path)]
        candidates += sorted(map(str, Path(root).glob(f"versions/{version}.*/bin/python{version}")), reverse=True)
    for candidate in (*candidates, shutil.which("python3", path=path)):
        found = _inspect(candidate) if candidate is not None else None
        if found is not None:
            return found
    return None


def _inspect(program: str) -> Interpreter | None:
    """Returns None for a program that does not work or has no venv (Debian packs it apart)."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [program, "-I", "-c", f"import ensurepip, venv; {_PROBE}"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        lines = done.stdout.splitlines()
        if done.returncode == 0 and len(lines) == 2:
            return Interpreter(lines[0], lines[1])
    return None


def _publish(building: Path, path: Path) -> None:
    """Files reach the disk before the name does: an environment that is there is complete, even after a power cut."""
    os.sync()
    with suppress(FileNotFoundError, OSError):
        building.rename(path)


def _discard(place: Path) -> None:
    """The name disappears first, so that no task enters what is being removed."""
    aside = place.with_name(f"{_REMOVING}{place.name}-{time.time_ns()}")
    with suppress(OSError):
        place.rename(aside)
        remove_tree(str(aside))


def _children(folder: Path) -> list[Path]:
    try:
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _size(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(f"{place}/{name}").st_blocks * 512
    return total


def build_pod_name(key: str) -> str:
    return f"python-environment-{key[:16]}"


def _created_at(pod: Object) -> float:
    created = meta(pod).get("creationTimestamp")
    return parse_time(created).timestamp() if created else time.time()


def _describe(request: EnvironmentRequest, interpreter: Interpreter) -> str:
    return f"Python {interpreter.version} with {_words(request)}"[:500]


def _words(request: EnvironmentRequest) -> str:
    parsed = (parse_install(words) or ([], True) for words in request.commands)
    return " ".join(word for requirements, _ in parsed for word in requirements)


def _is_pinned(requirement: str) -> bool:
    """A requirement with a condition rarely applies: kfp has one for Python 3.8."""
    return ";" in requirement or ("==" in requirement and "*" not in requirement)


def _is_list_of_commands(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= _MOST_COMMANDS
        and all(
            isinstance(words, list) and len(words) <= _MOST_WORDS and all(isinstance(word, str) for word in words)
            for words in value
        )
    )


def _source(module: Any) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")
