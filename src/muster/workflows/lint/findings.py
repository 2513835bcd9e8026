"""What lint finds: a field and what is wrong with it, in Argo's words and with advice."""

from __future__ import annotations

from collections.abc import Collection

from muster.kube.causes import nearest
from muster.kube.errors import Cause

_HINTS = 20
"""How many findings get a hint: to look for what is alike takes a while."""
_CANDIDATES = 500


class Findings:
    """Collects causes. Those of another object, which a template is taken from, are told at the field that names it."""

    def __init__(self, causes: list[Cause] | None = None, at: str = "", object_name: str = "") -> None:
        self.causes: list[Cause] = [] if causes is None else causes
        self._at = at
        self._object = object_name

    def add(self, field: str, message: str) -> None:
        if self._object:
            field, message = self._at, f"in {self._object}, {field}: {message}"
        self.causes.append(Cause(field, message))

    def elsewhere(self, at: str, object_name: str) -> Findings:
        """For what is wrong in another object that the field `at` names. One that names it from there is no news to
        the reader: the field stays."""
        return Findings(self.causes, self._at if self._object else at, object_name)

    @property
    def may_hint(self) -> bool:
        return len(self.causes) < _HINTS

    def meant(self, word: str, words: Collection[str], before: str = '"', after: str = '"') -> str:
        """`; did you mean "x"?`, if something is like the word."""
        if not self.may_hint:
            return ""
        some = list(words) if len(words) <= _CANDIDATES else [w for w in words if w[:1] == word[:1]][:_CANDIDATES]
        near = nearest(word, some)
        return f"; did you mean {before}{near}{after}?" if near else ""
