"""The mount namespace that containers start from: this machine's files, so that no container can change the machine.

Everything is read-only. /proc shows the Pod's processes, without the files that control or reveal the machine; /dev has
the devices that every program may use and those of accelerators; /run, with the sockets of the machine's services, is
empty. The namespace is prepared once per supervisor and copied for each container, which is much cheaper.

On top, a container has a layer in memory: it may write wherever its user may, only the container sees it, and it
vanishes with the container. Every container gets a new one, because the kernel does not notice in an old one that a
file of the machine was replaced. Where the kernel allows no layer over everything, the machine stays read-only.
"""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Sequence
from contextlib import suppress

from muster.embedded.node.supervisor.syscalls import (
    AT_CWD,
    NEW_MOUNTS,
    attach,
    clone_tree,
    make_read_only,
    move,
    new_filesystem,
    pivot_to_here,
    separate_mounts,
    setns,
    unmount,
    unshare,
)

TERMINATION_LOG = "termination-log"

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "dri", "kfd", "dxg", "infiniband", "nvmap", "devmm_svm",
            "hisi_hdc")  # fmt: skip
_ACCELERATORS = ("nvidia", "nvhost", "accel", "davinci", "neuron", "habana", "hl", "xpu", "cxpu")
"""The devices of accelerators begin with these words."""
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_READ_ONLY_IN_PROC = ("bus", "fs", "irq", "sys", "sysrq-trigger")
_MASKED_IN_PROC = ("acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi",
                   "timer_list", "timer_stats")  # fmt: skip
_MASKED_IN_SYS = ("firmware", "devices/virtual/powercap", "kernel/debug", "kernel/tracing")
_RUN = "/run"
_VISIBLE_IN_RUN = (
    "systemd/resolve", "resolvconf", "NetworkManager/resolv.conf", "connman/resolv.conf",  # /etc/resolv.conf links here
    "current-system", "booted-system", "opengl-driver", "wrappers", "nvidia",  # programs and drivers of some machines
)  # fmt: skip
_LAYER_SIZE = b"25%"
"""Of the machine's memory."""
_RUN_SIZE = b"64m"
_ESCAPED = re.compile(r"\\([0-7]{3})")
_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")


class BaseNamespace:
    """Enter it with a process of the Pod's process namespace: /proc is that namespace's."""

    def __init__(self) -> None:
        self._namespace = -1
        self._mounts_file = -1
        self._changes = select.poll()
        self._submounts: tuple[str, ...] = ()
        self._visible_in_run: tuple[str, ...] = ()
        self.allows_layers = True
        """Whether the kernel has not refused a layer over everything yet."""

    def enter(self) -> None:
        """Enters a new copy. Prepares the namespace first if it does not exist yet, or if the machine's mounts have
        changed."""
        if self._namespace >= 0 and not self._changes.poll(0):
            self._enter_copy()
            return
        self.close()
        self._mounts_file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._changes.register(self._mounts_file, select.POLLPRI)
        self._visible_in_run = tuple(name for name in _VISIBLE_IN_RUN if os.path.exists(f"{_RUN}/{name}"))
        unshare(NEW_MOUNTS)
        separate_mounts()
        with open("/proc/self/mountinfo") as file:
            # Of this namespace: those of the machine may have changed since the file above was opened.
            self._submounts = topmost_mounts(file.read())
        _prepare_machine()
        self._namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        unshare(NEW_MOUNTS)

    def _enter_copy(self) -> None:
        setns(self._namespace, NEW_MOUNTS)
        unshare(NEW_MOUNTS)

    def add_layer(self, owner: int, home: str) -> bool:
        """Puts a layer for writing over the files of the copy that this process is in; `owner` owns / and /run.
        Returns False if the kernel refuses, which it does in a user namespace. Then only `home` has a layer, if
        possible. /run is empty in any case."""
        visible = [(name, clone_tree(AT_CWD, f"{_RUN}/{name}")) for name in self._visible_in_run]
        try:
            if self.allows_layers:
                try:
                    _add_root_layer(self._submounts, owner, visible)
                    return True
                except OSError:
                    self.allows_layers = False
                    self._enter_copy()  # not `enter`, which has to be called in the machine's namespace
            _cover_run(visible)
        finally:
            for _, tree in visible:
                os.close(tree)
        if home not in ("", "/"):
            with suppress(OSError):
                _add_home_layer(home)
        return False

    def close(self) -> None:
        if self._mounts_file >= 0:
            self._changes.unregister(self._mounts_file)
            os.close(self._mounts_file)
            self._mounts_file = -1
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1


def topmost_mounts(mountinfo: str) -> tuple[str, ...]:
    """Returns the mount points that are not below another one, without the root, /run and the kernel's folders."""
    points = {_unescape(line.split(" ", 5)[4]) for line in mountinfo.splitlines()} - {"/", _RUN, *_KERNEL_FOLDERS}
    above = tuple(f"{folder}/" for folder in (_RUN, *_KERNEL_FOLDERS, *points))
    return tuple(sorted(point for point in points if not point.startswith(above)))


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path) if "\\" in path else path


def _prepare_machine() -> None:
    """Devices and /sys are opened while the machine's own are still there."""
    opened = list[int]()
    try:
        processes = new_filesystem(b"proc")
        opened.append(processes)
        system = clone_tree(AT_CWD, "/sys")
        opened.append(system)
        names = [name for name in os.listdir("/dev") if _is_offered(name)]
        devices = [(name, clone_tree(AT_CWD, f"/dev/{name}")) for name in names]
        opened += [tree for _, tree in devices]
        for path in _KERNEL_FOLDERS:
            with suppress(OSError):  # in a user namespace, the machine's own can only be covered
                unmount(path)
        machine = os.open("/", _FOLDER)
        opened.append(machine)
        make_read_only(machine, has_devices=False)
        attach(processes, AT_CWD, "/proc")
        folder = _make_devices(devices)
        opened.append(folder)
        attach(system, AT_CWD, "/sys")
        _mask("/sys", _MASKED_IN_SYS)
        make_read_only(system)
        _mask("/proc", _MASKED_IN_PROC)
        for name in _READ_ONLY_IN_PROC:
            with suppress(FileNotFoundError):
                tree = clone_tree(processes, name)
                opened.append(tree)
                attach(tree, processes, name)
                make_read_only(tree)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _is_offered(name: str) -> bool:
    return name in _DEVICES or name.startswith(_ACCELERATORS)


def _make_devices(devices: Sequence[tuple[str, int]]) -> int:
    """Covers /dev. Returns a descriptor of the new one, which is read-only: containers that follow each other share
    it."""
    folder = new_filesystem(b"tmpfs", ((b"mode", b"755"), (b"size", b"64k")), has_devices=False)
    attach(folder, AT_CWD, "/dev")
    for name in ("shm", "pts", "mqueue"):
        os.mkdir(name, 0o755, dir_fd=folder)
    for name, to in _LINKS.items():
        os.symlink(to, name, dir_fd=folder)
    os.close(os.open(TERMINATION_LOG, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666, dir_fd=folder))
    _attach_all(folder, devices)
    terminals = new_filesystem(b"devpts", ((b"ptmxmode", b"0666"), (b"mode", b"0620")))
    try:
        attach(terminals, folder, "pts")
    finally:
        os.close(terminals)
    make_read_only(folder, recursive=False)
    return folder


def _attach_all(folder: int, trees: Sequence[tuple[str, int]]) -> None:
    """Mounts each tree at its path in `folder`, where nothing is yet."""
    place = f"/proc/self/fd/{folder}"
    for path, tree in trees:
        if stat.S_ISDIR(os.fstat(tree).st_mode):
            os.makedirs(f"{place}/{path}", exist_ok=True)
        else:
            os.makedirs(os.path.dirname(f"{place}/{path}"), exist_ok=True)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644, dir_fd=folder))
        attach(tree, folder, path)


def _mask(above: str, names: Sequence[str]) -> None:
    """Hides a file with /dev/null, and a folder with an empty one."""
    for name in names:
        path = f"{above}/{name}"
        try:
            is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        except OSError:
            continue
        cover = new_filesystem(b"tmpfs", ((b"size", b"4k"),)) if is_folder else clone_tree(AT_CWD, "/dev/null")
        try:
            attach(cover, AT_CWD, path)
            if is_folder:
                make_read_only(cover)
        finally:
            os.close(cover)


def _add_root_layer(submounts: Sequence[str], owner: int, visible_in_run: Sequence[tuple[str, int]]) -> None:
    machine = os.stat("/")
    memory = _new_layer()
    root = -1
    try:
        # A layer must be mounted somewhere while the overlay is made. /run is a good place, as nothing there is needed.
        attach(memory, AT_CWD, _RUN)
        upper = f"/proc/self/fd/{memory}/upper"
        for name in ("upper", "work", "root", f"upper{_RUN}"):
            os.mkdir(name, 0o755, dir_fd=memory)
        os.chmod(upper, stat.S_IMODE(machine.st_mode))
        uid, gid = (owner, owner) if owner >= 0 else (machine.st_uid, machine.st_gid)
        for folder in (upper, f"{upper}{_RUN}"):
            os.chown(folder, uid, gid)
        os.setxattr(f"{upper}{_RUN}", "trusted.overlay.opaque", b"y")
        root = _new_overlay("/", memory)
        attach(root, memory, "root")
        _attach_all(root, [(f"{_RUN[1:]}/{name}", tree) for name, tree in visible_in_run])
        for path in (*submounts, *_KERNEL_FOLDERS):
            with suppress(FileNotFoundError, PermissionError):
                move(path, root, path[1:])
        os.fchdir(root)
        pivot_to_here()
    finally:
        os.close(memory)
        if root >= 0:
            os.close(root)


def _add_home_layer(home: str) -> None:
    if os.stat(home).st_uid != os.getuid():
        return
    below = os.open(home, _FOLDER)
    memory = _new_layer()
    layer = -1
    try:
        attach(memory, AT_CWD, home)
        for name in ("upper", "work"):
            os.mkdir(name, 0o755, dir_fd=memory)
        layer = _new_overlay(f"/proc/self/fd/{below}", memory, b"userxattr")
        attach(layer, AT_CWD, home)
    except OSError:
        unmount(home)
        raise
    finally:
        for descriptor in (below, memory, layer):
            if descriptor >= 0:
                os.close(descriptor)


def _new_layer() -> int:
    return new_filesystem(b"tmpfs", ((b"mode", b"755"), (b"size", _LAYER_SIZE)))


def _cover_run(visible: Sequence[tuple[str, int]]) -> None:
    with suppress(FileNotFoundError):
        memory = new_filesystem(b"tmpfs", ((b"mode", b"755"), (b"size", _RUN_SIZE)))
        try:
            attach(memory, AT_CWD, _RUN)
            _attach_all(memory, visible)
        finally:
            os.close(memory)


def _new_overlay(lower: str, memory: int, *flags: bytes) -> int:
    place = b"/proc/self/fd/%d" % memory
    options: list[tuple[bytes, bytes | None]] = [
        (b"lowerdir", os.fsencode(lower)),
        (b"upperdir", place + b"/upper"),
        (b"workdir", place + b"/work"),
        *((flag, None) for flag in flags),
    ]
    return new_filesystem(b"overlay", tuple(options), has_devices=False)
