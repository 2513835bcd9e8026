"""What the node agent and a Pod's supervisor say to each other.

The agent (in the server) prepares a Pod: it resolves environment, volumes and images, and writes `pod.json` into the
Pod's folder. A supervisor (a process of its own, which outlives the server) runs it to the end and appends what
happens to `journal`, one JSON line per entry. The journal is the truth; the datagram that follows an entry is a hint.

No Pod runs twice, because the supervisor decides, not who starts it: it takes the lock without waiting (and ends at
once if it cannot), reads the journal, and ends if it says `finished`. A supervisor that finds a journal of one that
was
killed goes on from there: before it is started, the agent has taken the lock itself and written an `exited` (code 137,
reason ContainerStatusUnknown) for every attempt that was running, so the new one only has to count the attempts on,
skip init containers that have exited with 0, and let the restartPolicy decide about the rest.

Imported by the supervisor, which must stay small: standard library only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

Isolation: TypeAlias = Literal["namespaces", "user-namespaces", "none"]
ContainerRole: TypeAlias = Literal["init", "sidecar", "main"]
RestartPolicy: TypeAlias = Literal["Always", "OnFailure", "Never"]

POD_FILE = "pod.json"
JOURNAL = "journal"
LOCK = JOURNAL
"""The supervisor holds an exclusive flock on it for life: who can take it knows that there is none."""
CONTROL_SOCKET = "control"
"""A stream socket that exists from before `supervised` until after `finished`. One request per connection, a JSON line
(see Request), with the descriptors that belong to it in the same message; answers are JSON lines (see Answer)."""


class Mount(TypedDict, total=False):
    """Sources are places of the machine, whatever is mounted over them in the container. A target that is missing is
    made where it does no harm: inside a volume as Kubernetes does, elsewhere only in the container's own view."""

    type: Literal["bind", "tmpfs", "proc"]
    source: str
    target: str
    readOnly: bool
    size: int  # bytes, tmpfs only
    within: str  # the volume that `source` must not lead out of when it is mounted, whoever plants links there


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


class EngineCommands(TypedDict, total=False):
    """Set when an image engine runs the container: argv is then the engine's command line."""

    exec: list[str]  # prefix of an exec: [podman, exec, NAME]; the supervisor inserts -i / -t where needed after 'exec'
    kill: list[str]  # prefix of a kill: [podman, kill, --signal]; then SIGNAL and the name
    remove: list[str]  # cleans up after the container has ended
    copy: list[str]  # prefix of a copy out of it: [podman, cp]; then NAME:PATH and the destination
    name: str


class ContainerOrder(TypedDict, total=False):
    """What the main containers of a Pod are to each other. Without one, all run at once and until all have ended."""

    leading: list[str]  # the Pod ends when all of these have, or one has failed; the others are then stopped
    after: dict[str, list[str]]  # container -> those that have to succeed before it starts
    retries: int  # of each leading one that fails
    retrySeconds: float  # before each


class PreparedContainer(TypedDict, total=False):
    name: str
    role: ContainerRole
    argv: list[str]
    env: dict[str, str]  # all of it; with an engine: on top of the supervisor's own, for the engine's command
    cwd: str
    rootfs: str  # '' means the machine's own root; never written to
    rootfsLayer: str  # the folder of what its attempts write over `rootfs`, one folder per attempt
    missingProgram: str  # what to say if a program is missing that the image would have
    mounts: list[Mount]  # applied in this order, in the container's own mount namespace
    uid: int | None
    gid: int | None
    groups: list[int]
    memoryLimit: int | None
    cpuLimit: float | None  # cores
    logDir: str  # attempt N writes <logDir>/<N>.log; folder and file are made with the first line: new files are dear
    terminationMessageFile: str  # on the host; bound to its place by `mounts`
    terminationMessageFromLogs: bool
    startupProbe: Probe | None
    livenessProbe: Probe | None
    readinessProbe: Probe | None
    postStart: Hook | None
    preStop: Hook | None
    stopSignal: str
    engine: EngineCommands | None
    keep: list[str]  # paths to copy out of its view when it has ended, before that is noted
    keepFolder: str  # where to: the copy of keep[N] is <keepFolder>/N
    private: list[str]  # paths that it may write, or make, without anybody else seeing it
    privateFolder: str  # where the machine keeps what it writes there


class PreparedPod(TypedDict, total=False):
    uid: str
    namespace: str
    name: str
    hostname: str
    address: str  # podIP; the supervisor has no need of it, the agent finds it here after a restart
    restartPolicy: RestartPolicy
    grace: float
    deadline: float | None  # epoch seconds at which activeDeadlineSeconds is over
    isolation: Isolation  # 'none' where an engine runs the containers
    mounts: list[Mount]  # once per Pod: shared by its containers; a tmpfs inside the Pod's folder is there to be bound
    arrangement: ContainerOrder | None
    containers: list[PreparedContainer]  # init and sidecar containers in order, then the main ones
    notify: str  # path of the agent's datagram socket; the payload is the Pod's uid
    logFileBytes: int
    logFiles: int
    backoffBase: float  # seconds; doubles per restart up to backoffLimit
    backoffMax: float


class ControlRequest(TypedDict, total=False):
    op: Literal["exec", "stop"]
    # exec: descriptors [stdin, stdout, stderr], or the terminal's slave three times. Closing the connection kills it.
    container: str
    argv: list[str]
    env: dict[str, str]  # on top of the container's
    cwd: str  # '' means the container's
    tty: bool
    # stop: ends the Pod. A second one may shorten the grace. 'finished' has the reason, if there is one.
    grace: float
    reason: str
    message: str


class ControlResponse(TypedDict, total=False):
    """exec: {pid}, then {code}. stop: {} at once; the journal tells the rest. {error} where it could not be done."""

    pid: int
    code: int
    error: str


class JournalEntry(TypedDict, total=False):
    """A line of the journal. `t` is epoch seconds, `c` a container, `a` its attempt from 0.

    A supervisor that is started for a Pod that has a journal goes on from there: what was running when the last one
    was killed is then `exited` with code 137 and the reason ContainerStatusUnknown."""

    t: float
    e: Literal[
        "supervised",  # the supervisor has begun: pid
        "starting",  # c, a: from here on the attempt may have run; 'started' or 'exited' follows
        "started",  # c, a, pid (as the machine numbers it)
        "exited",  # c, a, code, signal, reason, message (the termination message)
        "backoff",  # c, a (the coming attempt), until
        "startup",  # c, a: the startup probe has passed
        "ready",  # c, a, ready (false again when a readiness probe fails); also without a readiness probe
        "unhealthy",  # c, a, probe, message
        "killing",  # c, a, reason, message
        "finished",  # phase, reason, message: nothing will run any more; the last entry
    ]
    c: str
    a: int
    pid: int
    code: int
    signal: int
    reason: str  # Completed | Error | OOMKilled | StartError | ContainerStatusUnknown | DeadlineExceeded ...
    message: str
    until: float
    ready: bool
    probe: str
    phase: Literal["Succeeded", "Failed"]
