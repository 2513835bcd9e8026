from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from muster.embedded.node.supervisor.contract import JOURNAL, JournalEntry
from muster.embedded.node.supervisor.journal_writer import JournalWriter, short_socket_path

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
