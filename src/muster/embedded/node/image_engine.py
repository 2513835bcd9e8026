"""Runs containers with podman or docker: finds the options that work on this machine, builds the command lines and
pulls images."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import re
import shutil
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from muster.embedded.node.environment import expand_all
from muster.embedded.node.hosts import hostname_of
from muster.embedded.node.pod_context import ContainerError, NotReady
from muster.embedded.node.pod_status import containers_of, go_duration
from muster.embedded.node.supervisor.contract import Mount, PreparedContainer
from muster.kube.events import EventRecorder
from muster.kube.objects import Object, spec_of, uid_of

EngineName = Literal["podman", "docker"]

ENGINE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""The variable with the GPUs that an engine has to pass to a container."""
CHECK_IMAGE = "localhost/muster-check:1"

_CHECK_SECONDS = 20.0
"""The time limit of a check. A slower engine most likely does not respond at all."""
_TIMED_OUT = 124
_PULL_BACKOFF_BASE, _PULL_BACKOFF_MAX = 10.0, 300.0
_ULIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
_PODMAN_GLOBALS: tuple[tuple[str, ...], ...] = (
    (),
    ("--cgroup-manager=cgroupfs",),
    ("--cgroup-manager=cgroupfs", "--runtime", "runc"),
)


@dataclass(frozen=True, slots=True)
class ImageEngine:
    """A working engine, with the options it needs here."""

    name: EngineName
    program: str
    globals: tuple[str, ...] = ()
    run_options: tuple[str, ...] = ()
    limits: bool = True
    """Whether memory and CPU limits can be set."""

    def command(self, *words: str) -> list[str]:
        return [self.program, *self.globals, *words]


@dataclass(frozen=True, slots=True)
class EngineProblem:
    """Why an engine cannot be used."""

    name: EngineName
    message: str


async def find_engine(name: EngineName) -> ImageEngine | EngineProblem:
    """Runs an image that contains only a program that exits, until the options are found with which it works. Needs no
    registry."""
    program = shutil.which(name)
    if program is None:
        return EngineProblem(name, f"{name} is not installed (Debian: apt-get install {_package(name)})")
    if platform.machine() not in _EXIT_PROGRAMS:
        return ImageEngine(name, program)
    problem = await _make_check_image(program)
    if problem:
        return EngineProblem(name, f"{name} does not work here: {problem}{_advice(problem)}")
    last = ""
    for globals_ in _PODMAN_GLOBALS if name == "podman" else ((),):
        for options in ((), _ULIMITS):
            for limits in (True, False):
                engine = ImageEngine(name, program, globals_, options, limits)
                code, output = await _run(_check_command(engine), timeout=_CHECK_SECONDS)
                if code == 0:
                    return engine
                last = output
                if code == _TIMED_OUT:
                    return EngineProblem(name, f"{name} does not work here: {last}")
    return EngineProblem(name, f"{name} is installed but cannot run a container: {_last_line(last)}")


def prepare_engine_container(
    engine: ImageEngine,
    pod: Object,
    spec: Mapping[str, Any],
    prepared: PreparedContainer,
    mounts: Sequence[Mount],
    folder: str,
    devices: str = "",
    processes: int = 0,
    *,
    restricted: bool = False,
) -> None:
    """Sets what the supervisor runs. Variables are passed in a file, so that they do not show in a process list. Such a
    file cannot contain line breaks, so variables with one are on the command line: in the engine's own environment, an
    LD_PRELOAD or DOCKER_HOST of the Pod would change what the engine does. `devices` are the GPUs of the container;
    `restricted` means that its Pod belongs to people who are not admins."""
    name = f"muster-{uid_of(pod)}-{prepared['name']}"
    variables = prepared["env"]
    _check_values(spec, variables, mounts, prepared["name"])
    env_file = f"{folder}/env-{prepared['name']}"
    plain = {k: v for k, v in variables.items() if not _has_line_break(v)}
    long = {k: v for k, v in variables.items() if _has_line_break(v)}
    descriptor = os.open(env_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{k}={v}\n" for k, v in plain.items())
    prepared["argv"] = run_command(
        engine,
        name,
        spec,
        prepared,
        mounts,
        env_file,
        long,
        hostname_of(pod),
        devices,
        processes,
        restricted=restricted,
    )
    prepared["env"] = engine_environment()
    prepared["cwd"], prepared["rootfs"], prepared["mounts"] = "/", "", []
    prepared["uid"] = prepared["gid"] = None
    prepared["groups"] = []
    if engine.limits:
        prepared["memoryLimit"] = prepared["cpuLimit"] = None  # the engine limits them
    prepared["engine"] = {
        "name": name,
        "exec": engine.command("exec", name),
        "kill": engine.command("kill", "--signal"),
        "remove": engine.command("rm", "-f", name),
        "copy": engine.command("cp"),
    }


def run_command(
    engine: ImageEngine, name: str, spec: Mapping[str, Any], prepared: PreparedContainer, mounts: Sequence[Mount],
    env_file: str, variables: Mapping[str, str], hostname: str, devices: str = "", processes: int = 0, *,
    restricted: bool = False,
) -> list[str]:  # fmt: skip
    """`variables` are those that cannot be in the file. Every value of the Pod is a word of its own, which the engine
    takes as the value of the option before it, or comes after `--`."""
    # Output files can only be copied while the container exists. The supervisor removes it in any case.
    options = [] if prepared.get("keep") else ["--rm"]
    options += ["--name", name, "--network", "host", "--hostname", hostname, "--log-driver", "none"]
    options += ["--pull", "never", "--env-file", env_file, *engine.run_options]
    for variable, value in sorted(variables.items()):
        options += ["--env", f"{variable}={value}"]
    for mount in mounts:
        options += ["--mount", _mount_option(mount)]
    options += [option for option, field in (("--interactive", "stdin"), ("--tty", "tty")) if spec.get(field)]
    if spec.get("workingDir"):
        options += ["--workdir", spec["workingDir"]]
    options += _user_options(prepared)
    if engine.limits and prepared.get("memoryLimit"):
        options += ["--memory", str(prepared["memoryLimit"])]
    if engine.limits and prepared.get("cpuLimit"):
        options += ["--cpus", str(prepared["cpuLimit"])]
    options += ["--ulimit", "core=0", *(["--pids-limit", str(processes)] if engine.limits and processes else [])]
    options += _security_options(spec.get("securityContext") or {}, restricted=restricted)
    options += _device_options(engine.name, devices)
    command = expand_all(spec.get("command") or (), prepared["env"])
    args = expand_all(spec.get("args") or (), prepared["env"])
    if command:
        # With --entrypoint the engine ignores the image's CMD, as Kubernetes requires.
        options += ["--entrypoint", command[0]]
    return engine.command("run", *options, "--", image_reference(str(spec.get("image") or "")), *command[1:], *args)


class PullError(Exception):
    """The image is missing and could not be pulled."""


async def image_present(engine: ImageEngine, image: str) -> bool:
    code, _ = await _run(engine.command("image", "inspect", "--format", "{{.Id}}", "--", image_reference(image)))
    return code == 0


async def pull(engine: ImageEngine, image: str) -> None:
    code, output = await _run(engine.command("pull", "--quiet", "--", image_reference(image)), timeout=3600.0)
    if code != 0:
        raise PullError(f'failed to pull image "{image}": {_last_line(output)}')


def pull_policy(container: Mapping[str, Any]) -> str:
    """Returns the policy with Kubernetes' default: Always for `latest`, otherwise IfNotPresent."""
    if container.get("imagePullPolicy"):
        return str(container["imagePullPolicy"])
    image = image_reference(str(container.get("image") or ""))
    return "Always" if image.endswith(":latest") else "IfNotPresent"


class ImageNotReady(NotReady):
    """The image is missing and could not be pulled. It is tried again, with increasing delays."""

    def __init__(self, reason: str, message: str, container: str, retry_seconds: float | None) -> None:
        super().__init__(message, container)
        self.reason = reason
        self.retry_seconds = retry_seconds


class ImagePulls:
    """The images of one Pod: which ones are present, and how long to wait after a failure."""

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._failures = 0
        self._not_before = 0.0
        self._message = ""

    async def ensure(self, engine: ImageEngine, pod: Object, recorder: EventRecorder) -> None:
        """Pulls the images that are missing. Raises ImageNotReady."""
        for container, _ in containers_of(spec_of(pod)):
            image, name = str(container.get("image") or ""), str(container.get("name") or "")
            if image in self._there:
                continue
            if problem := image_problem(image):
                raise ImageNotReady("InvalidImageName", f'Failed to pull image "{image}": {problem}', name, None)
            policy = pull_policy(container)
            if policy != "Always" and await image_present(engine, image):
                recorder.event(pod, "Normal", "Pulled", f'Container image "{image}" already present on machine')
            elif policy == "Never":
                message = f'Container image "{image}" is not present with pull policy of Never'
                raise ImageNotReady("ErrImageNeverPull", message, name, 30.0)
            else:
                await self._pull(engine, pod, image, name, recorder)
            self._there.add(image)

    async def _pull(
        self, engine: ImageEngine, pod: Object, image: str, container: str, recorder: EventRecorder
    ) -> None:
        now = time.time()
        if now < self._not_before:
            left = self._not_before - now
            message = f'Back-off pulling image "{image}": {self._message}'
            raise ImageNotReady("ImagePullBackOff", message, container, left)
        recorder.event(pod, "Normal", "Pulling", f'Pulling image "{image}"')
        try:
            await pull(engine, image)
        except PullError as error:
            delay = min(_PULL_BACKOFF_BASE * 2.0**self._failures, _PULL_BACKOFF_MAX)
            self._failures += 1
            self._not_before = time.time() + delay
            self._message = str(error)
            raise ImageNotReady("ErrImagePull", str(error), container, min(1.0, delay)) from None
        self._failures = 0
        took = go_duration(time.time() - now)
        recorder.event(pod, "Normal", "Pulled", f'Successfully pulled image "{image}" in {took}')


def image_reference(image: str) -> str:
    """Returns the name with its tag. Engines take a name without one also for the beginning of an image's id, so that
    `a` would run any image of this machine: one of another user's module, or of a registry that they log in to."""
    has_tag = ":" in image.rpartition("/")[2] or "@" in image
    return image if has_tag else f"{image}:latest"


def image_problem(image: str) -> str:
    """Returns why this is not the name of an image in a registry or of a local one, or ''. podman reads `dir:PATH` and
    the like from files of this machine."""
    if len(image) > _LONGEST_IMAGE or not _IMAGE.fullmatch(image):
        return "couldn't parse image name: invalid reference format"
    if image.startswith("sha256:"):
        return "it is the id of an image; use the name of an image"
    transport, colon, _ = image.partition(":")
    if colon and transport in _TRANSPORTS:
        return f'"{transport}:" names files of this machine; use the name of an image'
    return ""


_LONGEST_IMAGE = 1024
_IMAGE = re.compile(
    r"(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?"  # host and port
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*"
    r"(?::\w[\w.-]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
"""The grammar of image references."""
_TRANSPORTS = frozenset(
    ("atomic", "containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "oci", "oci-archive",
     "ostree", "sif", "tarball")
)  # fmt: skip
_RESTRICTED_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID")
_VARIABLE = re.compile(r"[^=\s*#\0-\x1f\x7f][^=\s*\0-\x1f\x7f]*")
"""podman copies the engine's own variables for a name that ends with `*`."""
_CONTROL = re.compile(r"[\0-\x1f\x7f]")


def _check_values(
    spec: Mapping[str, Any], variables: Mapping[str, str], mounts: Sequence[Mount], container: str
) -> None:
    """Refuses what no engine can take, or what two of them read differently. Raises ContainerError."""
    if problem := image_problem(str(spec.get("image") or "")):
        raise ContainerError(f"image: {problem}", container)
    for mount in mounts:
        for path in (mount["source"], mount["target"]):
            if not path.startswith("/") or _CONTROL.search(path):
                raise ContainerError(f"mountPath {path!r}: an image engine cannot mount at a path like this", container)
    if _CONTROL.search(str(spec.get("workingDir") or "")):
        raise ContainerError(f"workingDir {spec['workingDir']!r} contains a control character", container)
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise ContainerError(f"env: an image engine cannot set a variable with the name {name!r}", container)
        if "\0" in value:
            raise ContainerError(f"env: the value of {name} contains a NUL", container)


def _has_line_break(value: str) -> bool:
    return "\n" in value or "\r" in value


def _mount_option(mount: Mount) -> str:
    """The engines read it as one CSV record. Every field is quoted, so that no character ends it."""
    fields = ["type=bind", f"src={mount['source']}", f"dst={mount['target']}"]
    if mount.get("readOnly"):
        fields.append("readonly")
    return ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def _user_options(prepared: PreparedContainer) -> list[str]:
    options: list[str] = []
    uid, gid = prepared.get("uid"), prepared.get("gid")
    if uid is not None or gid is not None:
        options += ["--user", f"{uid if uid is not None else 0}" + (f":{gid}" if gid is not None else "")]
    for group in prepared.get("groups") or ():
        options += ["--group-add", str(group)]
    return options


def _security_options(context: Mapping[str, Any], *, restricted: bool) -> list[str]:
    """Containers share the machine's network. With the engine's default capabilities, root in one could read what
    others send there, so a restricted one has only those that set owners and modes of files."""
    options: list[str] = []
    if context.get("privileged") and not restricted:
        options.append("--privileged")
    if context.get("readOnlyRootFilesystem"):
        options.append("--read-only")
    capabilities = context.get("capabilities") or {}
    if restricted:
        options += ["--security-opt", "no-new-privileges", "--cap-drop", "ALL"]
        dropped_ones = {str(name).upper().removeprefix("CAP_") for name in capabilities.get("drop") or ()}
        kept = () if "ALL" in dropped_ones else _RESTRICTED_CAPABILITIES
        return [*options, *(word for name in kept if name not in dropped_ones for word in ("--cap-add", name))]
    for added in capabilities.get("add") or ():
        options += ["--cap-add", added]
    for dropped in capabilities.get("drop") or ():
        options += ["--cap-drop", dropped]
    return options


def _device_options(name: EngineName, devices: str) -> list[str]:
    """`devices` are the indices that the agent has allocated, never a variable of the Pod."""
    if not devices:
        return []
    if name == "docker":
        return ["--gpus", f'"device={devices}"']
    return [word for device in devices.split(",") for word in ("--device", f"nvidia.com/gpu={device}")]


_ENGINE_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR",
    "XDG_RUNTIME_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
    "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "REGISTRY_AUTH_FILE",
    "STORAGE_DRIVER", "STORAGE_OPTS",
)  # fmt: skip
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def engine_environment(*, pulls: bool = False) -> dict[str, str]:
    """Returns the variables of an engine's command: those by which it finds its own files, and nothing of the server's.
    podman passes proxies, which may contain a password, to its containers, so only pulls get them."""
    proxies = [name for upper in _PROXY_VARIABLES for name in (upper, upper.lower())] if pulls else []
    return {name: os.environ[name] for name in (*_ENGINE_VARIABLES, *proxies) if name in os.environ}


def _package(name: EngineName) -> str:
    return "podman" if name == "podman" else "docker.io"


def _check_command(engine: ImageEngine) -> list[str]:
    limits = ["--memory", "64m", "--cpus", "1", "--pids-limit", "100"] if engine.limits else []
    options = ["--rm", "--network", "host", "--hostname", "check", "--log-driver", "none", "--pull", "never"]
    return engine.command("run", *options, *engine.run_options, *limits, "--", CHECK_IMAGE, "/exit")


async def _make_check_image(program: str) -> str:
    code, output = await _run([program, "image", "inspect", CHECK_IMAGE], timeout=_CHECK_SECONDS)
    if code in (0, _TIMED_OUT):
        return output if code else ""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        content = bytes.fromhex(_EXIT_PROGRAMS[platform.machine()])
        entry = tarfile.TarInfo("exit")
        entry.size, entry.mode = len(content), 0o755
        tar.addfile(entry, io.BytesIO(content))
    code, output = await _run([program, "import", "-", CHECK_IMAGE], archive.getvalue(), _CHECK_SECONDS)
    return "" if code == 0 else _last_line(output)


async def _run(command: Sequence[str], stdin: bytes = b"", timeout: float = 60.0) -> tuple[int, str]:
    with tempfile.TemporaryFile() as file:  # not a pipe, which would break if the program exits without reading it
        file.write(stdin)
        file.seek(0)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=file,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            env=engine_environment(pulls=True),
        )
    try:
        async with asyncio.timeout(timeout):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return _TIMED_OUT, f"`{' '.join(command[:3])}` did not respond within {timeout:.0f} s"
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    return process.returncode or 0, output.decode("utf-8", "replace")


def _advice(problem: str) -> str:
    """Returns what to do about a common problem, or ''."""
    known = [advice for words, advice in _ADVICE.items() if words in problem.lower()]
    return f"{'' if problem.endswith(('.', '?')) else '.'} {known[0]}" if known else ""


_ADVICE = {
    "cannot connect to the docker daemon": "Start it with `systemctl start docker`, or open Docker Desktop.",
    "permission denied": "Add yourself to the group with `sudo usermod -aG docker $USER`, and log in again.",
}


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


# The smallest program that exits with 0: an ELF header, one segment and three or four instructions.
_EXIT_PROGRAMS = {
    "x86_64": (
        "7f454c4602010100000000000000000002003e000100000078004000000000004000000000000000"
        "00000000000000000000000040003800010000000000000001000000050000000000000000000000"
        "00004000000000000000400000000000810000000000000081000000000000000010000000000000"
        "31ffb83c0000000f05"
    ),
    "aarch64": (
        "7f454c460201010000000000000000000200b7000100000078004000000000004000000000000000"
        "00000000000000000000000040003800010000000000000001000000050000000000000000000000"
        "00004000000000000000400000000000840000000000000084000000000000000010000000000000"
        "000080d2a80b80d2010000d4"
    ),
}
