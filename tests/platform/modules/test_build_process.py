from __future__ import annotations

from pathlib import Path

import pytest

from muster.platform.modules import build_process
from muster.platform.modules.build_process import BuildLog, mask_line, read_log


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing to hide", "nothing to hide"),
        ("the token is hunter2!", "the token is ***!"),
        ("hunter22 is longer", "*** is longer"),
        ("fetching https://ann:secret@git.example/a", "fetching https://***@git.example/a"),
        ("> Authorization: Basic YW5u", "> Authorization: Basic ***"),
        ("authorization: bearer abc.def", "authorization: bearer ***"),
        ("\x1b[31mred\x1b[0m \x1b[2Jgone\x07", "red gone"),
        ("no is too short", "no is too short"),
    ],
)
def test_masking(text: str, expected: str) -> None:
    assert mask_line(text, ["hunter2", "hunter22", "no", ""]) == expected


def test_a_secret_in_several_chunks_is_masked(tmp_path: Path) -> None:
    log = BuildLog(tmp_path / "log", ["hunter2"])
    for piece in (b"it is hun", b"ter", b"2\r\nfine\r", b"end"):
        log.write(piece)
    log.close()
    assert (tmp_path / "log").read_text() == "it is ***\nfine\nend\n"


def test_a_secret_of_several_lines_is_masked_line_by_line(tmp_path: Path) -> None:
    log = BuildLog(tmp_path / "log", ["-----BEGIN\nabcdefgh\n-----END"])
    log.write(b"key:\nabcdefgh\n")
    log.close()
    assert (tmp_path / "log").read_text() == "key:\n***\n"


def test_long_lines_are_truncated_and_a_full_log_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_process, "LONGEST_LINE", 100)
    monkeypatch.setattr(build_process, "MOST_BYTES", 300)
    log = BuildLog(tmp_path / "log", ["hunter2"])
    log.write(b"x" * 98 + b"hunter2" + b"y" * 98)
    for _ in range(10):
        log.say("z" * 90)
    log.close()
    lines = (tmp_path / "log").read_text().splitlines()
    assert "hunter2" not in "".join(lines)
    assert max(map(len, lines)) <= 110
    assert lines[-1] == "the log is full; what follows is left out"


def test_a_log_continues_after_the_server_was_killed_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntw")
    log = BuildLog(tmp_path / "log")
    log.say("three")
    log.close()
    assert (tmp_path / "log").read_text() == "one\ntw\nthree\n"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, ("one\ntwo\n", 8)), (4, ("two\n", 8)), (8, ("", 8)), (5, ("one\ntwo\n", 8)), (99, ("one\ntwo\n", 8))],
)
def test_reading_from_an_offset(tmp_path: Path, offset: int, expected: tuple[str, int]) -> None:
    (tmp_path / "log").write_text("one\ntwo\nth")
    assert read_log(tmp_path / "log", offset) == expected
    assert read_log(tmp_path / "none", offset) == ("", 0)
