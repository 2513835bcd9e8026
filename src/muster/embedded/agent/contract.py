"""What the node agent and a Pod's supervisor say to each other.

The agent (in the server) prepares a Pod: it resolves environment, volumes and images, and writes `pod.json` into the
Pod's folder. A supervisor (a process of its own, which outlives the server) runs it to the end and appends what
happens to `journal`, one JSON line per entry. The journal is the truth; the datagram that follows an entry is a hint.

Imported by the supervisor, which must stay small: standard library only.
"""

from __future__ import annotations

from typing import Literal, TypedDict

POD_FILE = "pod.json"
JOURNAL = "journal"
LOCK = "lock"
"""The supervisor holds an exclusive flock on it for life: who can take it knows that there is none."""
CONTROL_SOCKET = "control"


class Mount(TypedDict, total=False):
    type: Literal["bind", "tmpfs", "proc"]
    source: str
    target: str
    readOnly: bool
    size: int  # bytes, tmpfs only


class Probe(TypedDict, total=False):
    kind: Literal["exec", "http", "tcp"]
    command: list[str]
    scheme: str
    host: str
    port: int
    path: str
    headers: list[tuple[str, str]]
    initialDelay: float
    period: float
    timeout: float
    successThreshold: int
    failureThreshold: int
    grace: float | None


class Hook(TypedDict, total=False):
    """postStart or preStop; the handlers of a probe plus sleep."""

    kind: Literal["exec", "http", "tcp", "sleep"]
    command: list[str]
    scheme: str
    host: str
    port: int
    path: str
    headers: list[tuple[str, str]]
    seconds: float


class Engine(TypedDict, total=False):
    """Set when an image engine runs the container: argv is then the engine's command line."""

    exec: list[str]  # prefix of an exec: [podman, exec, NAME]; the supervisor inserts -i / -t where needed after 'exec'
    kill: list[str]  # prefix of a kill: [podman, kill, --signal]; then SIGNAL and the name
    remove: list[str]  # cleans up after the container has ended
    name: str


class PreparedContainer(TypedDict, total=False):
    name: str
    role: Literal["init", "sidecar", "main"]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    rootfs: str  # '' means the machine's own root
    mounts: list[Mount]  # applied in this order, in the container's own mount namespace
    uid: int | None
    gid: int | None
    groups: list[int]
    memoryLimit: int | None
    cpuLimit: float | None  # cores
    logDir: str  # attempt N writes <logDir>/<N>.log
    terminationMessageFile: str  # on the host; bound to its place by `mounts`
    terminationMessageFromLogs: bool
    startupProbe: Probe | None
    livenessProbe: Probe | None
    readinessProbe: Probe | None
    postStart: Hook | None
    preStop: Hook | None
    stopSignal: str
    engine: Engine | None


class PreparedPod(TypedDict, total=False):
    uid: str
    namespace: str
    name: str
    hostname: str
    restartPolicy: Literal["Always", "OnFailure", "Never"]
    grace: float
    deadline: float | None  # epoch seconds at which activeDeadlineSeconds is over
    isolation: Literal["namespaces", "user-namespaces", "none"]
    mounts: list[Mount]  # once per Pod: shared by its containers
    containers: list[PreparedContainer]  # init and sidecar containers in order, then the main ones
    notify: str  # path of the agent's datagram socket; the payload is the Pod's uid
    logFileBytes: int
    logFiles: int
    backoffBase: float  # seconds; doubles per restart up to backoffLimit
    backoffMax: float


class Entry(TypedDict, total=False):
    """A line of the journal. `t` is epoch seconds, `c` a container, `a` its attempt from 0."""

    t: float
    e: Literal[
        "supervised",  # the supervisor has begun: pid
        "started",  # c, a, pid
        "exited",  # c, a, code, signal, reason, message (the termination message)
        "backoff",  # c, a (the coming attempt), until
        "startup",  # c, a: the startup probe has passed
        "ready",  # c, a, ready (false again when a readiness probe fails)
        "unhealthy",  # c, a, probe, message
        "killing",  # c, a, reason, message
        "finished",  # phase, reason, message: nothing will run any more; the last entry
    ]
    c: str
    a: int
    pid: int
    code: int
    signal: int
    reason: str  # Completed | Error | OOMKilled | StartError | DeadlineExceeded ...
    message: str
    until: float
    ready: bool
    probe: str
    phase: Literal["Succeeded", "Failed"]
