""" """

from __future__ import annotations

import json
import os
import re
import socket
from functools import partial
from pathlib import Path

import pytest

from muster.embedded.node.supervisor.contract import JOURNAL, JournalEntry, PreparedPod
from muster.embedded.node.supervisor.journal_and_logs import (
    PART_BYTES,
    JournalWriter,
    LogStream,
    LogWriter,
    format_timestamp,
    make_log_folders,
    read_tail,
    short_socket_path,
)

ENTRIES: list[JournalEntry] = [
    {"t": 1.5, "e": "supervised", "pid": 7},
    {"t": 2.0, "e": "finished", "phase": "Succeeded"},
]


def test_one_process_has_the_journal_at_a_time(tmp_path: Path) -> None:
    journal = JournalWriter.open(str(tmp_path))
    assert journal is not None
    assert JournalWriter.open(str(tmp_path)) is None
    journal.close()
    again = JournalWriter.open(str(tmp_path))
    assert again is not None
    again.close()
    assert JournalWriter.open(str(tmp_path / "gone")) is None


def test_entries_are_lines_and_half_a_line_is_cut_off(tmp_path: Path) -> None:
    journal = JournalWriter.open(str(tmp_path))
    assert journal is not None
    assert journal.read() == []
    for entry in ENTRIES:
        journal.add(entry)
    assert journal.write()
    assert [json.loads(line) for line in (tmp_path / JOURNAL).read_text().splitlines()] == ENTRIES
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"t":3.0,"e":"star')
    assert journal.read() == ENTRIES
    journal.add({"t": 4.0, "e": "supervised", "pid": 8})
    assert journal.write()
    assert len((tmp_path / JOURNAL).read_text().splitlines()) == 3
    journal.close()


def test_entries_that_cannot_be_written_are_kept(tmp_path: Path) -> None:
    full = JournalWriter(os.open("/dev/full", os.O_RDWR))
    full.add(ENTRIES[0])
    assert not full.write()
    assert not full.write()
    full.discard(ENTRIES[0])
    assert full.write()
    full.close()


def test_notify_with_a_listener_without_one_and_with_a_busy_one(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    path = str(folder / "agent.sock")
    journal = JournalWriter.open(str(tmp_path))
    assert journal is not None
    journal.set_listener(path, "the-uid")
    assert journal.notify()  # no listener
    for _ in range(2):  # an agent, and the one after it
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as agent, short_socket_path(path) as short:
            agent.bind(short)
            while journal.notify():  # until its queue is full
                pass
            assert agent.recv(100) == b"the-uid"
            assert journal.notify()
        os.unlink(path)
        assert journal.notify()
    journal.close()


LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z) (stdout|stderr) ([FP]) (.*)", re.DOTALL)


def write(folder: Path, *chunks: bytes, max_bytes: int = 1 << 30, files: int = 3) -> None:
    log = LogWriter(str(folder), 0, max_bytes, files)
    stream = LogStream(log, "stdout")
    for chunk in chunks:
        stream.feed(chunk)
    stream.end()
    log.close()


def read(path: Path) -> list[tuple[bytes, bytes]]:
    """(F or P, text) of each line."""
    lines = path.read_bytes().split(b"\n")
    assert lines.pop() == b""
    found = [LINE.fullmatch(line) for line in lines]
    return [(match[3], match[4]) for match in found if match is not None]


def joined(path: Path) -> bytes:
    return b"".join(text if kind == b"P" else text + b"\n" for kind, text in read(path))


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\n"], [(b"F", b"a")]),
        ([b"a\nb\n\nc\n"], [(b"F", b"a"), (b"F", b"b"), (b"F", b""), (b"F", b"c")]),
        ([b"hel", b"lo\nwor", b"ld\n"], [(b"F", b"hello"), (b"F", b"world")]),
        ([b"no end"], [(b"P", b"no end")]),
        ([b"a\nno", b" end"], [(b"F", b"a"), (b"P", b"no end")]),
        ([b"\r 1%\r 2%\n"], [(b"F", b"\r 1%\r 2%")]),
        ([b"\xff\x00\n"], [(b"F", b"\xff\x00")]),
    ],
)
def test_output_is_split_into_lines(tmp_path: Path, chunks: list[bytes], lines: list[tuple[bytes, bytes]]) -> None:
    write(tmp_path, *chunks)
    assert read(tmp_path / "0.log") == lines


def test_only_a_repeated_attempt_has_a_file_without_output(tmp_path: Path) -> None:
    for attempt in range(3):
        LogWriter(str(tmp_path / "main"), attempt, 1 << 20, 2).close()
    assert sorted(path.name for path in (tmp_path / "main").iterdir()) == ["1.log", "2.log"]


def test_the_first_line_creates_the_folders_of_all_containers_and_the_links(tmp_path: Path) -> None:
    folder = tmp_path / "team" / "pod" / "uid"
    names = ("first", "second")
    pod: PreparedPod = {
        "containers": [{"name": name, "logDir": f"{folder}/{name}"} for name in names],
        "logLinks": {".default": "second", ".owner": "Workflow@1"},
    }
    logs = [LogWriter(f"{folder}/{name}", 0, 1 << 20, 2, partial(make_log_folders, pod)) for name in names]
    assert list(tmp_path.iterdir()) == []
    logs[1].write(b"a\n")
    assert sorted(path.name for path in folder.iterdir()) == [".default", ".owner", *names]
    assert os.readlink(folder / ".owner") == "Workflow@1"
    assert [path.name for path in (folder / "second").iterdir()] == ["0.log"]
    assert list((folder / "first").iterdir()) == []
    logs[0].write(b"b\n")
    assert [path.name for path in (folder / "first").iterdir()] == ["0.log"]


@pytest.mark.parametrize("size", [PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 3 * PART_BYTES, 3 * PART_BYTES + 7])
@pytest.mark.parametrize("chunk", [1000, PART_BYTES, 65536])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_long_line_is_written_in_parts(tmp_path: Path, size: int, chunk: int, end: bytes) -> None:
    data = b"before\n" + bytes(65 + i % 26 for i in range(size)) + b"\nafter" + end
    write(tmp_path, *(data[i : i + chunk] for i in range(0, len(data), chunk)))
    assert joined(tmp_path / "0.log") == data
    assert all(len(text) <= PART_BYTES for _, text in read(tmp_path / "0.log"))


def test_full_files_become_older_ones_and_the_oldest_goes(tmp_path: Path) -> None:
    line = b"x" * 59 + b"\n"  # with its time and stream, 100 bytes
    write(tmp_path, *(b"%03d" % i + line[3:] for i in range(25)), max_bytes=500, files=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.log", "0.log.1", "0.log.2", "0.log.left-out"]
    assert (tmp_path / "0.log.left-out").read_text() == "1000 500 3\n"
    texts = [[int(text[:3]) for _, text in read(tmp_path / name)] for name in ("0.log.2", "0.log.1", "0.log")]
    assert texts == [[10, 11, 12, 13, 14], [15, 16, 17, 18, 19], [20, 21, 22, 23, 24]]


def test_with_one_file_the_old_one_is_dropped(tmp_path: Path) -> None:
    write(tmp_path, *(b"%03d\n" % i for i in range(100)), max_bytes=1000, files=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.log", "0.log.left-out"]
    assert read(tmp_path / "0.log")[-1] == (b"F", b"099")


def test_a_log_that_cannot_be_written_says_so_once_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.write_text("in the way")
    log = LogWriter(str(folder), 0, 1 << 20, 2)
    stream = LogStream(log, "stdout")
    stream.feed(b"lost\n")
    folder.unlink()
    stream.feed(b"kept\n")
    log.close()
    (_, note), (_, kept) = read(folder / "0.log")
    assert note == b"[45 bytes of this log could not be written]"
    assert kept == b"kept"


def test_the_time_has_nine_digits() -> None:
    assert format_timestamp(1794781111_000000042) == "2026-11-15T22:18:31.000000042Z"
    assert format_timestamp(1794781111_999999999) == "2026-11-15T22:18:31.999999999Z"
    assert format_timestamp(1794781112_000000000) == "2026-11-15T22:18:32.000000000Z"


def test_the_tail_has_the_last_lines_without_their_times(tmp_path: Path) -> None:
    write(tmp_path, *(b"line %d\n" % i for i in range(100)), b"and half")
    text = read_tail(str(tmp_path / "0.log"))
    lines = text.splitlines()
    assert lines[-2:] == ["line 99", "and half"]
    assert len(lines) == 80


def test_the_tail_has_at_most_2048_bytes(tmp_path: Path) -> None:
    write(tmp_path, b"a" * 50000 + b"\n")
    assert read_tail(str(tmp_path / "0.log")) == "a" * 2047 + "\n"
    assert read_tail(str(tmp_path / "missing.log")) == ""


def test_a_container_that_restarts_again_and_again_keeps_its_last_logs(tmp_path: Path) -> None:
    for attempt in range(20):
        writer = LogWriter(str(tmp_path), attempt, 100, 2)
        writer.write(b"x" * 79 + b"\n")
        writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["17.log", "18.log", "19.log"]
