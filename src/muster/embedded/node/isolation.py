"""Finds out how well this machine can isolate Pods, by isolating one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import muster
from muster.embedded.node.supervisor.contract import Isolation, PreparedContainer, PreparedPod
from muster.embedded.node.supervisor.processes import StartError
from muster.embedded.node.supervisor.sandbox import Sandbox
from muster.embedded.node.supervisor.syscalls import NEW_PIDS, unshare
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


def probe_isolation(python: str = sys.executable) -> tuple[Isolation, str]:
    """Returns the best isolation that works, and a sentence for the user: what it provides, or what prevents more.
    Takes the time of starting Python once or twice."""
    wanted: Isolation = "namespaces" if os.geteuid() == 0 else "user-namespaces"
    problem = _find_problem(python, wanted)
    if not problem:
        return wanted, _PROVIDED
    if wanted == "namespaces" and not _find_problem(python, "user-namespaces"):
        return "user-namespaces", f"{_PROVIDED}, in a user namespace (as root: {problem})"
    lost = "Pods share this machine's /tmp, processes and host name, and cannot have volumes"
    return "none", f"{lost}: {problem}{_advice()}"


def isolate_once(isolation: Isolation) -> None:
    """Starts a container that does nothing, in a process of its own. Prints what went wrong, if anything did."""
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
        pid, _ = Sandbox(pod, "/").start(container, 0, (0, 1, 2))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    except (OSError, StartError) as error:
        print(getattr(error, "strerror", None) or error, flush=True)
        os._exit(1)


def _find_problem(python: str, isolation: Isolation) -> str:
    """Returns the problem, or '' if it works."""
    sources = str(Path(muster.__file__).parent.parent)
    done = subprocess.run(
        [python, "-I", "-S", "-c", _PROGRAM, sources, isolation],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return ""
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[-1].lower() if lines else f"exit code {done.returncode}"


def _advice() -> str:
    for name, obstacle, remedy in _BLOCKING_SYSCTLS:
        try:
            value = Path("/proc/sys", name).read_text().strip()
        except OSError:
            continue
        if value == obstacle:
            return f" (as root: sysctl -w {name.replace('/', '.')}={remedy})"
    return ""
