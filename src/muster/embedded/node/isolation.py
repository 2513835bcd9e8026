"""Finds out how well this machine can isolate Pods, by isolating one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Container
from pathlib import Path

import muster
from muster.embedded.node.supervisor.base_namespace import BaseNamespace
from muster.embedded.node.supervisor.contract import Isolation, PreparedContainer, PreparedPod
from muster.embedded.node.supervisor.processes import StartError
from muster.embedded.node.supervisor.sandbox import Sandbox
from muster.embedded.node.supervisor.seccomp import container_filter
from muster.embedded.node.supervisor.syscalls import NEW_PIDS, unshare
from muster.embedded.node.supervisor.user_namespaces import FIRST_ID, UserNamespaces, container_map
from muster.embedded.node.supervisor.zygote import enter_user_namespace

_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv[1]); from muster.embedded.node.isolation import isolate_once; "
    "isolate_once(sys.argv[2])"
)
_BLOCKING_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "10000"),
)
_PROVIDED = "own mounts, process numbers, host name and IPC for each Pod"
_FEATURES = {
    "layer": (
        "the machine is read-only, and what Pods write to it vanishes with them",
        "the machine is read-only except for a copy of the home folder",
    ),
    "filter": ("system calls are filtered", "system calls are not filtered (unknown architecture)"),
    "ids": (
        "Pods of members have user ids of their own",
        "Pods of members run as this account and can read what it can read, outside of its home",
    ),
}
"""Feature -> what to tell if it works, and if it does not."""


def probe_isolation(python: str = sys.executable) -> tuple[Isolation, str]:
    """Returns the best isolation that works, and a sentence for the user: what it provides, or what prevents more.
    Takes the time of starting Python once or twice."""
    wanted: Isolation = "namespaces" if os.geteuid() == 0 else "user-namespaces"
    problem, features = _try_isolation(python, wanted)
    if not problem:
        return wanted, _describe(_PROVIDED, features)
    if wanted == "namespaces":
        another_problem, features = _try_isolation(python, "user-namespaces")
        if not another_problem:
            provided = f"{_PROVIDED}, in a user namespace (as root: {problem})"
            return "user-namespaces", _describe(provided, features)
    lost = "Pods share this machine's /tmp, processes and host name, and cannot have volumes"
    return "none", f"{lost}: {problem}{_advice()}"


def isolate_once(isolation: Isolation) -> None:
    """Starts a container that does nothing, in a process of its own. Prints what went wrong, or the features that
    work."""
    try:
        if isolation == "user-namespaces":
            enter_user_namespace()
        unshare(NEW_PIDS)
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        pod: PreparedPod = {"isolation": isolation, "uid": "probe", "hostname": "muster-probe", "containers": []}
        container: PreparedContainer = {
            "name": "probe",
            "argv": [sys.executable, "-I", "-S", "-c", ""],
            "env": {},
            "cwd": "/",
            # Not /tmp: this Python itself may be there.
            "mounts": [{"type": "tmpfs", "target": "/dev/shm"}],
        }
        base = BaseNamespace()
        pid, _ = Sandbox(pod, "/", base).start(container, 0, (0, 1, 2))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        found = {"layer": base.allows_layers, "filter": bool(container_filter()), "ids": _has_ids(isolation)}
        print(" ".join(name for name, works in found.items() if works), flush=True)
        os._exit(code)
    except (OSError, StartError) as error:
        print(getattr(error, "strerror", None) or error, flush=True)
        os._exit(1)


def _has_ids(isolation: Isolation) -> bool:
    if isolation != "namespaces":
        return False
    try:
        os.close(UserNamespaces().get(container_map(FIRST_ID)))
    except StartError:
        return False
    return True


def _describe(provided: str, features: Container[str]) -> str:
    return "; ".join((provided, *(texts[0 if name in features else 1] for name, texts in _FEATURES.items())))


def _try_isolation(python: str, isolation: Isolation) -> tuple[str, list[str]]:
    """Returns the problem, or '' and the features that work."""
    sources = str(Path(muster.__file__).parent.parent)
    done = subprocess.run(
        [python, "-I", "-S", "-c", _PROGRAM, sources, isolation],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return "", done.stdout.split()
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return (lines[-1].lower() if lines else f"exit code {done.returncode}"), []


def _advice() -> str:
    for name, obstacle, remedy in _BLOCKING_SYSCTLS:
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue
        if value == obstacle:
            return f" (as root: sysctl -w {name.replace('/', '.')}={remedy})"
    return ""
