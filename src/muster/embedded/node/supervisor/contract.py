"""What the node agent and a Pod's supervisor exchange.

The agent (in the server) prepares a Pod: it resolves environment, volumes and images, and writes `pod.json` into the
Pod's folder. A supervisor (a separate process, which outlives the server) runs it to the end and appends what happens
to `journal`, one JSON line per entry. The journal is the source of truth; the datagram that follows an entry is a hint.

No Pod runs twice, because the supervisor decides, not the process that starts it: it tries to take the lock (and exits
if it cannot), reads the journal, and exits if it says `finished`. A supervisor that finds the journal of one that was
killed continues from there: attempts that were running are `exited` with code 137 and the reason
ContainerStatusUnknown, init containers that exited with 0 are skipped, and the restartPolicy decides about the rest.

The supervisor imports this module and must stay small: standard library only.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

Isolation: TypeAlias = Literal["namespaces", "user-namespaces", "none"]
ContainerRole: TypeAlias = Literal["init", "sidecar", "main"]
RestartPolicy: TypeAlias = Literal["Always", "OnFailure", "Never"]

POD_FILE = "pod.json"
JOURNAL = "journal"
LOCK = JOURNAL
"""The supervisor holds an exclusive flock on it for life. A process that can take it knows that there is no
supervisor."""
CONTROL_SOCKET = "control"
"""A stream socket that exists from before `supervised` until after `finished`. Each connection carries one request, a
JSON line (see ControlRequest), with its descriptors in the same message. Responses are JSON lines (see
ControlResponse)."""


class Mount(TypedDict, total=False):
    """Sources are paths of the machine, whatever is mounted over them in the container. A missing target is created
    where that is harmless: inside a volume, as in Kubernetes, otherwise only in the container's own view. `own` mounts
    a folder of the container's root over an earlier mount that hides it.

    `owners` is `same` if ids of the container are stored as they are, and `folder` if the container's user stands for
    the owner of the folder, and no other id is mapped. Without it, files have the ids of the Pod on this machine."""

    type: Literal["bind", "tmpfs", "own"]
    source: str
    target: str
    readOnly: bool
    partOfRoot: bool  # it stands for a part of the root, and is read-only if the root is
    size: int  # bytes, tmpfs only
    isHome: bool  # tmpfs only: it belongs to the container's root
    owners: Literal["same", "folder"]  # if the Pod has its own ids: how they map to the owners of the files (see below)
    within: str  # the volume that `source` must not leave when it is mounted, even through links


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
    """A postStart or preStop hook: the handlers of a probe, and sleep."""

    kind: Literal["exec", "http", "tcp", "sleep"]
    command: list[str]
    scheme: str
    host: str
    port: int
    path: str
    headers: list[tuple[str, str]]
    seconds: float


class EngineCommands(TypedDict, total=False):
    """Set if an image engine runs the container: argv is then the engine's command line."""

    exec: list[str]  # prefix of an exec: [podman, exec, NAME]; the supervisor inserts -i / -t after 'exec' if needed
    kill: list[str]  # prefix of a kill: [podman, kill, --signal]; SIGNAL and the name follow
    remove: list[str]  # removes the container after it has ended
    copy: list[str]  # prefix of a copy: [podman, cp]; NAME:PATH and the destination follow
    name: str


class ContainerOrder(TypedDict, total=False):
    """How the main containers of a Pod depend on each other. Without it, all run at once until all have ended."""

    leading: list[str]  # the Pod ends when all of these have ended or one has failed; the others are then stopped
    after: dict[str, list[str]]  # container -> those that must succeed before it starts
    retries: int  # of each leading container that fails
    retrySeconds: float  # before each retry


class PreparedContainer(TypedDict, total=False):
    name: str
    role: ContainerRole
    argv: list[str]
    env: dict[str, str]  # complete; with an engine, in addition to the supervisor's own, for the engine's command
    cwd: str
    createsCwd: bool  # whether to create the working directory, in the container's own view
    rootfs: str  # '' means the machine's own root; it is never written to
    rootfsLayer: str  # the folder for what its attempts write over `rootfs`, with one folder per attempt
    missingProgram: str  # the message if a program is missing that the image would have
    readOnlyRoot: bool  # whether the container can write to volumes only
    mounts: list[Mount]  # applied in this order, in the container's own mount namespace
    uid: int | None
    gid: int | None
    groups: list[int]
    allowsPrivilegeEscalation: bool  # whether setuid programs work
    memoryLimit: int | None
    cpuLimit: float | None  # cores
    logDir: (
        str  # attempt N writes <logDir>/<N>.log; folder and file are created with the first line, as that is expensive
    )
    terminationMessageFile: str  # on the host; `mounts` binds it into the container
    terminationMessageFromLogs: bool
    startupProbe: Probe | None
    livenessProbe: Probe | None
    readinessProbe: Probe | None
    postStart: Hook | None
    preStop: Hook | None
    stopSignal: str
    stdin: bool  # whether it has a standard input that stays open; otherwise it reads an end of file
    stdinOnce: bool  # whether the standard input is closed when the first attached client has left
    tty: bool  # whether its standard streams are a terminal
    engine: EngineCommands | None
    devices: dict[str, str]  # the variables of its GPUs; the agent reads them here after a restart
    keep: list[str]  # paths to copy out of the container when it has ended, before that is recorded
    keepFolder: str  # the copy of keep[N] is <keepFolder>/N
    private: list[str]  # paths that the container may create or write without any other process seeing it
    privateFolder: str  # where these paths are stored


class PodLimits(TypedDict, total=False):
    """Limits that no field of a Pod sets. They come from the budgets in the settings."""

    outputFiles: int
    outputBytes: int
    openFiles: int  # of one process
    processes: int  # and threads
    processesSetting: str  # the setting that this number comes from
    inOwnGroup: bool  # whether processes are limited by a control group of the Pod, which takes time to set up


class PreparedPod(TypedDict, total=False):
    uid: str
    namespace: str
    name: str
    hostname: str
    address: str  # podIP; the agent reads it here after a restart, the supervisor does not need it
    restartPolicy: RestartPolicy
    grace: float
    restricted: bool  # whether its namespace belongs to people who are not admins
    firstId: int  # the Pod has a range of ids of its own; this is what its user 0 is on the machine
    deadline: float | None  # when activeDeadlineSeconds is over, in epoch seconds
    isolation: Isolation  # 'none' if an engine runs the containers
    mounts: list[
        Mount
    ]  # once per Pod, shared by its containers; containers bind a tmpfs that is inside the Pod's folder
    arrangement: ContainerOrder | None
    containers: list[PreparedContainer]  # init and sidecar containers in order, then the main ones
    notify: str  # path of the agent's datagram socket; the datagram is the Pod's uid, at its end with ` finished`
    logFileBytes: int
    logFiles: int
    logLinks: dict[str, str]  # links beside the folders of the containers' logs, created with the first line
    limits: PodLimits
    keepFailedSeconds: float  # how long the files of a Pod that failed are kept, so that commands can be run among them
    backoffBase: float  # seconds; doubles with each restart up to backoffMax
    backoffMax: float


class ControlRequest(TypedDict, total=False):
    op: Literal["exec", "attach", "resize", "stop"]
    # exec: descriptors [stdin, stdout, stderr], or the terminal's slave three times. Closing the connection kills the
    # process.
    # attach: descriptors [stdin, stdout, stderr], to which the container is connected. Closing the connection detaches.
    # Resize requests may follow on the same connection.
    container: str
    stdin: bool  # attach: whether to read from the first descriptor
    rows: int
    columns: int
    argv: list[str]
    env: dict[str, str]  # in addition to the container's
    cwd: str  # '' means the container's
    tty: bool
    # stop: ends the Pod. A second request may shorten the grace period. 'finished' contains the reason, if there is
    # one.
    grace: float
    reason: str
    message: str


class ControlResponse(TypedDict, total=False):
    """exec: {pid}, then {code}. attach: {}, then {code: 0} when it ends. stop: {} at once; the journal reports the
    rest. {error} if the request failed."""

    pid: int
    code: int
    error: str


class JournalEntry(TypedDict, total=False):
    """A line of the journal. `t` is epoch seconds, `c` a container, `a` its attempt, starting at 0."""

    t: float
    e: Literal[
        "supervised",  # the supervisor has started: pid
        "starting",  # c, a: from now on the attempt may have run; 'started' or 'exited' follows
        "started",  # c, a, pid (in the machine's process namespace)
        "exited",  # c, a, code, signal, reason, message (the termination message)
        "backoff",  # c, a (the next attempt), until
        "startup",  # c, a: the startup probe has passed
        "ready",  # c, a, ready (false again when a readiness probe fails); also without a readiness probe
        "unhealthy",  # c, a, probe, message
        "killing",  # c, a, reason, message
        "finished",  # phase, reason, message: the last entry; nothing runs any more
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
