"""sprig: URLs taken apart and put together, as Go's net/url does."""

from __future__ import annotations

import re
from typing import Any

from muster.workflows.lang.errors import ExpressionError
from muster.workflows.lang.go_strings import from_bytes, quoted, to_bytes
from muster.workflows.lang.go_values import go_kind
from muster.workflows.lang.sprig.sprig_functions import function_table

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})?")
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_KEPT = {"path": b"$&+,/:;=@", "fragment": b"$&+,/:;=?@!()*", "user": b"$&+,;=", "host": b"!$&'()*+,;=:[]<>\""}


def _parse(url: str) -> dict[str, Any]:
    try:
        return _parsed(url)
    except ExpressionError as error:
        raise ExpressionError(f"unable to parse url: parse {quoted(url)}: {error.message}") from None


def _parsed(url: str) -> dict[str, Any]:
    if any(char < " " or char == "\x7f" for char in url):
        raise ExpressionError("net/url: invalid control character in URL")
    rest, _, fragment = url.partition("#")
    out: dict[str, Any] = dict.fromkeys(("scheme", "host", "hostname", "path", "query", "opaque", "userinfo"), "")
    out["fragment"] = _unescaped(fragment)
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
    out["path"] = _unescaped(rest)
    return out


def _userinfo(user: str) -> str:
    name, colon, password = user.partition(":")
    return _escaped(_unescaped(name), "user") + (":" + _escaped(_unescaped(password), "user") if colon else "")


def _host(host: str) -> str:
    port = host.rpartition("]")[2] if host.startswith("[") else host
    found = re.search(r":(.*)$", port)
    if found and found[1] and not found[1].isdigit():
        raise ExpressionError(f"invalid port {quoted(found[0])} after host")
    if " " in host:
        raise ExpressionError('invalid character " " in host name')
    return _unescaped(host)


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, colon, port = host.rpartition(":")
    return name if colon and (not port or port.isdigit()) else host


def _join(parts: dict[str, Any]) -> str:
    found = {name: _text(parts, name) for name in ("scheme", "host", "path", "query", "opaque", "fragment", "userinfo")}
    out = found["scheme"] + ":" if found["scheme"] else ""
    if found["opaque"]:
        out += found["opaque"]
    else:
        path = _escaped(found["path"], "path")
        if found["scheme"] or found["host"] or found["userinfo"]:
            if found["host"] or path or found["userinfo"]:
                out += "//"
            if found["userinfo"]:
                out += _userinfo(found["userinfo"]) + "@"
            out += _escaped(found["host"], "host")
        if path and not path.startswith("/") and found["host"]:
            out += "/"
        if not out and ":" in path.partition("/")[0]:
            out = "./"
        out += path
    if found["query"]:
        out += "?" + found["query"]
    return out + ("#" + _escaped(found["fragment"], "fragment") if found["fragment"] else "")


def _text(parts: dict[str, Any], name: str) -> str:
    value = parts.get(name, "")
    if not isinstance(value, str):
        raise ExpressionError(f"unable to parse {name} key, must be of type string, but {go_kind(value)} found")
    return value


def _unescaped(text: str) -> str:
    def byte(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            at = found.start()
            raise ExpressionError(f"invalid URL escape {quoted(from_bytes(to_bytes(text)[at : at + 3]))}")
        return bytes([int(found[1], 16)])

    return from_bytes(_ESCAPE.sub(byte, to_bytes(text))) if "%" in text else text


def _escaped(text: str, part: str) -> str:
    kept = _UNRESERVED + _KEPT[part]
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in to_bytes(text))


FUNCTIONS = function_table(
    ("urlParse", "string", _parse),
    ("urlJoin", "map[string]interface {}", _join),
)
