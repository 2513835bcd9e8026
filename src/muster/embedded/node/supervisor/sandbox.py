"""Isolates a Pod's processes from the machine's: mounts per container, and process numbers, host name and IPC per Pod.

The supervisor is process 1 of the Pod's process namespace (see zygote.py): when it dies, the kernel kills all processes
that it has started. It enters a container's mount namespace itself, starts the process from there and returns. This
saves the second copy of a Python process that a fork would need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from socket import sethostname

from muster.embedded.node.supervisor.base_namespace import BaseNamespace
from muster.embedded.node.supervisor.confinement import Confinement, confinement_of
from muster.embedded.node.supervisor.contract import Isolation, Mount, PreparedContainer, PreparedPod
from muster.embedded.node.supervisor.filesystem_view import MountFailed, Owners, Private, enter_view, new_tmpfs
from muster.embedded.node.supervisor.output_files import remove_tree
from muster.embedded.node.supervisor.processes import Command, Identity, StartError, launch
from muster.embedded.node.supervisor.rootfs import RootFs
from muster.embedded.node.supervisor.syscalls import (
    AT_CWD,
    NEW_HOSTNAME,
    NEW_IPC,
    NEW_MOUNTS,
    OWN_FOLDERS,
    attach,
    separate_mounts,
    setns,
    unshare,
)
from muster.embedded.node.supervisor.user_namespaces import UserNamespaces, container_map

CONTAINER_MARK = "MUSTER_CONTAINER"
"""Without namespaces, this environment variable marks a container's processes."""


class Sandbox:
    """The namespaces of one Pod. Creating it changes the supervisor's own namespaces."""

    def __init__(
        self,
        pod: PreparedPod,
        folder: str,
        base: BaseNamespace | None = None,
        user_namespaces: UserNamespaces | None = None,
    ) -> None:
        self.isolation: Isolation = pod["isolation"]
        self._uid = pod["uid"]
        self._mounts = list(pod.get("mounts") or ())
        self._base = base or BaseNamespace()
        self._is_restricted = bool(pod.get("restricted"))
        self._first_id = pod.get("firstId") if self.isolation == "namespaces" else None
        self._user_namespaces = user_namespaces or UserNamespaces()
        self._home = -1
        self._has_shared = False
        if self.isolation == "none":
            return
        self._has_shared = any(mount["type"] == "tmpfs" for mount in self._mounts)
        unshare(NEW_HOSTNAME | NEW_IPC | (NEW_MOUNTS if self._has_shared else 0))
        sethostname(pod["hostname"])
        if self._has_shared:
            separate_mounts()
            self._mounts = _mount_shared(self._mounts, pod["containers"], folder)
        self._home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)

    def leave(self) -> bool:
        """Call it when nothing runs in it any more. Returns whether this process is in its original namespaces
        again."""
        if self._home >= 0:
            os.close(self._home)
        return not self._has_shared

    def start(
        self,
        container: PreparedContainer,
        attempt: int,
        stdio: Sequence[int],
        cgroups: Sequence[int] = (),
        *,
        namespace: int = -1,
    ) -> tuple[int, int]:
        """Starts a container's main process. Returns its number and a descriptor of its mount namespace (-1 if it has
        none of its own), which is `namespace` if there is one from an earlier attempt. `cgroups` are descriptors of
        the files by which it joins control groups."""
        env = {**os.environ, **container["env"]} if container.get("engine") else container["env"]
        command = Command(
            container["argv"],
            env,
            container.get("cwd") or "/",
            stdio,
            self._identity(container),
            confinement=self._confinement(container),
            cgroups=cgroups,
            terminal=bool(container.get("tty")),
            creates_cwd=bool(container.get("createsCwd")),
        )
        if self._home < 0:
            if container.get("rootfs"):
                raise StartError(
                    f'root file system "{container["rootfs"]}": this machine allows no isolation (see: muster doctor)'
                )
            command.env = {**env, CONTAINER_MARK: self.mark(container, attempt)}
            return launch(command, ends_with_parent=True), -1
        if namespace >= 0:
            try:
                setns(namespace, NEW_MOUNTS)
                return launch(command, ends_with_parent=False), namespace
            finally:
                self._return()
        mounts = [*self._mounts, *(container.get("mounts") or ())]
        try:
            root, private = self._rootfs(container, attempt), _private(container, attempt)
            owners = self._owners(container)
            home, read_only = self._home_folder(container), container.get("readOnlyRoot", False)
            enter_view(self._base, mounts, root, private, owners=owners, home=home, read_only=read_only)
            namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            return launch(command, ends_with_parent=False), namespace
        except (MountFailed, OSError, StartError) as error:
            if namespace >= 0:
                os.close(namespace)
            if isinstance(error, StartError):
                raise
            raise StartError(str(error)) from None
        finally:
            self._return()

    def _return(self) -> None:
        """Returns to the supervisor's own mount namespace. A thread that has just ended may still share the folders."""
        unshare(OWN_FOLDERS)
        setns(self._home, NEW_MOUNTS)

    def _home_folder(self, container: PreparedContainer) -> str:
        """Only the home of this machine's user gets a layer where everything else has none."""
        return "" if self._is_restricted else container["env"].get("HOME", "")

    def _rootfs(self, container: PreparedContainer, attempt: int) -> RootFs | None:
        """Every attempt starts with a new layer; the layers of earlier attempts are removed."""
        path = container.get("rootfs")
        if not path:
            return None
        layers = container["rootfsLayer"]
        if attempt:
            remove_tree(layers)
        os.makedirs(f"{layers}/{attempt}")
        return RootFs(path, f"{layers}/{attempt}", self.isolation == "user-namespaces")

    def root_of(self, namespace: int) -> int:
        """Returns a descriptor of the root that a container sees. It is valid as long as `namespace` is open."""
        if namespace < 0:
            return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            setns(namespace, NEW_MOUNTS)
            return os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            self._return()

    def run_inside(
        self,
        container: PreparedContainer,
        attempt: int,
        namespace: int,
        argv: list[str],
        stdio: Sequence[int],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        terminal: bool = False,
        cgroups: Sequence[int] = (),
    ) -> int:
        """Starts another process in a running container."""
        command = Command(
            argv,
            {**container["env"], **(env or {})},
            cwd or container.get("cwd") or "/",
            stdio,
            self._identity(container),
            confinement=self._confinement(container),
            cgroups=cgroups,
            terminal=terminal,
        )
        if namespace < 0:
            command.env[CONTAINER_MARK] = self.mark(container, attempt)
            return launch(command, ends_with_parent=True)
        try:
            setns(namespace, NEW_MOUNTS)
            return launch(command, ends_with_parent=False)
        finally:
            self._return()

    def run_engine(
        self,
        container: PreparedContainer,
        attempt: int,
        argv: list[str],
        stdio: Sequence[int],
        *,
        terminal: bool = False,
    ) -> int:
        """Runs a command of the image engine that runs the container."""
        env = {**os.environ, **container["env"], CONTAINER_MARK: self.mark(container, attempt)}
        return launch(Command(argv, env, "/", stdio, Identity(None, None), terminal=terminal), ends_with_parent=True)

    def mark(self, container: PreparedContainer, attempt: int) -> str:
        return f"{self._uid}/{container['name']}/{attempt}"

    def _confinement(self, container: PreparedContainer) -> Confinement | None:
        """An image engine confines its containers itself."""
        if container.get("engine"):
            return None
        return confinement_of(
            is_restricted=self._is_restricted,
            allows_new_privileges=bool(container.get("allowsPrivilegeEscalation")),
        )

    def _owners(self, container: PreparedContainer) -> Owners | None:
        if self._first_id is None:
            return None
        return Owners(self._user_namespaces, self._first_id, container.get("uid") or 0, container.get("gid") or 0)

    def _identity(self, container: PreparedContainer) -> Identity:
        mapped = self.isolation == "user-namespaces"
        uid, gid, groups = container.get("uid"), container.get("gid"), container.get("groups") or ()
        if self._first_id is not None:
            first = self._first_id
            if uid == 0:
                # It asks to be root, so it is, in a user namespace. That takes a fork.
                namespace = self._user_namespaces.get(container_map(first))
                return Identity(0, gid or 0, groups, user_namespace=namespace, first_id=first)
            return Identity(first + (uid or 0), first + (gid or 0), [first + group for group in groups])
        return Identity(uid, gid, groups, mapped=mapped)


def _private(container: PreparedContainer, attempt: int) -> Private | None:
    """Every attempt starts with empty folders."""
    paths = container.get("private")
    if not paths:
        return None
    folder = f"{container['privateFolder']}/{attempt}"
    os.makedirs(folder)
    return Private(paths, folder)


def _mount_shared(mounts: list[Mount], containers: Sequence[PreparedContainer], folder: str) -> list[Mount]:
    """Mounts the Pod's in-memory file systems inside its folder. Returns what is left for each container to mount. (A
    mount namespace is copied with its mounts, so all containers share them.)"""
    remaining = list[Mount]()
    for index, mount in enumerate(mounts):
        if mount["type"] != "tmpfs":
            remaining.append(mount)
            continue
        place = mount["target"]
        if not place.startswith(folder + "/"):
            place = f"{folder}/memory-{index}"
            os.makedirs(place, exist_ok=True)
            read_only = bool(mount.get("readOnly"))
            remaining.append({"type": "bind", "source": place, "target": mount["target"], "readOnly": read_only})
        tree = new_tmpfs(mount.get("size"))
        attach(tree, AT_CWD, place)
        os.close(tree)
        for container in containers:
            for inside in container.get("mounts") or ():
                if inside["type"] == "bind" and inside["source"].startswith(place + "/"):
                    os.makedirs(inside["source"], mode=0o777, exist_ok=True)
    return remaining
