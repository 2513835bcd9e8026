from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.base_namespace import topmost_mounts

MOUNTS = r"""22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
23 22 0:5 / /proc rw - proc proc rw
24 22 0:6 / /sys rw - sysfs sysfs rw
25 24 0:7 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw
26 22 0:8 / /dev rw - devtmpfs udev rw
27 26 0:9 / /dev/shm rw - tmpfs tmpfs rw
28 22 0:10 / /run rw - tmpfs tmpfs rw
29 28 0:11 / /run/user/1000 rw - tmpfs tmpfs rw
30 22 8:1 / /home rw - ext4 /dev/sda1 rw
31 30 8:2 / /home/data rw - ext4 /dev/sda2 rw
32 22 8:3 / /homes rw - ext4 /dev/sda3 rw
33 22 8:4 / /mnt/a\040disk rw - ext4 /dev/sda4 rw
34 22 8:5 / /etc/resolv.conf rw - ext4 /dev/sda5 rw
"""


def test_mounts_are_moved_with_what_is_below_them() -> None:
    assert topmost_mounts(MOUNTS) == ("/etc/resolv.conf", "/home", "/homes", "/mnt/a disk")


LAYER_FAILS = """
import os, sys
from errno import EINVAL
from muster.embedded.node.supervisor import base_namespace
from muster.embedded.node.supervisor.filesystem_view import new_tmpfs
from muster.embedded.node.supervisor.syscalls import AT_CWD, NEW_MOUNTS, attach, separate_mounts
from muster.embedded.node.supervisor.syscalls import setns, unmount, unshare

def refuse():
    raise OSError(EINVAL, "refused")

disk, other = sys.argv[1:]
unshare(NEW_MOUNTS)
separate_mounts()
for folder in (disk, other):
    attach(new_tmpfs(None), AT_CWD, folder)
open(f"{disk}/data", "w").close()
machine = os.open("/proc/self/ns/mnt", os.O_RDONLY)
base = base_namespace.BaseNamespace()
base.enter()
if os.fork() == 0:
    setns(machine, NEW_MOUNTS)
    unmount(other)
    os._exit(0)
os.wait()
base_namespace.pivot_to_here = refuse
print(base.add_layer(-1, ""), os.listdir(disk), os.listdir(other))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a disk")
def test_a_layer_that_fails_while_mounts_change_hides_no_disk(tmp_path: Path) -> None:
    folders = tmp_path / "disk", tmp_path / "other"
    for folder in folders:
        folder.mkdir()
    done = subprocess.run([sys.executable, "-c", LAYER_FAILS, *folders], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False ['data'] []\n", "")
