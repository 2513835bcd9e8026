from __future__ import annotations

from muster.cli.output import TableWriter, colorize, format_table


def test_columns_are_three_spaces_apart_and_the_last_is_not_padded() -> None:
    assert format_table(["NAME", "READY", "AGE"], [("x", "1/1", "3s"), ("longer-name", "0/1", "12m")]) == [
        "NAME          READY   AGE",
        "x             1/1     3s",
        "longer-name   0/1     12m",
    ]


def test_later_rows_are_aligned_and_headers_are_printed_once() -> None:
    writer = TableWriter(["NAME", "STATUS"])
    assert writer.lines([("a-long-name", "Pending")]) == ["NAME          STATUS", "a-long-name   Pending"]
    assert writer.lines([("b", "Running")]) == ["b             Running"]


def test_cells_are_one_line_and_mark_missing_values() -> None:
    assert format_table(["A", "B", "C"], [(None, True, "one\ntwo")])[1] == "<none>   true   one..."


def test_wide_characters_take_two_columns() -> None:
    assert format_table(["Name", "Age"], [("训练", "1s"), ("abcd", "2s")])[1:] == ["训练   1s", "abcd   2s"]


def test_colors_are_optional() -> None:
    assert colorize("x", "red", on=False) == "x"
    assert colorize("x", "red", on=True) == "\x1b[31mx\x1b[0m"
