"""sprig: paths with slashes."""

from __future__ import annotations

from muster.workflows.lang.sprig.sprig_functions import function_table


def _clean(path: str) -> str:
    rooted = path.startswith("/")
    parts: list[str] = []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part != ".." or not rooted:
            parts.append(part)
    return ("/" if rooted else "") + "/".join(parts) or "."


def _base(path: str) -> str:
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _dir(path: str) -> str:
    return _clean(path[: path.rfind("/") + 1])


def _ext(path: str) -> str:
    name = path.rpartition("/")[2]
    at = name.rfind(".")
    return name[at:] if at >= 0 else ""


FUNCTIONS = function_table(
    ("base osBase", "string", _base),
    ("dir osDir", "string", _dir),
    ("clean osClean", "string", _clean),
    ("ext osExt", "string", _ext),
    ("isAbs osIsAbs", "string", lambda path: path.startswith("/")),
)
