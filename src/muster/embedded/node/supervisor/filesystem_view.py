"""A container's view of the file system: the machine's files or a given root, with its mounts on top.

The view is built in a copy of the base namespace (see base_namespace.py), so nothing that the container or a mount
point needs is created on the machine: only inside volumes (as in Kubernetes), in the container's layer, and in memory.
Where there is no layer, a folder that lacks an entry is covered with a new one, in memory, into which all its entries
are bind-mounted beside the missing one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Sequence
from contextlib import suppress
from errno import EINVAL, ELOOP, ENOENT, ENOSPC, EOVERFLOW, EROFS
from typing import Literal, NamedTuple

from muster.embedded.node.supervisor.base_namespace import BaseNamespace
from muster.embedded.node.supervisor.contract import Mount
from muster.embedded.node.supervisor.rootfs import RootFs, open_rootfs
from muster.embedded.node.supervisor.syscalls import (
    AT_CWD,
    attach,
    clone_tree,
    make_read_only,
    map_owners,
    move,
    new_filesystem,
    pivot_to_here,
)
from muster.embedded.node.supervisor.user_namespaces import UserNamespaces, container_map, owner_map

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_PROC = "/proc/self/fd"
_MAX_LINKS = 40
_MAX_COVERED = 4096
_SCRATCH = ("etc", "run", "usr", "var")
"""What a container writes in these folders, or in the root, is not expected to last."""


class MountFailed(Exception):
    """The message says which mount failed, and why."""


class Private(NamedTuple):
    """Paths that the container may create or write without any other process seeing it, and the folder where they are
    stored."""

    paths: Sequence[str]
    folder: str


class Owners(NamedTuple):
    """Who owns the files of a container with ids of its own: its root is `first_id` on the machine, its user `uid` and
    `gid` inside."""

    namespaces: UserNamespaces
    first_id: int
    uid: int
    gid: int

    def map(self, tree: int, how: Literal["same", "folder"]) -> None:
        """Shows the owners of the files in a detached tree as ids of the container. Some file systems cannot do that:
        then the container has the rights that everyone has there."""
        status = os.fstat(tree)
        ids = container_map(self.first_id)
        if how == "folder":
            ids = owner_map(self.first_id, self.uid, self.gid, status.st_uid, status.st_gid)
        with suppress(OSError):
            map_owners(tree, self.namespaces.get(ids))


class _PrivateFolder(NamedTuple):
    names: tuple[str, ...]
    without: set[str]
    sealed: bool


def enter_view(
    base: BaseNamespace,
    mounts: Sequence[Mount],
    root: RootFs | None = None,
    private: Private | None = None,
    *,
    owners: Owners | None = None,
    home: str = "",
    read_only: bool = False,
) -> None:
    """Enters a new mount namespace with the `mounts`, in this order, and with `root` as the root, unless it is None.
    Call it in the machine's namespace. `home` gets a layer for writing where there is none over everything. With
    `read_only`, the root and the mounts that stand for parts of it cannot be written to."""
    view = _View(owners)
    try:
        # Sources are paths of the machine, so all are opened while this process is there.
        trees = [view.open_source(mount) for mount in mounts]
        root_tree = view.open_root(root) if root is not None else -1
        store = view.track(clone_tree(AT_CWD, private.folder)) if private is not None else -1
        base.enter()
        if root is not None:
            view.enter_root(root, root_tree)
        elif base.add_layer(owners.first_id if owners is not None else -1, home):
            view.add_layer()
        if owners is not None:
            _name_user(owners.first_id + owners.uid, owners.first_id + owners.gid)
        processes = os.stat(_PROC).st_dev
        trees = [view.open_own(mount) if tree < 0 else tree for mount, tree in zip(mounts, trees, strict=True)]
        own = view.plan_private(private.paths) if private is not None else []
        if own:
            view.attach_store(store)
        view.make_private([folder for folder in own if not folder.names], store)
        view.make_mount_points(mounts, trees)
        view.make_private([folder for folder in own if folder.names], store)
        for mount, tree in zip(mounts, trees, strict=True):
            view.mount(mount, tree)
        view.finish()
        if read_only:
            parts = [tree for mount, tree in zip(mounts, trees, strict=True) if mount.get("partOfRoot")]
            for tree in (*parts, view.track(os.open("/", _PATH))):
                make_read_only(tree, recursive=False)
        if os.stat(_PROC).st_dev != processes:
            # The supervisor and every program rely on it.
            raise MountFailed("nothing can be mounted over /proc")
    finally:
        view.close()


def resolve_in_root(root: int, path: str) -> tuple[list[int], list[str], list[str]]:
    """Resolves `path` with `root` as the root: neither links nor `..` leave it. Returns the descriptors from the root
    down to what exists, their names, and the names that are missing below."""
    opened, names = [os.dup(root)], list[str]()
    todo = path.split("/")[::-1]
    links = 0
    try:
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if names:
                    os.close(opened.pop())
                    names.pop()
                continue
            try:
                descriptor = os.open(name, _PATH, dir_fd=opened[-1])
            except FileNotFoundError:
                return opened, names, [name, *(n for n in reversed(todo) if n not in ("", "."))]
            if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
                opened.append(descriptor)
                names.append(name)
                continue
            to = os.readlink("", dir_fd=descriptor)
            os.close(descriptor)
            links += 1
            if links > _MAX_LINKS:
                raise OSError(ELOOP, os.strerror(ELOOP), path)
            if to.startswith("/"):
                _close(opened[1:])
                del opened[1:], names[:]
            todo += to.split("/")[::-1]
    except BaseException:
        _close(opened)
        raise
    return opened, names, []


class _View:
    def __init__(self, owners: Owners | None = None) -> None:
        self._owners = owners
        self._open: list[int] = []
        self._volumes: list[int] = []
        """Descriptors of what is mounted. Mount points may be created inside."""
        self._volume_mounts: list[bytes] = []
        """The ids of the first of these mounts, as far as they were needed."""
        self._protected: list[int] = []
        """Covers of folders that users may keep files in. What a program writes there would be lost, so they become
        read-only."""
        self._root = -1
        """-1 means the root of this process, where the kernel can resolve paths."""

    def track(self, descriptor: int) -> int:
        self._open.append(descriptor)
        return descriptor

    def close(self) -> None:
        _close(self._open)

    def open_source(self, mount: Mount) -> int:
        """Returns the source of a mount as a detached tree, or -1 if the container's own root has it."""
        kind = mount["type"]
        if kind == "own":
            return -1
        if kind == "tmpfs":
            owner = self._owners.first_id if self._owners is not None and mount.get("isHome") else None
            return self.track(new_tmpfs(mount.get("size"), owner))
        source, within = mount["source"], mount.get("within")
        try:
            tree = self.track(self._clone_within(source, within) if within else clone_tree(AT_CWD, source))
        except OSError as error:
            raise MountFailed(f"{self._describe(mount)}: {_reason(error)}") from None
        if self._owners is not None and (how := mount.get("owners")):
            self._owners.map(tree, how)
        return tree

    def _clone_within(self, source: str, within: str) -> int:
        opened, _, missing = resolve_in_root(self.track(os.open(within, _PATH)), os.path.relpath(source, within))
        self._open += opened
        if missing:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        return clone_tree(opened[-1], "")

    def open_own(self, mount: Mount) -> int:
        try:
            return self.track(clone_tree(AT_CWD, mount["target"]))
        except OSError as error:
            raise MountFailed(f'"{mount["target"]}": {_reason(error)}') from None

    def open_root(self, root: RootFs) -> int:
        try:
            return self.track(open_rootfs(root))
        except OSError as error:
            raise MountFailed(f'root file system "{root.path}": {_reason(error)}') from None

    def enter_root(self, root: RootFs, tree: int) -> None:
        """The tree becomes the root, with the devices, /proc and /sys of the base namespace. Mount points can be
        created in it."""
        self._root = tree
        self._volumes.append(tree)
        try:
            attach(tree, AT_CWD, root.path)
            for folder in ("/dev", "/sys", "/proc"):
                point = self._find_mount_point(folder, folder=True)
                move(folder, point)
        except OSError as error:
            raise MountFailed(f'root file system "{root.path}": {_reason(error)}') from None
        self.finish()
        self._root = -1

    def add_layer(self) -> None:
        """The root takes new entries."""
        self._volumes.append(self.track(os.open("/", _PATH)))

    def attach_store(self, store: int) -> None:
        """Only a tree that is mounted can be cloned again. The container's own /tmp will cover it."""
        attach(store, AT_CWD, "/tmp")

    def make_mount_points(self, mounts: Sequence[Mount], trees: list[int]) -> None:
        """Creates the mount points that are missing and not inside another mount. Covering a folder moves everything
        mounted below to a new mount, so this comes before the first volume."""
        above = list[str]()
        for mount, tree in zip(mounts, trees, strict=True):
            target = mount["target"]
            if not target.startswith(tuple(above)) and not (self._root < 0 and os.access(target, os.F_OK)):
                try:
                    self._find_mount_point(target, stat.S_ISDIR(os.fstat(tree).st_mode))
                except OSError as error:
                    raise MountFailed(f'mount point "{target}": {_reason(error)}') from None
            above.append(target.rstrip("/") + "/")

    def plan_private(self, paths: Sequence[str]) -> list[_PrivateFolder]:
        """Plans a private folder for the parent of each path, or for its nearest ancestor that exists. If the path
        itself is a folder, it becomes private, too: its entries can be read, but not changed. If it is a file, it is
        left out, as if the container had yet to write it."""
        folders: dict[tuple[str, ...], set[str]] = {}
        sealed = set[tuple[str, ...]]()
        for path in paths:
            names, is_missing, is_folder = self._look_up(path)
            if is_folder:
                folders.setdefault(names, set())
                if not is_missing:
                    sealed.add(names)
            elif not is_missing:
                folders.setdefault(names[:-1], set()).add(names[-1])
        return [_PrivateFolder(names, folders[names], names in sealed) for names in sorted(folders, key=len)]

    def make_private(self, folders: Sequence[_PrivateFolder], store: int) -> None:
        """Covers the folders. The root comes before mount points are created, the others after that: covering a folder
        moves what is mounted below, including other covers."""
        for folder in folders:
            place = str(len(self._volumes))
            os.mkdir(place, dir_fd=store)
            self._give(place, store)
            opened, found, _ = resolve_in_root(self._root_descriptor(), "/".join(folder.names))
            self._open += opened
            if tuple(found) == folder.names:
                tree = self.track(clone_tree(store, place))
                self._cover(opened[-1], found, tree, without=folder.without, sealed=folder.sealed)

    def _look_up(self, path: str) -> tuple[tuple[str, ...], bool, bool]:
        """Returns the names of what exists of a path, whether something is missing below, and whether it is a
        folder."""
        try:
            opened, names, missing = resolve_in_root(self._root_descriptor(), path)
        except OSError as error:
            raise MountFailed(f'"{path}": {_reason(error)}') from None
        self._open += opened
        return tuple(names), bool(missing), stat.S_ISDIR(os.fstat(opened[-1]).st_mode)

    def _root_descriptor(self) -> int:
        return self._root if self._root >= 0 else self.track(os.open("/", _PATH))

    def mount(self, mount: Mount, tree: int) -> None:
        folder = stat.S_ISDIR(os.fstat(tree).st_mode)
        try:
            self.place(tree, mount["target"], folder=folder)
            if mount.get("readOnly"):
                make_read_only(tree)
        except OSError as error:
            reason = _reason(error)
            if error.errno == EINVAL:
                reason = "a folder cannot be mounted on a file" if folder else "a file cannot be mounted on a folder"
            raise MountFailed(f"{self._describe(mount)}: {reason}") from None

    def _describe(self, mount: Mount) -> str:
        """Members are not told where the server keeps its files."""
        if self._owners is not None:
            return f'mount at "{mount["target"]}"'
        return f'mount of "{mount.get("source") or mount["type"]}" at "{mount["target"]}"'

    def place(self, tree: int, target: str, *, folder: bool) -> None:
        self._volumes.append(tree)
        if self._root < 0:
            with suppress(FileNotFoundError):
                return attach(tree, AT_CWD, target)
        return attach(tree, self._find_mount_point(target, folder))

    def protect(self) -> None:
        for cover in self._protected:
            make_read_only(cover, recursive=False)
        self._protected.clear()

    def finish(self) -> None:
        self.protect()
        if self._root >= 0:
            os.fchdir(self._root)
            pivot_to_here()

    def _find_mount_point(self, target: str, folder: bool) -> int:
        opened, names, missing = resolve_in_root(self._root_descriptor(), target)
        self._open += opened
        return self._make_mount_point(opened[-1], names, missing, folder) if missing else opened[-1]

    def _make_mount_point(self, above: int, names: list[str], missing: list[str], folder: bool) -> int:
        if ".." in missing:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        if self._is_in_volume(above):
            try:
                return self._make_inside(above, missing, folder)
            except PermissionError:
                pass
            except OSError as error:
                if error.errno not in (EROFS, EOVERFLOW):  # of a file system that does not map our own id
                    raise
        return self._make_inside(self._cover(above, names), missing, folder)

    def _make_inside(self, above: int, missing: list[str], folder: bool) -> int:
        *between, last = missing
        for name in between:
            above = self._make_folder(above, name)
        if folder:
            return self._make_folder(above, last)
        with suppress(FileExistsError):
            os.close(os.open(last, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=above))
        return self.track(os.open(last, _PATH, dir_fd=above))

    def _make_folder(self, above: int, name: str) -> int:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=above)
            self._give(name, above)
        return self.track(os.open(name, _PATH | os.O_DIRECTORY, dir_fd=above))

    def _give(self, name: str, above: int) -> None:
        """Gives a folder that was created for the container to its root."""
        if self._owners is not None:
            os.chown(name, self._owners.first_id, self._owners.first_id, dir_fd=above, follow_symlinks=False)

    def _is_in_volume(self, descriptor: int) -> bool:
        for volume in self._volumes[len(self._volume_mounts) :]:
            self._volume_mounts.append(_mount_id(volume))
        return _mount_id(descriptor) in self._volume_mounts

    def _cover(
        self, covered: int, names: list[str], own: int = -1, *, without: Container[str] = (), sealed: bool = False
    ) -> int:
        """Covers a folder with one that has the same entries and takes new ones: in memory, or in the container's `own`
        folder, to which the container may add entries itself. The entries of a `sealed` one are read-only."""
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=covered)
        try:
            with os.scandir(listing) as found:
                entries = [
                    (e.name, e.is_symlink(), e.is_dir(follow_symlinks=False)) for e in found if e.name not in without
                ]
        finally:
            os.close(listing)
        if len(entries) > _MAX_COVERED:
            raise OSError(
                ENOSPC, f"it does not exist, and /{'/'.join(names)} has too many entries to add it in memory; create it"
            )
        status = os.fstat(covered)
        mode = stat.S_IMODE(status.st_mode)
        if own >= 0:
            cover = own
            os.chmod(f"/proc/self/fd/{own}", mode)
        else:
            cover = self.track(new_filesystem(b"tmpfs", ((b"mode", b"%o" % mode),)))
        attach(cover, covered)
        for name, is_link, is_folder in entries:
            if is_link:
                os.symlink(os.readlink(name, dir_fd=covered), name, dir_fd=cover)
                continue
            if is_folder:
                os.mkdir(name, 0o755, dir_fd=cover)
            else:
                os.mknod(name, 0o644, dir_fd=cover)
            tree = clone_tree(covered, name)
            try:
                attach(tree, cover, name)
                if sealed:
                    make_read_only(tree)
            finally:
                os.close(tree)
        self._volumes.append(cover)
        if not names:
            self._root = cover
        elif own < 0 and names[0] not in _SCRATCH:
            self._protected.append(cover)
        return cover


def _name_user(uid: int, gid: int) -> None:
    """Programs look up the name of their user. Where there is no layer, it has none."""
    for path, line in (("/etc/passwd", f"user:x:{uid}:{gid}::/:/bin/sh\n"), ("/etc/group", f"user:x:{gid}:\n")):
        with suppress(OSError), open(path, "a") as file:
            file.write(line)


def new_tmpfs(size: int | None, owner: int | None = None) -> int:
    """For all users, or for one `owner`."""
    options: list[tuple[bytes, bytes | None]] = [(b"mode", b"1777" if owner is None else b"755")]
    if owner is not None:
        options += [(b"uid", b"%d" % owner), (b"gid", b"%d" % owner)]
    if size:
        options.append((b"size", b"%d" % size))
    return new_filesystem(b"tmpfs", tuple(options))


def _mount_id(descriptor: int) -> bytes:
    # Python's own `open` takes several times as long.
    file = os.open(f"/proc/self/fdinfo/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return next(line for line in os.read(file, 4096).split(b"\n") if line.startswith(b"mnt_id:"))
    finally:
        os.close(file)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
