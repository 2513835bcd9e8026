"""Keys that are read when they are needed and never shown.

A `Secret` holds where a key is, not the key. It prints as ***, compares and pickles by its reference, and is read anew
for every request, so that a rotated key is picked up and no key is stored with a job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.dispatch.errors import InvalidJob, Refused

MASK = "***"


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    reference: str
    """`env:NAME` or `file:/path`."""

    def reveal(self) -> str:
        """Returns the key. Raises Refused, with the reference and never the key, if it is not there."""
        source, _, name = self.reference.partition(":")
        if source == "env":
            value = os.environ.get(name)
            if value is None:
                raise Refused(
                    f"the environment variable {name} is not set; it should hold a key (secret {self.reference})"
                )
            return value
        try:
            return Path(name).expanduser().read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"the file {name} cannot be read; it should hold a key: {type(error).__name__}") from None

    def __str__(self) -> str:
        return MASK

    def __repr__(self) -> str:
        return f"secret({MASK})"


def secret(reference: str) -> Secret:
    """Refers to a key: `secret("env:TIMAKER_KEY")` or `secret("file:/run/secrets/timaker")`."""
    source, _, name = reference.partition(":")
    if source not in {"env", "file"} or not name:
        raise InvalidJob("a secret is `env:NAME` or `file:/path`; to name a key, not to write it down")
    return Secret(reference)


def reveal(value: str | Secret) -> str:
    """Returns a text as it is, and a secret's key."""
    return value.reveal() if isinstance(value, Secret) else value


def reveal_all(value: Any) -> Any:
    """Returns a copy of nested data in which every secret is its key: what is sent, and nothing else."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: reveal_all(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [reveal_all(item) for item in value]
    return value


def mask(value: Any) -> Any:
    """Returns a copy of nested data that may be shown: every secret is ***."""
    if isinstance(value, Secret):
        return MASK
    if isinstance(value, dict):
        return {key: mask(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mask(item) for item in value]
    return value
