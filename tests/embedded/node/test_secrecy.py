"""No container can see the files of the server or of other Pods, neither by reading nor by undoing mounts."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.contract import Isolation
from tests.embedded.node.harness import Node

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="checks what root could do, were it not prevented")


@pytest.fixture(params=["/var/tmp", "/dev/shm", "/run"])
def home(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Not in /tmp, where every container has its own folder. It has its own /dev and /run, too."""
    folder = Path(tempfile.mkdtemp(prefix="muster-secrecy-", dir=request.param))
    yield folder
    shutil.rmtree(folder)


ATTEMPTS = """
for place in {home} /proc/1/root{home} /proc/1/cwd{home}; do cat $place/secret 2>/dev/null; done
umount {home} 2>/dev/null; umount -l {home} 2>/dev/null
unshare --map-root-user --mount sh -c 'umount -l {home}; cat {home}/secret' 2>/dev/null
nsenter --target 1 --mount cat {home}/secret 2>/dev/null
cat {home}/secret 2>/dev/null
touch {home}/run/shims/planted 2>/dev/null
ls {home} 2>/dev/null
echo "then: $(python3 -c 'print(6 * 7)')"
"""


@pytest.mark.parametrize("isolation", ["namespaces", "user-namespaces"])
async def test_the_home_of_the_box_is_hidden_and_stays_so(home: Path, isolation: Isolation) -> None:
    node = Node(home, isolation)
    secrets = node.settings.home
    secrets.mkdir()
    (secrets / "secret").write_text("hunter2\n")
    await node.start()
    try:
        said = await node.output("curious", "sh", "-c", ATTEMPTS.format(home=secrets))
    finally:
        await node.stop()
    assert "hunter2" not in said
    *seen, last = said.splitlines()
    assert set(seen) <= {"run"}
    assert last == "then: 42"
    assert not (secrets / "run/shims/planted").exists()
