"""Keeps secrets out of what is shown: logs, messages, values.

Which texts are secret is written into the run's own Secret, and nowhere else.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import orjson

from muster.kube.objects import Object
from muster.platform.graphs.bindings import TOKEN

MASK = "***"
KEY = "masked"
SHORTEST = 4
"""Shorter texts occur everywhere; masking them would reveal where."""

_TOKEN = re.compile(r"mst_[0-9a-f]{64}")


def with_masks(secret: Object, values: Iterable[str]) -> Object:
    """Adds the list of secret texts to the Secret of a run."""
    texts = sorted({line for value in values for line in (value, *value.splitlines()) if len(line) >= SHORTEST})
    data = {**secret["data"], KEY: _encoded(orjson.dumps(texts).decode())}
    return {**secret, "data": data}


def with_token(secret: Object, token: str) -> Object:
    return {**secret, "data": {**secret["data"], TOKEN: _encoded(token)}}


class Masks:
    def __init__(self, texts: Iterable[str] = ()) -> None:
        # The longest first: one text may be the start of another.
        longest = sorted((text for text in texts if len(text) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join([*map(re.escape, longest), _TOKEN.pattern]))

    @classmethod
    def of(cls, secret: Object | None) -> Masks:
        data = (secret or {}).get("data") or {}
        texts = orjson.loads(b64decode(data[KEY])) if KEY in data else []
        if data.get(TOKEN):
            texts = [*texts, b64decode(data[TOKEN]).decode()]
        return cls(texts)

    def text(self, shown: str) -> str:
        return self._pattern.sub(MASK, shown)

    def anything(self, shown: Any) -> Any:
        """Masks all texts in a JSON value."""
        if isinstance(shown, str):
            return self.text(shown)
        if isinstance(shown, dict):
            return {key: self.anything(value) for key, value in shown.items()}
        if isinstance(shown, (list, tuple)):
            return [self.anything(value) for value in shown]
        return shown


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()
