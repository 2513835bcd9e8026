from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.embedded.store.database import DirectoryInUse, DirectoryLock


def test_the_directory_is_created_and_names_its_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()


def test_the_error_of_a_second_holder_names_the_process_of_the_first(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(DirectoryInUse, match=f"in use by process {os.getpid()}") as caught:
        DirectoryLock(tmp_path)
    assert caught.value.pid == os.getpid()
    lock.release()
    DirectoryLock(tmp_path).release()


def test_a_lock_without_a_readable_pid_is_still_held(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    (tmp_path / "lock").write_text("")
    with pytest.raises(DirectoryInUse, match="another process"):
        DirectoryLock(tmp_path)
    lock.release()


def test_a_killed_holder_holds_nothing(tmp_path: Path) -> None:
    program = f"""
import sys, time, pathlib
from muster.embedded.store.database import DirectoryLock
lock = DirectoryLock(pathlib.Path({str(tmp_path)!r}))
print("held", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(DirectoryInUse) as caught:
            DirectoryLock(tmp_path)
        assert caught.value.pid == holder.pid
        holder.kill()
        holder.wait()
    DirectoryLock(tmp_path).release()
