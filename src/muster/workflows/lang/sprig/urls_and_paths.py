"""sprig's functions on URLs, parsed and joined as Go's net/url does, and on paths with slashes."""

from __future__ import annotations

import re
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_strings import from_bytes, quote_string, to_bytes
from muster.workflows.lang.go_values import go_kind
from muster.workflows.lang.sprig.arguments import function_table

# -- URLs

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})?")
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_KEPT = {"path": b"$&+,/:;=@", "fragment": b"$&+,/:;=?@!()*", "user": b"$&+,;=", "host": b"!$&'()*+,;=:[]<>\""}


def _url_parse(url: str) -> dict[str, Any]:
    try:
        return _split_url(url)
    except ExpressionError as error:
        raise ExpressionError(f"unable to parse url: parse {quote_string(url)}: {error.message}") from None


def _split_url(url: str) -> dict[str, Any]:
    if any(char < " " or char == "\x7f" for char in url):
        raise ExpressionError("net/url: invalid control character in URL")
    rest, _, fragment = url.partition("#")
    out: dict[str, Any] = dict.fromkeys(("scheme", "host", "hostname", "path", "query", "opaque", "userinfo"), "")
    out["fragment"] = _unescape(fragment)
    scheme = _SCHEME.match(rest)
    if scheme:
        out["scheme"], rest = scheme[1].lower(), rest[scheme.end() :]
    elif rest.startswith(":"):
        raise ExpressionError("missing protocol scheme")
    rest, _, out["query"] = rest.partition("?")
    if not rest.startswith("/"):
        if out["scheme"]:
            out["opaque"] = rest
            return out
        if ":" in rest.partition("/")[0]:
            raise ExpressionError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (out["scheme"] or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, at, host = authority.rpartition("@")
        out["userinfo"] = _userinfo(user) if at else ""
        out["host"] = _host(host)
        out["hostname"] = _hostname(out["host"])
    out["path"] = _unescape(rest)
    return out


def _userinfo(user: str) -> str:
    name, colon, password = user.partition(":")
    return _escape(_unescape(name), "user") + (":" + _escape(_unescape(password), "user") if colon else "")


def _host(host: str) -> str:
    port = host.rpartition("]")[2] if host.startswith("[") else host
    found = re.search(r":(.*)$", port)
    if found and found[1] and not found[1].isdigit():
        raise ExpressionError(f"invalid port {quote_string(found[0])} after host")
    if " " in host:
        raise ExpressionError('invalid character " " in host name')
    return _unescape(host)


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and (not port or port.isdigit()) else host


def _url_join(parts: dict[str, Any]) -> str:
    found = {
        name: _get_text(parts, name) for name in ("scheme", "host", "path", "query", "opaque", "fragment", "userinfo")
    }
    out = found["scheme"] + ":" if found["scheme"] else ""
    if found["opaque"]:
        out += found["opaque"]
    else:
        path = _escape(found["path"], "path")
        if found["scheme"] or found["host"] or found["userinfo"]:
            if found["host"] or path or found["userinfo"]:
                out += "//"
            if found["userinfo"]:
                out += _userinfo(found["userinfo"]) + "@"
            out += _escape(found["host"], "host")
        if path and not path.startswith("/") and found["host"]:
            out += "/"
        if not out and ":" in path.partition("/")[0]:
            out = "./"
        out += path
    if found["query"]:
        out += "?" + found["query"]
    return out + ("#" + _escape(found["fragment"], "fragment") if found["fragment"] else "")


def _get_text(parts: dict[str, Any], name: str) -> str:
    value = parts.get(name, "")
    if not isinstance(value, str):
        raise ExpressionError(f"unable to parse {name} key, must be of type string, but {go_kind(value)} found")
    return value


def _unescape(text: str) -> str:
    def byte(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            at = found.start()
            raise ExpressionError(f"invalid URL escape {quote_string(from_bytes(to_bytes(text)[at : at + 3]))}")
        return bytes([int(found[1], 16)])

    return from_bytes(_ESCAPE.sub(byte, to_bytes(text))) if "%" in text else text


def _escape(text: str, part: str) -> str:
    kept = _UNRESERVED + _KEPT[part]
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in to_bytes(text))


URL_FUNCTIONS = function_table(
    ("urlParse", "string", _url_parse),
    ("urlJoin", "map[string]interface {}", _url_join),
)


# -- Paths


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


PATH_FUNCTIONS = function_table(
    ("base osBase", "string", _base),
    ("dir osDir", "string", _dir),
    ("clean osClean", "string", _clean),
    ("ext osExt", "string", _ext),
    ("isAbs osIsAbs", "string", lambda path: path.startswith("/")),
)
