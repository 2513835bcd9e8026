from __future__ import annotations

from pathlib import Path

from tools.cluster.remains import mounts_below


def test_mounts_below_a_folder_come_deepest_first() -> None:
    lines = [
        f"36 25 0:31 / {place} rw,relatime shared:1 - tmpfs tmpfs rw"
        for place in ("/", "/var/lib/c", "/var/lib/c/pods/1", "/var/lib/c/pods/1/a\\040b", "/var/lib/cde")
    ]
    found = mounts_below(Path("/var/lib/c"), "\n".join(lines))
    assert found == [Path("/var/lib/c/pods/1/a b"), Path("/var/lib/c/pods/1"), Path("/var/lib/c")]
