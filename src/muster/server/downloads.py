"""Headers of downloads. The name and the content of a file come from users."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

DOWNLOAD_HEADERS: Final = {
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""A browser shows or stores such a file, but never executes it with the rights of the user."""

_LONGEST = 200
_UNSAFE = re.compile(r"[^\w.+=@() -]", re.ASCII)


def content_disposition(name: str, *, attachment: bool = True) -> str:
    """Returns the value of Content-Disposition for a file name with any characters."""
    name = name[-_LONGEST:]
    plain = _UNSAFE.sub("_", name) or "file"
    value = f'{"attachment; " if attachment else ""}filename="{plain}"'
    shown = "".join(char for char in name if char.isprintable() and char not in "/\\")
    return value if plain == name else f"{value}; filename*=UTF-8''{quote(shown.encode('utf-8', 'replace'), safe='')}"
