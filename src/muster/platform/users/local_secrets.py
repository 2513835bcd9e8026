"""Two secrets in files, for the user who started the server: a one-time link for the browser, and a token for the
command line. The database is not needed: the link is shown before the database is open.
"""

from __future__ import annotations

import os
from pathlib import Path

from muster.platform.users.credentials import API_TOKEN, new_secret

LINK_FILE, TOKEN_FILE = "first-link", "local-token"


def platform_folder(home: Path) -> Path:
    """The platform's folder in the data directory."""
    return home / "platform"


def prepare_secrets(folder: Path) -> None:
    """Makes the files that are missing."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _ensure(folder / TOKEN_FILE, API_TOKEN)
    _ensure(folder / LINK_FILE, "")


def waiting_link(folder: Path) -> str:
    """The secret of the link if it is unused; else ''."""
    return _read(folder / LINK_FILE)


def local_token(folder: Path) -> str:
    """'' if there is none, or it cannot be read."""
    return _read(folder / TOKEN_FILE)


def forget_link(folder: Path) -> None:
    """An empty file means that it was used. Without a file, there would be a new one."""
    (folder / LINK_FILE).write_text("")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""


def _ensure(path: Path, prefix: str) -> None:
    if path.exists():
        return
    # Whole or not at all: a process that dies in between must not leave an empty file.
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(new_secret(prefix))
    draft.rename(path)
