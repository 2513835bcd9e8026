"""Texts of other users that control the terminal of the user who reads them with the command line."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from muster.cli.output import LogWriter, echo, format_table, warn

ATTACKS = {
    "sets the clipboard": "\x1b]52;c;cm0gLXJm\x07",
    "sets the title": "\x1b]0;x\x1b\\",
    "asks for a report, which arrives as input": "\x1b[6n\x1b[21t",
    "moves the cursor over the lines above": "\x1b[5A\x1b[2K",
    "the same with an 8-bit control": "\x9b5A",
    "hides the start of the line": "bad\rgood",
    "erases characters": "bad\b\b\b",
    "changes the direction of text": "\u202egpj.exe",
}
attacks = pytest.mark.parametrize("text", ATTACKS.values(), ids=ATTACKS)
HARMFUL = ("\x1b", "\x9b", "\x07", "\b", "\r", "\u202e")


class Terminal(io.TextIOWrapper):
    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        content: Any = self.buffer
        return str(content.getvalue().decode())


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    found = Terminal()
    monkeypatch.setattr(sys, "stdout", found)
    monkeypatch.setattr(sys, "stderr", found)
    return found


@attacks
def test_cells_of_a_table(text: str) -> None:
    """A name or message in a list controls the terminal"""
    assert not any(char in format_table(["NAME"], [[text]])[1] for char in HARMFUL)
    assert "\x1b" not in format_table(["NAME"], [["\x1b[8mhidden"]])[1], "nor does it set a color"


@attacks
def test_lines_of_output(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A text that a command prints controls the terminal"""
    terminal = open_terminal(monkeypatch)
    echo(text)
    warn(text)
    assert terminal.text.count("\n") == 2
    assert not any(char in terminal.text for char in HARMFUL)


@attacks
def test_logs(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A line of a log controls the terminal, also if it arrives in pieces"""
    terminal = open_terminal(monkeypatch)
    log = LogWriter()
    for byte in f"{text}\x1b[31mred\x1b[0m\n".encode():
        log.write(bytes([byte]))
    printed = terminal.text.replace("\x1b[31m", "").replace("\x1b[0m", "")
    assert not any(char in printed for char in HARMFUL if char != "\r")
    assert terminal.text.endswith("\x1b[31mred\x1b[0m\n"), "colors stay"


def test_a_log_in_a_pipe_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """(for comparison) a program that reads a log gets every byte"""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", out)
    LogWriter().write(b"\x1b]52;c;x\x07\xff\n")
    content: Any = out.buffer
    assert content.getvalue() == b"\x1b]52;c;x\x07\xff\n"
