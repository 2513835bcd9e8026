"""Starts, finds and kills the processes of a Pod."""

from __future__ import annotations

import _thread
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from errno import EACCES, ENOENT, ENOEXEC
from stat import S_ISDIR, S_ISFIFO

from muster.embedded.node.supervisor.confinement import ALL_CAPABILITIES, CAPABILITIES, Confinement, confine
from muster.embedded.node.supervisor.syscalls import (
    NEW_USERS,
    become_user,
    die_with_parent,
    new_filesystem,
    setns,
    unshare,
)

_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILL_TRIES = 500
_MEMORY_FIELDS = (b"Pss_Anon:", b"Pss_Shmem:")
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
_FAILED = 128
_IS_MISSING, _IS_ERROR = b"?", b"!"


class StartError(Exception):
    """A process could not be started. The message is for the user."""


class ProgramMissing(StartError):
    """The program does not exist."""


class Identity:
    """The user and groups of a process; None means those of this process. `mapped`: they are only available in a user
    namespace that the process creates. `user_namespace` is a descriptor of one that it enters, in which these ids begin
    with the machine's `first_id`."""

    __slots__ = ("first_id", "gid", "groups", "mapped", "uid", "user_namespace")

    def __init__(
        self, uid: int | None, gid: int | None, groups: Sequence[int] = (), *,
        mapped: bool = False, user_namespace: int = -1, first_id: int = 0,
    ) -> None:  # fmt: skip
        self.uid, self.gid, self.groups, self.mapped = uid, gid, groups, mapped
        self.user_namespace, self.first_id = user_namespace, first_id

    def __bool__(self) -> bool:
        return self.user_namespace >= 0 or self.uid is not None or self.gid is not None or bool(self.groups)

    @property
    def needs_process(self) -> bool:
        """Whether only a process can assume it, not a thread."""
        return bool(self) and (self.mapped or self.user_namespace >= 0)

    @property
    def host_uid(self) -> int | None:
        """The number of the user on the machine."""
        return self.uid if self.user_namespace < 0 else self.first_id + (self.uid or 0)


class Command:
    """What to start. `stdio` are the descriptors that become 0, 1 and 2; `cgroups` are descriptors of the files by
    which it joins control groups. Without a `confinement` it has the rights of this process."""

    __slots__ = ("argv", "cgroups", "confinement", "creates_cwd", "cwd", "env", "identity", "stdio", "terminal")

    def __init__(
        self,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        stdio: Sequence[int],
        identity: Identity,
        *,
        confinement: Confinement | None = None,
        cgroups: Sequence[int] = (),
        terminal: bool = False,
        creates_cwd: bool = False,
    ) -> None:
        self.argv, self.env, self.cwd, self.stdio, self.identity = argv, env, cwd or "/", stdio, identity
        self.confinement, self.cgroups, self.terminal = confinement, cgroups, terminal
        self.creates_cwd = creates_cwd


def launch(command: Command, *, ends_with_parent: bool) -> int:
    """Starts a process and returns its number when it executes the program. Raises StartError. Changes the working
    directory of this process. For a moment, it has a second thread, which shares its folders."""
    identity, confinement = command.identity, command.confinement
    if ends_with_parent or command.cgroups or identity.needs_process or (identity and confinement is None):
        return _fork(command, ends_with_parent)
    _give_to_user(command.stdio, identity.host_uid)
    actions: list[tuple[int, int, int] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate(command.stdio)
    ]
    if command.terminal:
        # The first terminal that a session leader opens becomes its controlling terminal.
        actions[0] = (os.POSIX_SPAWN_OPEN, 0, f"/proc/self/fd/{command.stdio[0]}", os.O_RDWR, 0)

    def spawn() -> int:
        program = _enter_folder_and_find(command)
        try:
            return os.posix_spawn(
                program,
                command.argv,
                command.env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_IGNORED_BY_PYTHON,
            )
        except (OSError, ValueError) as error:
            raise StartError(_explain_exec_error(command.argv[0], program, error)) from None

    return spawn() if confinement is None else _call_confined(confinement, identity, spawn)


def find_program(name: str, path: str | None) -> str:
    """Returns the path of a program. It is resolved in this process's view of the files."""
    if "/" in name:
        try:
            mode = os.stat(name).st_mode
        except FileNotFoundError as error:
            raise ProgramMissing(f'exec: "{name}": {_reason(error)}') from None
        except OSError as error:
            raise StartError(f'exec: "{name}": {_reason(error)}') from None
        if S_ISDIR(mode):
            raise StartError(f'exec: "{name}": is a directory')
        return name
    forbidden = False
    for folder in (path or os.defpath).split(":"):
        candidate = f"{folder or '.'}/{name}"
        try:
            mode = os.stat(candidate).st_mode
        except OSError:
            continue
        if not S_ISDIR(mode):
            if mode & 0o111:
                return candidate
            forbidden = True
    if forbidden:
        raise StartError(f'exec: "{name}": permission denied: it is in $PATH, but not executable')
    raise ProgramMissing(f'exec: "{name}": executable file not found in $PATH')


def map_user(uid: int, gid: int) -> None:
    """Enters a user namespace in which this user has these numbers and may create other namespaces."""
    own_uid, own_gid = os.getuid(), os.getgid()
    unshare(NEW_USERS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {own_uid} 1"), ("gid_map", f"{gid} {own_gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


class Processes:
    """The processes below this one. In a process namespace of our own, these are all."""

    def __init__(self, own_namespace: bool) -> None:
        self._own_namespace = own_namespace
        self._proc = -1

    @property
    def proc(self) -> int:
        """A descriptor of a /proc with the process numbers that `os.kill` takes here."""
        if self._proc < 0:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            if self._own_namespace:
                mount = new_filesystem(b"proc")
                self._proc = os.open(".", flags, dir_fd=mount)
                os.close(mount)
            else:
                self._proc = os.open("/proc", flags)
        return self._proc

    def all(self) -> Iterable[tuple[int, int]]:
        """Yields (process, parent) of all living processes."""
        for name in os.listdir(self.proc):
            if name.isdigit():
                # The name in parentheses may contain anything, even parentheses.
                fields = self._read(f"{name}/stat").rpartition(b")")[2].split()
                if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
                    yield int(name), int(fields[1])

    def parents(self) -> dict[int, int]:
        """Returns the parent of every living descendant."""
        parents = dict(self.all())
        us = os.getpid()
        if self._own_namespace:
            parents.pop(us, None)
            return parents
        return {pid: parent for pid, parent in parents.items() if us in _ancestors(pid, parents)}

    def kill_all(self) -> None:
        """In a process namespace of our own, kills all of them atomically, so that no fork escapes."""
        if self._own_namespace:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            send_signal(self.parents(), signal.SIGKILL)

    def find_owned(self, is_marked: Callable[[int], bool], roots: Iterable[int]) -> list[int]:
        """Returns the living processes that are marked, or below a marked one, or below one of `roots`."""
        parents = self.parents()
        below = set(roots)
        for pid in parents:
            if pid not in below and is_marked(pid):
                below.add(pid)
        return [pid for pid in parents if pid in below or not below.isdisjoint(_ancestors(pid, parents))]

    def is_in_mounts(self, pid: int, inode: int) -> bool:
        """Whether a process is in the mount namespace with this inode."""
        with suppress(OSError):
            return os.stat(f"{pid}/ns/mnt", dir_fd=self.proc).st_ino == inode
        return False

    def variables(self, pid: int) -> list[bytes]:
        """Returns the environment that a process was started with, as `NAME=value`."""
        return self._read(f"{pid}/environ").split(b"\0")

    def memory(self, pids: Iterable[int], limit: int) -> int:
        """Returns what the processes use, in bytes. Shared pages are only told apart, which is expensive, if the sum
        could exceed `limit`."""
        pids = list(pids)
        resident = 0
        for pid in pids:
            fields = self._read(f"{pid}/statm").split()
            resident += int(fields[1]) * _PAGE if len(fields) > 1 else 0
        if resident <= limit:
            return resident
        exact = 0
        for pid in pids:
            for line in self._read(f"{pid}/smaps_rollup").splitlines():
                if line.startswith(_MEMORY_FIELDS):
                    exact += int(line.split()[1]) * 1024
        return exact

    def _read(self, path: str) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        except OSError:
            return b""
        try:
            chunks = []
            while chunk := os.read(descriptor, 65536):
                chunks.append(chunk)
            return b"".join(chunks)
        except OSError:
            return b""
        finally:
            os.close(descriptor)


def host_pid(pid: int) -> int:
    """Returns the number of a process in the machine's namespace: /proc is the machine's here, whatever our namespace
    is."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return pid
    try:
        with open(f"/proc/self/fdinfo/{descriptor}") as file:
            return next((int(line[4:]) for line in file if line.startswith("Pid:")), pid)
    finally:
        os.close(descriptor)


def kill_marked(prefix: bytes) -> None:
    """Kills every process of the machine that was started with an environment variable with this prefix: the leftovers
    of an earlier supervisor."""
    everyone = Processes(own_namespace=False)
    for _ in range(_KILL_TRIES):
        found = [pid for pid, _ in everyone.all() if any(v.startswith(prefix) for v in everyone.variables(pid))]
        if not found:
            return
        send_signal(found, signal.SIGKILL)
        time.sleep(0.01)


def send_signal(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


def _call_confined(confinement: Confinement, identity: Identity, function: Callable[[], int]) -> int:
    """Calls the function in a thread that ends with it: a thread cannot undo its confinement, and has a user of its
    own. This is much cheaper than a fork, which copies this process."""
    results, errors = list[int](), list[Exception]()
    running = _thread.allocate_lock()

    def run() -> None:
        try:
            confine(confinement)
            if identity:
                uid, gid = identity.uid or 0, identity.gid
                become_user(uid, os.getgid() if gid is None else gid, identity.groups)
            results.append(function())
        except Exception as error:
            errors.append(error)
        finally:
            running.release()

    running.acquire()
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError as error:
        raise StartError(f"cannot start a process: {error}") from None
    running.acquire()
    if errors:
        raise errors[0]
    return results[0]


def _fork(command: Command, ends_with_parent: bool) -> int:
    """The slow way, for what only the new process itself can do before it executes the program."""
    _give_to_user(command.stdio, command.identity.host_uid)
    report, reported = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            _exec_program(command, parent if ends_with_parent else 0)
        except BaseException as error:
            kind = _IS_MISSING if isinstance(error, ProgramMissing) else _IS_ERROR
            os.write(reported, kind + str(error).encode("utf-8", "replace")[:4000])
        finally:
            os._exit(_FAILED)
    os.close(reported)
    try:
        message = os.read(report, 4096)
    finally:
        os.close(report)
    if message:
        os.waitpid(child, 0)
        text = message[1:].decode("utf-8", "replace")
        raise ProgramMissing(text) if message.startswith(_IS_MISSING) else StartError(text)
    return child


def _give_to_user(stdio: Sequence[int], uid: int | None) -> None:
    """Gives pipes and terminals to the user, who could not open /dev/stdout otherwise."""
    if uid is None:
        return
    for descriptor in stdio:
        if S_ISFIFO(os.fstat(descriptor).st_mode) or os.isatty(descriptor):
            with suppress(OSError):
                os.fchown(descriptor, uid, -1)


def _exec_program(command: Command, parent: int) -> None:
    os.setsid()
    for cgroup in command.cgroups:
        os.write(cgroup, b"0")
    _assume_identity(command.identity, command.confinement)
    if parent:
        # Only now, because a change of identity undoes it.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            return
    program = _enter_folder_and_find(command)
    if command.terminal:
        os.close(os.open(f"/proc/self/fd/{command.stdio[0]}", os.O_RDWR))
    for target, source in enumerate(command.stdio):
        os.dup2(source, target)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(program, command.argv, command.env)  # noqa: S606  (there is no shell to start it with)
    except (OSError, ValueError) as error:
        raise StartError(_explain_exec_error(command.argv[0], program, error)) from None


def _assume_identity(identity: Identity, confinement: Confinement | None) -> None:
    """The order matters: a confined process cannot enter a user namespace, and a process that has become another user
    has no right to confine itself in all ways."""
    if identity.user_namespace >= 0:
        setns(identity.user_namespace, NEW_USERS)
    if identity and identity.mapped:
        _change_ids(identity)
    if confinement is not None:
        is_in_new_namespace = identity.mapped or identity.user_namespace >= 0
        confine(confinement, ALL_CAPABILITIES if is_in_new_namespace else CAPABILITIES)
    if identity and not identity.mapped:
        _change_ids(identity)


def _change_ids(identity: Identity) -> None:
    own_uid, own_gid = (os.getuid(), os.getgid()) if identity.user_namespace < 0 else (0, 0)
    uid = own_uid if identity.uid is None else identity.uid
    gid = own_gid if identity.gid is None else identity.gid
    try:
        if identity.mapped:
            if (uid, gid) != (own_uid, own_gid):
                map_user(uid, gid)
            return
        os.setgroups(list(identity.groups))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise StartError(f"runAsUser {uid}, runAsGroup {gid}: {_reason(error)}") from None


def _enter_folder_and_find(command: Command) -> str:
    """Returns the program's path. Call it with the rights of the container's user."""
    if command.creates_cwd and not os.path.isdir(command.cwd):
        with suppress(OSError):
            os.makedirs(command.cwd)
    _change_folder(command.cwd)
    return find_program(command.argv[0], command.env.get("PATH"))


def _change_folder(cwd: str) -> None:
    try:
        os.chdir(cwd)
        if os.getcwd().startswith("/"):
            return
    except OSError as error:
        raise StartError(f'working directory "{cwd}": {_reason(error)}') from None
    # A link through /proc/self/fd leads to what this process has open.
    os.chdir("/")
    raise StartError(f'working directory "{cwd}": it is outside of the container')


def _explain_exec_error(name: str, program: str, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return f'exec: "{name}": {error}'
    if error.errno == ENOENT:
        return f'exec: "{name}": {_missing_interpreter(program)}'
    if error.errno == ENOEXEC:
        return f'exec: "{name}": exec format error: neither a program of this machine nor a script that starts with #!'
    if error.errno == EACCES:
        return f'exec: "{name}": permission denied'
    return f'exec: "{name}": {_reason(error)}'


def _missing_interpreter(program: str) -> str:
    try:
        with open(program, "rb") as file:
            line = file.readline(256)
    except OSError:
        return "no such file or directory"
    if line.startswith(b"#!"):
        return f'its interpreter "{line[2:].strip().decode(errors="replace")}" does not exist'
    return "the loader it was built for does not exist here"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def _ancestors(pid: int, parents: dict[int, int]) -> Iterable[int]:
    seen = set[int]()
    while pid in parents and pid not in seen:
        seen.add(pid)
        pid = parents[pid]
        yield pid
