"""The error of every language here: what is wrong with an expression, and where."""

from __future__ import annotations

from muster.workflows.lang.go_strings import replace_invalid_bytes

_MAX_MESSAGE = 4000
"""Characters of a message. Some contain values, which can be megabytes."""
_MAX_CONTEXT = 200
"""Characters of the text shown on either side of the caret."""


class ExpressionError(ValueError):
    """An expression is invalid or its evaluation failed.

    `message` is one line, as Argo writes it into a node's message. `str()` adds the position, a caret below the text,
    and a hint, if there is one.
    """

    def __init__(self, message: str, text: str = "", at: int | None = None, hint: str = "") -> None:
        super().__init__(message)
        shortened = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + "..."
        self.message = replace_invalid_bytes(shortened)
        self.text = text
        self.at = at
        self.hint = hint

    @property
    def position(self) -> tuple[int, int] | None:
        """Line and column of the error, both from one."""
        if self.at is None:
            return None
        before = self.text[: self.at]
        return before.count("\n") + 1, self.at - (before.rfind("\n") + 1) + 1

    def __str__(self) -> str:
        hint = f"\n{self.hint}" if self.hint else ""
        position = self.position
        line, column = position or (1, 1)
        shown = self.text.split("\n")[line - 1].replace("\t", " ")
        if position is None or not shown:
            return self.message + hint
        start = max(column - _MAX_CONTEXT, 0) if len(shown) > 2 * _MAX_CONTEXT else 0
        before = "..." if start else ""
        shown = before + shown[start : start + 2 * _MAX_CONTEXT]
        return f"{self.message} ({line}:{column})\n | {shown}\n | {'.' * (column - 1 - start + len(before))}^{hint}"

    def with_position(self, text: str, at: int) -> ExpressionError:
        """Returns the error with a position in the expression, unless it has one already."""
        return self if self.at is not None else ExpressionError(self.message, text, at, self.hint)


class MissingVariable(ExpressionError):
    """A tag or an expression names a variable that does not exist yet. The text may resolve once it does."""
