"""What a container may do to the machine, to the server and to other Pods. Real Pods try it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from muster.embedded.box import Box
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.supervisor.seccomp import DENIED as DENIED_CALLS
from muster.kube.builtin import POD, new_catalogue
from muster.kube.cluster import LogQuery
from muster.kube.errors import Conflict
from muster.kube.objects import Object, name_of, namespace_of, status_of, uid_of
from muster.kube.pod_security import ISOLATION_LABEL, RESTRICTED
from muster.server.settings import read_settings
from tests.embedded.waiting import wait_until

ISOLATION, WHY = probe_isolation()
pytestmark = pytest.mark.skipif(ISOLATION != "namespaces", reason=f"needs a server that runs as root: {WHY}")

MEMBERS = "members"
SECONDS = 120.0
MARK = "muster-planted"
HOME = os.path.expanduser("~")
A_FILE_IN_HOME = next((name for name in sorted(os.listdir(HOME)) if os.path.isfile(f"{HOME}/{name}")), ".profile")
SECRET_OF_ROOT = f"/var/tmp/{MARK}-secret"
SITE_PACKAGES = sysconfig.get_paths()["purelib"]

WRITES = {
    "A .pth file in the environment of Muster, which would run outside later": f"{SITE_PACKAGES}/{MARK}.pth",
    "A program in /usr/local/bin": f"/usr/local/bin/{MARK}",
    "A file in the home of root": f"/root/{MARK}",
    "A key for logging in as root": f"/root/.ssh/{MARK}",
    "A cron job": f"/etc/cron.d/{MARK}",
    "A profile of every shell": f"/etc/profile.d/{MARK}.sh",
    "A library that every program loads": f"/usr/lib/{MARK}.so",
    "A file in the root folder": f"/{MARK}",
    "A file in /var": f"/var/lib/{MARK}",
    "A file in /opt": f"/opt/{MARK}",
    "A socket of a service in /run": f"/run/{MARK}",
    "A file in the checkout of Muster": f"{Path(__file__).parents[2]}/src/muster/{MARK}.py",
    "A device in /dev": f"/dev/{MARK}",
    "A file in the temporary folder of the machine": f"/tmp/{MARK}",
    "A file in the shared memory of the machine": f"/dev/shm/{MARK}",
    "A file in the folder of the supervisor": f"/proc/1/cwd/{MARK}",
}
"""What a container tries to create -> where."""

CHANGED = ("/etc/passwd", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/shadow")
"""Files that a container tries to change."""

DENIED = ("EPERM", "EACCES", "EROFS", "ENOSYS", "ENOENT", "ESRCH", "EINVAL", "ENXIO", "EAFNOSUPPORT", "EPROTONOSUPPORT")

ATTACKS = {
    "Set the program that the kernel starts for core dumps": 'write("/proc/sys/kernel/core_pattern", "|/tmp/x")',
    "Set the program that the kernel starts for modules": 'write("/proc/sys/kernel/modprobe", "/tmp/x")',
    "Change a setting of the machine's memory": 'write("/proc/sys/vm/overcommit_memory", "1")',
    "Change a setting of the machine's network": 'write("/proc/sys/net/ipv4/ip_forward", "1")',
    "Make /proc/sys writable again": 'call("mount", None, b"/proc/sys", None, 32 | 4096, None)',
    "Restart the machine through sysrq": 'write("/proc/sysrq-trigger", "s")',
    "Read the memory of the kernel through /proc/kcore": 'need(read("/proc/kcore"))',
    "Read the keys of the kernel": 'need(read("/proc/keys"))',
    "Read the firmware tables": 'need(os.listdir("/sys/firmware"))',
    "Reach the sockets of the machine's services": 'need(os.listdir("/run"))',
    "Set the uevent helper through /sys": 'write("/sys/kernel/uevent_helper", "/tmp/x")',
    "Create a control group": 'os.mkdir(next(p for p in ("/sys/fs/cgroup/unified", "/sys/fs/cgroup") '
    'if os.path.isdir(p)) + "/muster-planted")',
    "Open the disk of the machine": 'open("/dev/vda" if os.path.exists("/dev/vda") else "/dev/sda", "rb")',
    "Open the memory of the machine": 'open("/dev/mem", "rb")',
    "Read the messages of the kernel": 'os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)',
    "Create a device node for the disk": 'os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)); open("/tmp/disk", "rb")',
    "Create a device node in a folder of the machine": 'os.mknod("/var/disk", 0o60600, os.makedev(254, 0))',
    "Mount a file system": 'call("mount", b"none", b"/mnt", b"tmpfs", 0, None)',
    "Mount through the new system calls": 'call("fsopen", b"tmpfs", 0)',
    "Clone a tree of mounts": 'call("open_tree", -100, b"/", 1)',
    "Change the attributes of a mount": 'call("mount_setattr", -100, b"/", 0x8000, b"\\0" * 32, 32)',
    "Unmount what hides the data directory": 'call("umount2", b"/tmp", 2)',
    "Unmount the read-only /proc/sys": 'call("umount2", b"/proc/sys", 2)',
    "Change the root of the mount namespace": 'call("pivot_root", b"/", b"/tmp")',
    "Create a user namespace, to be root in it": 'call("unshare", 0x10000000)',
    "Create a mount namespace": 'call("unshare", 0x00020000)',
    "Create a user namespace with clone": 'call("clone", 0x10000000 | 17, None, None, None, None)',
    "Create a user namespace with clone3": "clone3(0x10000000)",
    "Create a network namespace": 'call("unshare", 0x40000000)',
    "Enter the namespaces of the supervisor": 'call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)',
    "Enter a namespace through a process descriptor": 'call("setns", os.pidfd_open(1), 0x20000)',
    "Get a descriptor of the supervisor": 'call("pidfd_getfd", os.pidfd_open(1), 0, 0)',
    "Trace the supervisor": 'call("ptrace", 16, 1, None, None)',
    "Write to the memory of the supervisor": 'open("/proc/1/mem", "r+b")',
    "Read the environment of the supervisor": 'need(read("/proc/1/environ"))',
    "Open a descriptor of the supervisor": 'os.open("/proc/1/fd/3", os.O_RDONLY)',
    "See what the supervisor has open": 'os.readlink("/proc/1/fd/3")',
    "Leave through the root of the supervisor": 'os.listdir("/proc/1/root/")',
    "Leave through the working directory of the supervisor": 'os.listdir("/proc/1/cwd/")',
    "Leave with chroot": "os.mkdir('/tmp/jail'); cwd = os.open('/', os.O_RDONLY); os.chroot('/tmp/jail'); "
    "os.fchdir(cwd); [os.chdir('..') for _ in range(64)]; os.chroot('.'); read(SECRET)",
    "Read the secrets of the server in the data directory": "read(SECRET)",
    "Read the data directory through another path": 'read("/proc/self/root" + SECRET)',
    "Read the data directory through any process": "need(any(exists(f'/proc/{p}/{way}{SECRET}') "
    "for p in os.listdir('/proc') if p.isdigit() for way in ('root', 'cwd')))",
    "Read the volume of another namespace": "read(VOLUME)",
    "List the folders of other Pods": "os.listdir(PODS)",
    "Open a file of the machine by its handle": 'call("open_by_handle_at", os.open("/", os.O_RDONLY), '
    'b"\\x08\\0\\0\\0\\x01\\0\\0\\0\\x02\\0\\0\\0\\0\\0\\0\\0", 0)',
    "End a process of another Pod": "os.kill(VICTIM, 9)",
    "Look at a process of another Pod": 'os.stat(f"/proc/{VICTIM}")',
    "End the supervisor": "os.kill(1, 9); time.sleep(0.2); os.kill(1, 0); raise PermissionError(1, 'it lives')",
    "Use the keyring of the kernel": 'call("keyctl", 0, -3, 1, 0, 0)',
    "Add a key to the keyring": 'call("add_key", b"user", b"x", b"y", 1, -3)',
    "Load a program into the kernel": 'call("bpf", 5, b"\\0" * 128, 128)',
    "Watch the kernel's performance events": 'call("perf_event_open", b"\\0" * 128, 0, -1, -1, 0)',
    "Handle the page faults of others": 'call("userfaultfd", 0)',
    "Use io_uring, which a filter cannot see": 'call("io_uring_setup", 8, b"\\0" * 128)',
    "Load a kernel module": 'call("init_module", b"x", 1, b"")',
    "Load a kernel module from a file": 'call("finit_module", os.open("/etc/passwd", os.O_RDONLY), b"", 0)',
    "Start another kernel": 'call("kexec_load", 0, 0, None, 0)',
    "Restart the machine": 'call("reboot", 0xFEE1DEAD, 672274793, 0x89ABCDEF, None)',
    "Set the clock of the machine": 'call("clock_settime", 0, b"\\0" * 16)',
    "Read the log of the kernel": 'call("syslog", 3, b"\\0" * 64, 64)',
    "Turn off swapping": 'call("swapoff", b"/swap")',
    "Turn on process accounting": 'call("acct", b"/tmp/x")',
    "Change the host name": 'socket.sethostname("evil")',
    "Access ports of the hardware": 'call("iopl", 3)',
    "Type into the terminal of another process": "import pty, fcntl; fcntl.ioctl(os.openpty()[1], 0x5412, b'x')",
    "Talk to the hypervisor": "socket.socket(40, socket.SOCK_STREAM)",
    "Read the packets of the machine": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)",
    "Send raw packets": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "Use the kernel's crypto sockets": "socket.socket(38, socket.SOCK_SEQPACKET)",
    "Listen to the audit messages": "socket.socket(16, socket.SOCK_RAW, 9)",
    "Change the firewall of the machine": "socket.socket(16, socket.SOCK_RAW, 12)",
    "Turn off the randomization of addresses": 'call("personality", 0x0040000)',
    "Watch all files of the machine": 'call("fanotify_init", 4, 0)',
    "Regain a capability": "import ctypes; raise_capability(21)",
    "Call the kernel as a 32-bit program": "thirty_two_bit()",
    "Get rights from a setuid program": "need(status('NoNewPrivs') == '0')",
}
"""What a container tries -> the program, which must fail with one of DENIED."""

ORDINARY = {
    "the interpreter and its packages": "import ssl, sqlite3, ctypes, yaml; print(ssl.OPENSSL_VERSION)",
    "pip": "subprocess.run([sys.executable, '-m', 'pip', '--version'], check=True)",
    "git": "subprocess.run('cd $(mktemp -d) && git init -q . && git config user.email a@b && git config user.name a && "
    "echo x > x && git add x && git commit -qm x && git log --oneline', shell=True, check=True)",
    "writing to the home folder": "p = pathlib.Path.home() / '.cache/x/y'; p.parent.mkdir(parents=True); "
    "p.write_text('x'); assert p.read_text() == 'x'",
    "writing to the temporary folders": "tempfile.mkdtemp(); tempfile.mkdtemp(dir='/var/tmp')",
    "a new folder in the root": "os.makedirs('/app/out'); open('/app/out/x', 'w').write('x')",
    "ending before the server when memory runs out": ("assert int(open('/proc/self/oom_score_adj').read()) >= 500"),
    "threads and processes": "import threading, multiprocessing; t = threading.Thread(target=print); t.start(); "
    "t.join(); p = multiprocessing.get_context('fork').Process(target=print); p.start(); p.join(); assert not "
    "p.exitcode",
    "semaphores and shared memory": "import multiprocessing as m, multiprocessing.shared_memory as s; m.Semaphore(); "
    "m.Queue().put(1); x = s.SharedMemory(create=True, size=1 << 20); x.close(); x.unlink()",
    "sockets": "a = socket.create_server(('127.0.0.1', 0)); socket.create_connection(a.getsockname()).close(); "
    "u = socket.socket(socket.AF_UNIX); u.bind('/tmp/s'); socket.socketpair(); socket.if_nameindex()",
    "terminals": "import pty; assert pty.spawn(['sh', '-c', 'test -t 0 && tty']) == 0",
    "devices": "open('/dev/null', 'w').write('x'); os.urandom(4); assert open('/dev/urandom', 'rb').read(2); "
    "open('/dev/stdout', 'w').write('x\\n'); open('/dev/zero', 'rb').read(1)",
    "executable memory": "import mmap; mmap.mmap(-1, 4096, prot=7); ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)()",
    "event descriptors": "os.eventfd(0); os.memfd_create('x'); import selectors; selectors.EpollSelector(); "
    "ctypes.CDLL(None).inotify_init()",
    "tracing its own child": "pid = os.fork(); os._exit(0 if time.sleep(1) else 0) if not pid else None; "
    "call('ptrace', 16, pid, None, None); os.waitpid(pid, 0); call('ptrace', 17, pid, None, None)",
    "the names of users": "import pwd; print(pwd.getpwuid(os.getuid()).pw_name, os.path.expanduser('~'))",
    "reading the machine": "assert os.listdir('/usr/bin') and open('/etc/os-release').read(); os.listdir('/sys/class')",
}
"""What every container must be able to do."""

WORK_OF_ROOT = {
    "owners and modes": "open('/tmp/a', 'w').close(); os.chown('/tmp/a', 1234, 1234); os.chmod('/tmp/a', 0o640)",
    "archives": "subprocess.run('cd /tmp && mkdir t && echo x > t/x && chown 7:7 t/x && tar cf t.tar t && rm -r t && "
    "tar xf t.tar && test $(stat -c %u t/x) = 7', shell=True, check=True)",
    "another user": "subprocess.run(['id', '-u'], user=1234, group=1234, extra_groups=[], check=True)",
}
"""What a container must be able to do if its user is root."""

READS = {
    "Read the passwords of the machine": "/etc/shadow",
    "Read a file in the home of the server's account": f"{HOME}/{A_FILE_IN_HOME}",
    "Read a file that only root may read": SECRET_OF_ROOT,
}
"""What only root may read, and members must not."""

ATTACKS_OF_MEMBERS = {
    "Make a setuid program": "open('/tmp/su', 'w').close(); os.chmod('/tmp/su', 0o4755)",
    "Create a setuid program": "os.close(os.open('/tmp/su2', os.O_CREAT | os.O_WRONLY, 0o4755))",
    "Make a setuid program in a volume": "open('/volume/su', 'w').close(); os.chmod('/volume/su', 0o6755)",
    "Change the environment of Muster, even for themselves": f"write('{SITE_PACKAGES}/{MARK}.pth', 'x')",
    "Change a program, even for themselves": "open('/usr/bin/env', 'a')",
    "Send a signal to root's processes": "os.kill(1, 15)",
    "Limit the supervisor": "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (1, 1))",
    "Slow down the supervisor": "os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "Have the server ended when memory runs out, and not the Pod": (
        "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1')"
    ),
    "Move the supervisor to one processor": "os.sched_setaffinity(1, {0})",
    "Become root": "os.setuid(SERVER_UID)",
    "Become another user of the machine": "os.setresuid(FOREIGN, FOREIGN, FOREIGN)",
}
"""What members try besides."""

PREAMBLE = r"""
import ctypes, errno, os, pathlib, platform, socket, struct, subprocess, sys, tempfile, time
X = platform.machine() == "x86_64"
NUMBERS = {name: pair[0 if X else 1] for name, pair in TABLE.items()}
NUMBERS.update(unshare=272 if X else 97, clone=56 if X else 220, clone3=435, ptrace=101 if X else 117,
               personality=135 if X else 92, pidfd_getfd=438, capget=125 if X else 90, capset=126 if X else 91)
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    libc.syscall.restype = ctypes.c_long
    number = NUMBERS[name]
    result = libc.syscall(ctypes.c_long(number if number is not None else 9999), *(
        ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if name == "clone" and result == 0:
        os._exit(0)
    return result
def clone3(flags):
    arguments = struct.pack("<11Q", flags, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    if call("clone3", arguments, len(arguments)) == 0:
        os._exit(0)
def read(path):
    with open(path, "rb") as file:
        return file.read(64)
def write(path, text):
    with open(path, "w") as file:
        file.write(text)
def need(found):
    if not found:
        raise FileNotFoundError(errno.ENOENT, "nothing is there")
def exists(path):
    try:
        os.stat(path)
    except OSError:
        return False
    return True
def status(field):
    return next(line.split()[1] for line in open("/proc/self/status") if line.startswith(field))
def raise_capability(number):
    header, data = struct.pack("<Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    call("capget", header, data.raw) if False else None
    libc.capget(header, data)
    values = list(struct.unpack("<6I", data.raw))
    values[0] |= 1 << number; values[1] |= 1 << number; values[2] |= 1 << number
    if libc.capset(header, struct.pack("<6I", *values)) < 0:
        raise OSError(ctypes.get_errno(), "")
def thirty_two_bit():
    if not X:
        raise OSError(errno.ENOSYS, "")
    import mmap
    code = mmap.mmap(-1, 4096, prot=7)
    code.write(b"\x53\xb8\x14\x00\x00\x00\xcd\x80\x5b\xc3")  # getpid as int 0x80
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    result = function()
    if result < 0:
        raise OSError(-result, "")
"""

RUNNER = r"""
import errno, json, os, signal, sys, traceback
orders = json.load(open(sys.argv[1]))
scope = {"__name__": "attack"}
exec(orders["preamble"], scope)
for name, program in orders["programs"].items():
    result, results = os.pipe()
    child = os.fork()
    if not child:
        outcome, errors = "DONE", ""
        try:
            signal.alarm(30)
            os.chdir("/tmp")
            os.dup2(os.open("/tmp/output", os.O_RDWR | os.O_CREAT), 1)
            exec(program, scope)
            sys.stdout.flush()
        except OSError as error:
            outcome, errors = f"DENIED {errno.errorcode.get(error.errno, error.errno)}", traceback.format_exc()
        except BaseException:
            outcome, errors = "FAILED", traceback.format_exc()
        os.write(results, json.dumps([name, outcome, errors[-800:]]).encode())
        os._exit(0)
    os.close(results)
    answer = os.read(result, 65536).decode() or json.dumps([name, "KILLED", ""])
    os.close(result)
    os.waitpid(child, 0)
    print(answer, flush=True)
"""


@dataclass
class Report:
    outcomes: dict[str, tuple[str, str]]
    """What was tried -> what came of it, and what was printed to stderr."""
    machine: dict[str, str]
    """What was planted, and how it was found on the machine."""


@pytest.fixture(scope="module", params=["admin", "member", "member as root"])
def report(request: pytest.FixtureRequest) -> Iterator[Report]:
    """One Pod tries everything. It belongs to an admin, to a member, or to a member and asks to be root."""
    home = Path(tempfile.mkdtemp(prefix="muster-sandbox-", dir="/var/tmp"))
    before = {path: Path(path).read_bytes() for path in CHANGED if os.path.exists(path)}
    try:
        outcomes = asyncio.run(_try_everything(home, request.param))
        found = {name: path for name, path in WRITES.items() if os.path.lexists(path)}
        found |= {path: "changed" for path, content in before.items() if Path(path).read_bytes() != content}
        yield Report(outcomes, found)
    finally:
        for path in (*WRITES.values(), SECRET_OF_ROOT):
            if MARK in path and os.path.lexists(path):
                os.unlink(path)
        for path, content in before.items():
            if Path(path).read_bytes() != content:
                Path(path).write_bytes(content)
        shutil.rmtree(home, ignore_errors=True)


async def _try_everything(home: Path, who: str) -> dict[str, tuple[str, str]]:
    namespace = "default" if who == "admin" else MEMBERS
    home.chmod(0o755)
    settings = read_settings(home, {"node": {"capacity": {"cpu": "100"}}, "durability": "process"})
    async with Box(settings, new_catalogue()) as box:
        labels = {ISOLATION_LABEL: RESTRICTED}
        if namespace == MEMBERS:
            await box.cluster.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MEMBERS, "labels": labels}}
            )
        box.start(isolation="namespaces")
        Path(SECRET_OF_ROOT).write_text("hunter2")
        Path(SECRET_OF_ROOT).chmod(0o600)
        secret, volume = home / "secret", home / "volumes/other/claim/data"
        for path in (secret, volume):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("hunter2")
        victim = await _create(box, "default", "victim", ["sleep", "60"])
        await _until(box, victim, "Running")
        pods = settings.agent.pods
        journal = (pods / uid_of(victim) / "journal").read_text().splitlines()
        victim_pid = next(entry["pid"] for entry in map(json.loads, journal) if entry["e"] == "started")
        known = {
            "TABLE": dict(DENIED_CALLS), "SECRET": str(secret), "VOLUME": str(volume), "PODS": str(pods),
            "VICTIM": victim_pid, "SERVER_UID": 0 if who == "member" else 65536, "FOREIGN": 0x20010000,
        }  # fmt: skip
        preamble = "".join(f"{name} = {value!r}\n" for name, value in known.items()) + PREAMBLE
        orders = {"preamble": preamble, "programs": _programs(who)}
        text = await _attack(box, namespace, orders, 0 if who == "member as root" else None)
        await box.cluster.delete(POD, "victim", "default", grace_seconds=0)
        await wait_until(lambda: not (pods / uid_of(victim)).exists())
    return {name: (outcome, errors) for name, outcome, errors in map(json.loads, text.splitlines())}


def _programs(who: str) -> dict[str, str]:
    writes = {
        name: f"os.makedirs(os.path.dirname({path!r}), exist_ok=True); write({path!r}, 'x')"
        for name, path in WRITES.items()
    }
    writes |= {path: f"open({path!r}, 'a').write('x')" for path in CHANGED}
    work = ORDINARY | WORK_OF_ROOT if who != "member" else ORDINARY
    if who == "admin":
        return {**work, **ATTACKS, **writes}
    reads = {name: f"read({path!r})" for name, path in READS.items()}
    return {**work, **ATTACKS, **reads, **ATTACKS_OF_MEMBERS, **writes}


async def _attack(box: Box, namespace: str, orders: dict[str, Any], user: int | None) -> str:
    """Returns what the Pod printed."""
    data = {"runner.py": RUNNER, "orders.json": json.dumps(orders)}
    metadata = {"name": "program", "namespace": namespace}
    await box.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    command = [sys.executable, "/program/runner.py", "/program/orders.json"]
    mounts = [{"name": "program", "mountPath": "/program"}, {"name": "volume", "mountPath": "/volume"}]
    volumes = [{"name": "program", "configMap": {"name": "program"}}, {"name": "volume", "emptyDir": {}}]
    container: dict[str, Any] = {"volumeMounts": mounts}
    if user is not None:
        container["securityContext"] = {"runAsUser": user}
    pod = await _create(box, namespace, "attacker", command, container, volumes=volumes)
    found = await _until(box, pod, "Succeeded", "Failed")
    pieces = [piece async for piece in box.cluster.logs("attacker", namespace, LogQuery())]
    assert status_of(found)["phase"] == "Succeeded", (status_of(found), pieces)
    return b"".join(pieces).decode()


async def _create(
    box: Box, namespace: str, name: str, command: list[str], container: dict[str, Any] | None = None, **spec: Any
) -> Object:
    main = {"name": "main", "image": "python:3.11", "command": command, **(container or {})}
    body = {"restartPolicy": "Never", "containers": [main], "terminationGracePeriodSeconds": 0, **spec}
    metadata = {"name": name, "namespace": namespace}
    return await box.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body})


async def _until(box: Box, pod: Object, *phases: str) -> Object:
    async with asyncio.timeout(SECONDS):
        async for event in box.cluster.watch(POD, namespace_of(pod), fields=f"metadata.name={name_of(pod)}"):
            if status_of(event.object).get("phase") in phases:
                return event.object
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("attack", WRITES)
def test_a_container_plants_a_file_on_the_machine(report: Report, attack: str) -> None:
    assert attack in report.outcomes
    assert attack not in report.machine


@pytest.mark.parametrize("path", CHANGED)
def test_a_container_changes_a_file_of_the_machine(report: Report, path: str) -> None:
    assert path in report.outcomes
    assert path not in report.machine


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_container_attacks_the_machine(report: Report, attack: str) -> None:
    _assert_denied(report, attack)


@pytest.mark.parametrize("attack", [*READS, *ATTACKS_OF_MEMBERS])
def test_a_member_attacks_the_machine(report: Report, attack: str) -> None:
    if attack in report.outcomes:  # an admin's container is root
        _assert_denied(report, attack)


@pytest.mark.parametrize("work", ORDINARY)
def test_a_container_does_ordinary_work(report: Report, work: str) -> None:
    outcome, errors = report.outcomes[work]
    assert outcome == "DONE", errors


@pytest.mark.parametrize("work", WORK_OF_ROOT)
def test_a_container_works_as_root(report: Report, work: str) -> None:
    outcome, errors = report.outcomes.get(work, ("DONE", ""))
    assert outcome == "DONE", errors


def _assert_denied(report: Report, attack: str) -> None:
    outcome, errors = report.outcomes[attack]
    word, _, reason = outcome.partition(" ")
    assert word == "DENIED", (outcome, errors)
    assert reason in DENIED, (outcome, errors)


LISTEN = """
import socket, sys, time
listener = socket.socket()
listener.bind((sys.argv[1], int(sys.argv[2])))
listener.listen()
print(listener.getsockname()[1], flush=True)
time.sleep(60)
"""


async def _first_line(box: Box, pod: str, namespace: str) -> bytes:
    found = b""
    async for piece in box.cluster.logs(pod, namespace, LogQuery(follow=True)):
        found += piece
        if b"\n" in found:
            break
    return found.splitlines()[0]


async def test_listening_at_the_address_of_another_pod() -> None:
    """A member's Pod listens at the address of another member's Pod, to which the server then connects"""
    home = Path(tempfile.mkdtemp(prefix="muster-sandbox-", dir="/var/tmp"))
    home.chmod(0o755)
    settings = read_settings(home, {"node": {"capacity": {"cpu": "100"}}, "durability": "process"})
    try:
        async with Box(settings, new_catalogue()) as box:
            for name in ("ann", "ben"):
                metadata = {"name": name, "labels": {ISOLATION_LABEL: RESTRICTED}}
                await box.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            box.start(isolation="namespaces")
            victim = await _create(box, "ann", "victim", ["sleep", "60"])
            await _until(box, victim, "Running")
            node = box.cluster.node
            assert node is not None
            with node.forward("victim", "ann") as address:
                attacker = await _create(box, "ben", "attacker", [sys.executable, "-c", LISTEN, address, "0"])
                await _until(box, attacker, "Running")
                port = int(await _first_line(box, "attacker", "ben"))
                with pytest.raises(Conflict, match="belongs to another namespace"):
                    node.check_listener("victim", "ann", port)
                friend = await _create(box, "ann", "friend", [sys.executable, "-c", LISTEN, address, "0"])
                await _until(box, friend, "Running")
                node.check_listener("victim", "ann", int(await _first_line(box, "friend", "ann")))
    finally:
        shutil.rmtree(home, ignore_errors=True)
