"""Removes what is left of a cluster whose processes have ended: mounts, sockets, control groups, network, files."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from pathlib import Path

from tools.cluster import network
from tools.cluster.layout import Layout
from tools.cluster.processes import control_groups

_CONTAINER_LOGS = Path("/var/log/containers")
_NETWORK_RESULTS = Path("/var/lib/cni/results")


def remove(layout: Layout) -> None:
    _remove_sockets(layout)
    _unmount(layout.root)
    network.remove(layout)
    _remove_control_groups(layout)
    _remove_log_links(layout)
    _remove_network_results(layout)
    if layout.root.exists():
        shutil.rmtree(layout.root)


def mounts_below(root: Path, mountinfo: str) -> list[Path]:
    """Deepest first, from the text of /proc/self/mountinfo."""
    places = (line.split(" ", 5)[4].encode().decode("unicode_escape") for line in mountinfo.splitlines())
    found = {Path(place) for place in places if Path(place).is_relative_to(root)}
    return sorted(found, key=lambda path: len(path.parts), reverse=True)


def _unmount(root: Path) -> None:
    for _ in range(5):
        mounted = mounts_below(root, Path("/proc/self/mountinfo").read_text())
        if not mounted:
            return
        for place in mounted:
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True)
    # Removing files below a mount would remove files that are not the cluster's.
    raise RuntimeError(f"these mounts of the cluster cannot be removed: {', '.join(map(str, mounted))}")


def _remove_sockets(layout: Layout) -> None:
    """containerd's shims listen at the same place for every containerd."""
    for address in (layout.root / "containerd-state").glob("io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)


def _remove_control_groups(layout: Layout) -> None:
    for group in control_groups(layout):
        if not group.exists():
            continue
        folders = sorted(group.rglob("*/"), key=lambda path: len(path.parts), reverse=True)
        for folder in [*folders, group]:
            _remove_group(folder)


def _remove_group(folder: Path) -> None:
    # A process is still counted for a moment after it has ended.
    for _ in range(100):
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return
    folder.rmdir()


def _remove_log_links(layout: Layout) -> None:
    if not _CONTAINER_LOGS.exists():
        return
    for link in _CONTAINER_LOGS.iterdir():
        if link.is_symlink() and link.readlink().is_relative_to(layout.root):
            link.unlink()


def _remove_network_results(layout: Layout) -> None:
    """The network plugins' files are in one place for all clusters. Of the two files of a Pod, only one names its
    cluster."""
    ours = re.compile(rf"{re.escape(layout.identity)}-([0-9a-f]{{64}})-\w+")
    for note in list(_NETWORK_RESULTS.glob(f"{layout.identity}-*")):
        if found := ours.fullmatch(note.name):
            note.unlink()
            (_NETWORK_RESULTS / f"cni-loopback-{found[1]}-lo").unlink(missing_ok=True)
