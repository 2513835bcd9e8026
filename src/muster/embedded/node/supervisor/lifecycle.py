"""Decides what to start, stop and restart next in a Pod. Pure.

The supervisor carries out the actions that `decide` returns and records each with `apply_action`. It records what
happens by itself (an exit, a passed startup probe, a request to stop) in the state, and calls `decide` again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from muster.embedded.node.supervisor.contract import ContainerRole, RestartPolicy

DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class Start(NamedTuple):
    container: str
    attempt: int


class BackOff(NamedTuple):
    """The container waits before its next attempt."""

    container: str
    attempt: int
    until: float


class Stop(NamedTuple):
    """Asks the container to end, and kills it at `until`. Returned again if that becomes earlier."""

    container: str
    until: float


class EndPod(NamedTuple):
    """Starts nothing more and stops what runs. With a reason, the Pod fails regardless of its containers."""

    grace: float
    reason: str = ""
    message: str = ""


class Finish(NamedTuple):
    phase: Literal["Succeeded", "Failed"]
    reason: str = ""
    message: str = ""


Action: TypeAlias = Start | BackOff | Stop | EndPod | Finish


class ContainerState:
    """The state of a container. While it waits, `attempt` is the next one, otherwise the current or last one."""

    __slots__ = (
        "attempt", "code", "ended", "name", "passed", "phase", "restarts", "role", "started", "stopped", "until",
    )  # fmt: skip

    def __init__(self, name: str, role: ContainerRole) -> None:
        self.name = name
        self.role = role
        self.phase: Literal["waiting", "running", "stopping", "exited"] = "waiting"
        self.attempt = 0
        self.restarts = 0
        """Consecutive restarts, without a long run in between."""
        self.until = 0.0
        """Waiting: the earliest start. Stopping: when it is killed."""
        self.started = self.ended = 0.0
        self.code = 0
        self.passed = False
        """A sidecar that has been up once: the containers after it need not wait any more."""
        self.stopped = False
        """Whether it was asked to end."""

    @property
    def is_active(self) -> bool:
        return self.phase in ("running", "stopping")

    @property
    def has_succeeded(self) -> bool:
        return self.phase == "exited" and self.code == 0


class StartOrder(NamedTuple):
    """The order of main containers. The Pod ends when all `leading` ones have ended, or one of them has failed for
    good."""

    leading: frozenset[str]
    after: Mapping[str, Sequence[str]] = {}
    """Container -> those that must succeed before it starts."""
    retries: int = 0
    retry_seconds: float = 0.0


class PodState:
    """`containers`: init containers and sidecars in their order, then the main ones."""

    __slots__ = (
        "backoff_base", "backoff_max", "containers", "deadline", "ending", "grace", "kill_at", "order", "policy",
    )  # fmt: skip

    def __init__(
        self,
        containers: Iterable[ContainerState],
        policy: RestartPolicy = "Always",
        *,
        grace: float = 30.0,
        deadline: float | None = None,
        backoff_base: float = 10.0,
        backoff_max: float = 300.0,
        order: StartOrder | None = None,
    ) -> None:
        self.containers = list(containers)
        self.order = order
        self.policy = policy
        self.grace = grace
        self.deadline = deadline
        self.backoff_base, self.backoff_max = backoff_base, backoff_max
        self.ending: EndPod | None = None
        self.kill_at = 0.0

    def __getitem__(self, name: str) -> ContainerState:
        return next(container for container in self.containers if container.name == name)


def decide(pod: PodState, now: float) -> list[Action]:
    """Returns what to do now. Call it again after `apply_action`: there may be more."""
    if pod.ending is not None:
        return _end_pod(pod, pod.ending)
    if pod.deadline is not None and now >= pod.deadline:
        return [EndPod(pod.grace, "DeadlineExceeded", DEADLINE_MESSAGE)]
    actions: list[Action] = []
    for container in pod.containers:
        if container.role == "main":
            break
        if container.role == "init" and container.has_succeeded:
            continue
        if container.role == "init" and container.phase == "exited" and not _should_restart(pod, container):
            return [EndPod(pod.grace)]
        actions += _start_or_restart(pod, container, now)
        if container.role == "init" or not container.passed:
            return actions
    mains = [container for container in pod.containers if container.role == "main"]
    if _is_done(pod, mains):
        return [EndPod(pod.grace)]
    for container in mains:
        if pod.order is None or _dependencies_succeeded(pod, pod.order.after.get(container.name) or ()):
            actions += _start_or_restart(pod, container, now)
    return actions


def apply_action(pod: PodState, action: Action, now: float) -> None:
    """Records that an action is carried out."""
    if isinstance(action, EndPod):
        # The first reason is kept. A later one can only shorten the grace period.
        pod.kill_at = now + action.grace if pod.ending is None else min(now + action.grace, pod.kill_at)
        pod.ending = pod.ending or action
        return
    if isinstance(action, Finish):
        return
    container = pod[action.container]
    if isinstance(action, Start):
        if container.attempt or container.phase == "exited":
            container.restarts = _consecutive_restarts(pod, container) + 1
        container.phase, container.attempt, container.started, container.until = "running", action.attempt, now, 0.0
    elif isinstance(action, Stop):
        container.phase, container.until, container.stopped = "stopping", action.until, True
    else:
        container.phase, container.attempt, container.until = "waiting", action.attempt, action.until


def record_exit(pod: PodState, name: str, code: int, now: float) -> None:
    """Records that the current attempt of a container has ended."""
    container = pod[name]
    container.phase, container.code, container.ended = "exited", code, now


def next_wakeup(pod: PodState) -> float | None:
    """Returns when time alone may change the result of `decide`."""
    times = [container.until for container in pod.containers if container.phase == "waiting" and container.until]
    if pod.deadline is not None:
        times.append(pod.deadline)
    return min(times, default=None) if pod.ending is None else None


def _is_done(pod: PodState, mains: list[ContainerState]) -> bool:
    if pod.order is None:
        return all(container.phase == "exited" and not _should_restart(pod, container) for container in mains)
    over = [
        container for container in _leading(pod) if container.phase == "exited" and not _should_restart(pod, container)
    ]
    return len(over) == len(pod.order.leading) or any(container.code for container in over)


def _leading(pod: PodState) -> list[ContainerState]:
    names = pod.order.leading if pod.order is not None else ()
    return [container for container in pod.containers if container.name in names]


def _dependencies_succeeded(pod: PodState, awaited: Iterable[str]) -> bool:
    return all(pod[name].has_succeeded for name in awaited)


def _end_pod(pod: PodState, ending: EndPod) -> list[Action]:
    workers = [container for container in pod.containers if container.role != "sidecar" and container.is_active]
    if workers:
        return _stop(workers, pod.kill_at)
    # Sidecars serve the other containers until the end, the first one even the other sidecars.
    for container in reversed(pod.containers):
        if container.is_active:
            return _stop([container], pod.kill_at)
    if ending.reason:
        return [Finish("Failed", ending.reason, ending.message)]
    workers = [container for container in pod.containers if container.role != "sidecar"]
    if pod.order is not None:
        # Containers that serve the leading ones are stopped after them. That is not a failure.
        workers = [c for c in workers if c.role == "init" or c.name in pod.order.leading or not c.stopped]
    return [Finish("Succeeded" if all(container.has_succeeded for container in workers) else "Failed")]


def _stop(containers: list[ContainerState], until: float) -> list[Action]:
    return [Stop(c.name, until) for c in containers if c.phase == "running" or c.until > until]


def _start_or_restart(pod: PodState, container: ContainerState, now: float) -> list[Action]:
    if container.phase == "waiting" and now >= container.until:
        return [Start(container.name, container.attempt)]
    if container.phase != "exited" or not _should_restart(pod, container):
        return []
    until = container.ended + _delay(pod, container)
    if now >= until:
        return [Start(container.name, container.attempt + 1)]
    return [BackOff(container.name, container.attempt + 1, until)]


def _should_restart(pod: PodState, container: ContainerState) -> bool:
    if container.role == "sidecar":
        return True
    if pod.order is not None and container.name in pod.order.leading and pod.order.retries:
        return container.code != 0 and container.attempt < pod.order.retries
    if pod.policy == "Never":
        return False
    return container.code != 0 or (pod.policy == "Always" and container.role == "main")


def _delay(pod: PodState, container: ContainerState) -> float:
    """The first restart is immediate, as with kubelet. Then the delay starts at the base and doubles each time."""
    if pod.order is not None and pod.order.retries:
        return pod.order.retry_seconds
    restarts = _consecutive_restarts(pod, container)
    return min(pod.backoff_base * 2.0 ** min(restarts - 1, 32), pod.backoff_max) if restarts else 0.0


def _consecutive_restarts(pod: PodState, container: ContainerState) -> int:
    return 0 if container.ended - container.started >= 2 * pod.backoff_max else container.restarts
