"""Pods of a user who is not root and has no particular rights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
SOURCES = Path(__file__).parents[4] / "src"

PROGRAM = """
import asyncio, json, os, sys
sys.path.insert(0, sys.argv[1])
from muster.embedded.node.isolation import probe_isolation
from muster.embedded.node.supervisor_client import ZygoteClient

home, pods = sys.argv[2], json.loads(sys.argv[3])
isolation, why = probe_isolation()
if isolation == "none":
    print(json.dumps({"skip": why}))
    sys.exit()

async def run(zygote, name, container):
    folder = f"{home}/{name}"
    os.makedirs(f"{folder}/tmp")
    for name_ in ("message", "journal"):
        open(f"{folder}/{name_}", "w").close()
    mounts = [
        {"type": "bind", "source": f"{folder}/tmp", "target": "/tmp"},
        {"type": "bind", "source": f"{folder}/message", "target": "/dev/termination-log"},
    ]
    main = {
        "name": "main", "role": "main", "env": {"PATH": "/usr/bin:/bin"}, "cwd": "/", "logDir": f"{folder}/logs",
        "mounts": mounts, "terminationMessageFile": f"{folder}/message", **container,
    }
    pod = {
        "uid": f"nobody-{name}", "name": name, "hostname": name, "restartPolicy": "Never", "grace": 1.0,
        "isolation": isolation, "containers": [main], "notify": "", "logFileBytes": 1 << 20, "logFiles": 2,
        "backoffBase": 1.0, "backoffMax": 1.0,
    }
    with open(f"{folder}/pod.json", "w") as file:
        json.dump(pod, file)
    await zygote.start(folder)
    for _ in range(3000):
        with open(f"{folder}/journal") as file:
            entries = [json.loads(line) for line in file]
        if entries and entries[-1]["e"] == "finished":
            break
        await asyncio.sleep(0.01)
    log = []
    if os.path.exists(f"{folder}/logs/0.log"):
        with open(f"{folder}/logs/0.log") as file:
            log = [line.rstrip("\\n").split(" ", 3)[3] for line in file]
    end = next(e for e in entries if e["e"] == "exited")
    return {"log": log, "code": end["code"], "reason": end["reason"], "message": end.get("message")}

async def main():
    zygote = ZygoteClient(isolation)
    print(json.dumps({name: await run(zygote, name, container) for name, container in pods.items()}))
    zygote.close()

asyncio.run(main())
"""


def as_nobody(home: Path, pods: dict[str, Any]) -> dict[str, Any]:
    """Runs these Pods one after the other and returns the outcome of each."""
    program = [_python_for_all(), "-c", PROGRAM, str(SOURCES), str(home), json.dumps(pods)]
    user: Any = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
    done = subprocess.run(program, capture_output=True, text=True, check=False, cwd="/", **user)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    if "skip" in found:
        pytest.skip(f"needs isolation without root: {found['skip']}")
    return found


def _python_for_all() -> str:
    if os.getuid() != 0:
        return sys.executable
    for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
        check = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); import muster; sys.exit(sys.version_info < (3, 11))"
        try:
            subprocess.run([python, "-c", check], user=NOBODY, check=True, capture_output=True, cwd="/")
        except (OSError, subprocess.CalledProcessError):
            continue
        return python
    pytest.skip("no Python 3.11, or not this checkout, that a user other than root may read")


@pytest.fixture
def home() -> Iterator[Path]:
    """Not in pytest's own folder, which only root can enter."""
    with tempfile.TemporaryDirectory(prefix="muster-nobody-") as path:
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)
        yield Path(path)


def test_a_user_without_rights_gets_isolated_pods(home: Path) -> None:
    inside = "hostname; id -u; echo $$; echo x > /tmp/out.txt; echo bye > /dev/termination-log; exit 3"
    extra = [{"type": "bind", "source": "/usr", "target": "/muster-nobody"}]
    eat = "import time; x = b'x' * (300 << 20); time.sleep(60)"
    found = as_nobody(
        home,
        {
            "one": {"argv": ["sh", "-c", inside]},
            "rooted": {"argv": ["id", "-u"], "uid": 0, "gid": 0},
            "renamed": {"argv": ["sh", "-c", "id -u; id -g"], "uid": 1234, "gid": 2345},
            "mounted": {"argv": ["ls", "/muster-nobody"], "mounts": extra},
            "hungry": {"argv": ["python3", "-c", eat], "memoryLimit": 64 << 20},
        },
    )
    own = NOBODY if os.getuid() == 0 else os.getuid()
    assert found["one"]["log"][:2] == ["one", str(own)]
    assert int(found["one"]["log"][2]) < 10
    assert (found["one"]["code"], found["one"]["message"]) == (3, "bye\n")
    assert found["rooted"]["log"] == ["0"]
    assert found["renamed"]["log"] == ["1234", "2345"]
    assert "bin" in found["mounted"]["log"]
    assert not os.path.exists("/muster-nobody")
    assert (found["hungry"]["code"], found["hungry"]["reason"]) == (137, "OOMKilled")


def test_a_user_has_root_file_systems_that_pods_do_not_share(home: Path) -> None:
    root = home / "root"
    root.mkdir()
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "data").write_text("original\n")
    if os.getuid() == 0:
        for path in (root, root / "data"):
            os.chown(path, NOBODY, NOBODY)
    before = sorted(os.listdir(root))
    script = "cat /data; echo $0 > /data; echo $0 > /new; cat /data /new; ls -d /other 2>/dev/null; touch /other"
    mounts = [{"type": "bind", "source": "/usr", "target": "/usr"}]
    found = as_nobody(
        home,
        {
            name: {"argv": ["sh", "-c", script, name], "rootfs": str(root), "rootfsLayer": f"{home}/layer-{name}",
                   "mounts": mounts}
            for name in ("one", "two")
        },
    )  # fmt: skip
    for name in ("one", "two"):
        assert found[name]["log"] == ["original", name, name], found[name]
    assert sorted(os.listdir(root)) == before
    assert (root / "data").read_text() == "original\n"
