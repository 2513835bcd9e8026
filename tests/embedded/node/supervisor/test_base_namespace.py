from __future__ import annotations

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
