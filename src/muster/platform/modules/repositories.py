"""Which repositories and branches a module may come from, and how git is told of them so that nothing in them is an
option, a program or another protocol."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit, urlunsplit

LONGEST_URL = 2_000
HIDDEN = "***"

_SCHEMES = frozenset({"http", "https", "ssh"})
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f:]+")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_SCP = re.compile(r"([^@/:]+)@([^@/:]+):(?!//)(.+)")
_REF = re.compile(r"[\w][\w./+#@-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CREDENTIALS = re.compile(r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)

_WRITE = "write https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH"


@dataclass(frozen=True, slots=True)
class Repository:
    protocol: Literal["http", "https", "ssh", "file"]
    address: str
    """What git is given: without secrets, and never an option."""
    authorization: str = ""
    """A header for the server, if the address held a password or token."""
    host: str = ""


class RepositoryError(ValueError):
    """The message says what to write instead."""


def read_repository(url: str) -> Repository:
    """Pure. Whether a local one may be used is another question: see `local_problem`."""
    if not url or len(url) > LONGEST_URL or not url.isprintable() or url != url.strip() or " " in url:
        raise RepositoryError(f"it has to be one word of at most {LONGEST_URL} characters; {_WRITE}")
    if url.startswith("-"):
        raise RepositoryError(f"it begins with -, as options do; {_WRITE}")
    if "::" in url.partition("/")[0]:
        raise RepositoryError(f'"{url.partition("::")[0]}::" would run a program; {_WRITE}')
    if url.startswith("/") or url.lower().startswith("file:"):
        return _local(url)
    if "://" in url:
        return _remote(url)
    scp = _SCP.fullmatch(url)
    if scp is None:
        raise RepositoryError(f"this is no address of a repository; {_WRITE}")
    user, host, path = scp.groups()
    return _ssh(user, host, "", "/" + path if not path.startswith("/") else path, is_relative=path[0] != "/")


def local_problem(repository: Repository, allowed: tuple[Path, ...], *, is_admin: bool) -> str:
    """Why a repository of this machine may not be used; '' if it may, or is none. `allowed` are the folders of the
    settings in which anybody's may be."""
    if repository.protocol != "file" or is_admin:
        return ""
    place = Path(repository.address).resolve()
    if any(place.is_relative_to(folder.resolve()) for folder in allowed):
        return ""
    where = f"below {', '.join(map(str, allowed))} " if allowed else ""
    return f"only admins may use repositories {'outside of those ' + where if where else ''}on this machine; {_WRITE}"


def without_credentials(url: str) -> str:
    """To be shown: https://***@host/path."""
    return _CREDENTIALS.sub(rf"\g<1>{HIDDEN}@", url) if not url.startswith("ssh:") or ":" in _userinfo(url) else url


def credentials_in(url: str) -> list[str]:
    """What must not be shown of it."""
    if not url.lower().startswith(("http:", "https:")):
        return []
    user, _, password = _userinfo(url).partition(":")
    found = [password or user, _userinfo(url), unquote(password or user)]
    return [secret for secret in dict.fromkeys(found) if secret]


def ref_problem(ref: str) -> str:
    """'' if it can be the name of a branch or tag, or a commit."""
    if _REF.fullmatch(ref) is None or len(ref) > 250:
        return "write a branch or tag: letters, digits, ., _, -, /, +, # and @, beginning with a letter or digit"
    parts = ref.split("/")
    if ".." in ref or "@{" in ref or "" in parts or any(p.startswith(".") or p.endswith((".lock", ".")) for p in parts):
        return "git does not allow such a name; write a branch or tag that the repository has"
    return ""


def is_commit(ref: str) -> bool:
    return _COMMIT.fullmatch(ref) is not None


def _local(url: str) -> Repository:
    path = url
    if url.lower().startswith("file:"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise RepositoryError("a local repository is written file:///PATH")
        path = unquote(parts.path)
    if not path.startswith("/") or not path.isprintable():
        raise RepositoryError("a local repository is written with its whole path, as in /srv/git/module.git")
    return Repository("file", path)


def _remote(url: str) -> Repository:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise RepositoryError(f'"{parts.scheme}" is no protocol that is allowed; {_WRITE}')
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise RepositoryError(f"the port is no number; {_WRITE}") from None
    if _HOST.fullmatch(host) is None:
        raise RepositoryError(f'"{host}" is no host; {_WRITE}')
    if parts.query or parts.fragment:
        raise RepositoryError("leave out what follows ? or #")
    if len(parts.path) < 2:
        raise RepositoryError(f"the path of the repository is missing; {_WRITE}")
    shown_port = f":{port}" if port else ""
    if scheme == "ssh":
        if parts.password:
            raise RepositoryError("ssh takes no password here; give the server a key instead")
        return _ssh(parts.username or "", host, shown_port, parts.path)
    shown = f"[{host}]" if ":" in host else host
    address = urlunsplit((scheme, f"{shown}{shown_port}", parts.path, "", ""))
    user = unquote(parts.username or "")
    header = ""
    if user or parts.password:
        pair = f"{user}:{unquote(parts.password or '')}"
        if not pair.isprintable():
            raise RepositoryError("the user or password has characters that cannot be sent")
        header = "Authorization: Basic " + base64.b64encode(pair.encode()).decode()
    return Repository("https" if scheme == "https" else "http", address, header, host)


def _ssh(user: str, host: str, port: str, path: str, *, is_relative: bool = False) -> Repository:
    # ssh takes a host that begins with - for an option; git refuses those, and so do we before it comes to that.
    if _HOST.fullmatch(host) is None:
        raise RepositoryError(f'"{host}" is no host; {_WRITE}')
    if user and _USER.fullmatch(user) is None:
        raise RepositoryError(f'"{user}" is no user; {_WRITE}')
    if path.startswith("/-"):
        raise RepositoryError("the path begins with -, as options do")
    account = f"{user}@" if user else ""
    if is_relative:
        return Repository("ssh", f"{account}{host}:{path[1:]}", host=host)
    return Repository("ssh", f"ssh://{account}{host}{port}{path}", host=host)


def _userinfo(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[0]
