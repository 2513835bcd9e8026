"""The error of every language here: what is wrong with an expression, and where."""

from __future__ import annotations

from muster.workflows.lang.go_strings import replace_invalid_bytes

_LONGEST = 4000
"""Characters of a message: values stand in some of them, and those can be megabytes."""
_WIDEST = 200
"""Characters of the text shown on either side of the caret."""


class ExpressionError(ValueError):
    """An expression that cannot be read or evaluated.

    `message` is one line, as Argo puts it into a node's message; `str()` adds the place, a caret below the text, and a
    hint, if there is one.
    """

    def __init__(self, message: str, text: str = "", at: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = replace_invalid_bytes(message if len(message) <= _LONGEST else message[:_LONGEST] + "...")
        self.text = text
        self.at = at
        self.hint = hint

    @property
    def place(self) -> tuple[int, int] | None:
        """(line, column), both from one, where the text went wrong."""
        if self.at is None:
            return None
        before = self.text[: self.at]
        return before.count("\n") + 1, self.at - (before.rfind("\n") + 1) + 1

    def __str__(self) -> str:
        hint = f"\n{self.hint}" if self.hint else ""
        place = self.place
        line, column = place or (1, 1)
        shown = self.text.split("\n")[line - 1].replace("\t", " ")
        if place is None or not shown:
            return self.message + hint
        start = max(column - _WIDEST, 0) if len(shown) > 2 * _WIDEST else 0
        before = "..." if start else ""
        shown = before + shown[start : start + 2 * _WIDEST]
        return f"{self.message} ({line}:{column})\n | {shown}\n | {'.' * (column - 1 - start + len(before))}^{hint}"

    def within(self, text: str, at: int) -> ExpressionError:
        """The same complaint about a function's argument or a value, placed in the expression that used it."""
        return self if self.at is not None else ExpressionError(self.message, text, at, self.hint)


class MissingVariable(ExpressionError):
    """A tag or an expression names a variable that is not there yet. Once it is, the same text may well resolve."""
