"""Addresses of git repositories, and names of branches and tags.

They come from users. They are validated, so that neither git nor ssh takes anything in them for an option, a program or
another protocol. Pure.
"""

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
        raise RepositoryError(f"it must be one word of at most {LONGEST_URL} characters; {_WRITE}")
    if url.startswith("-"):
        raise RepositoryError(f"it starts with -, like an option; {_WRITE}")
    if "::" in url.partition("/")[0]:
        raise RepositoryError(f'"{url.partition("::")[0]}::" would run a program; {_WRITE}')
    if url.startswith("/") or url.lower().startswith("file:"):
        return _local(url)
    if "://" in url:
        return _remote(url)
    scp = _SCP.fullmatch(url)
    if scp is None:
        raise RepositoryError(f"this is not the address of a repository; {_WRITE}")
    user, host, path = scp.groups()
    return _ssh(user, host, "", "/" + path if not path.startswith("/") else path, is_relative=path[0] != "/")


def local_problem(repository: Repository, allowed: tuple[Path, ...], *, is_admin: bool) -> str:
    """Why a local repository may not be used; '' if it may, or is not local. `allowed` are folders from the settings
    that all users may use."""
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
    """The credentials in the URL, which must not be shown."""
    if not url.lower().startswith(("http:", "https:")):
        return []
    user, _, password = _userinfo(url).partition(":")
    found = [password or user, _userinfo(url), unquote(password or user)]
    return [secret for secret in dict.fromkeys(found) if secret]


def ref_problem(ref: str) -> str:
    """Why it is not a valid branch, tag or commit; '' if it is."""
    if _REF.fullmatch(ref) is None or len(ref) > 250:
        return "use a branch or tag: letters, digits, ., _, -, /, +, # and @, starting with a letter or digit"
    parts = ref.split("/")
    if ".." in ref or "@{" in ref or "" in parts or any(p.startswith(".") or p.endswith((".lock", ".")) for p in parts):
        return "git does not allow this name; use a branch or tag of the repository"
    return ""


def is_commit(ref: str) -> bool:
    return _COMMIT.fullmatch(ref) is not None


def _local(url: str) -> Repository:
    path = url
    if url.lower().startswith("file:"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise RepositoryError("write a local repository as file:///PATH")
        path = unquote(parts.path)
    if not path.startswith("/") or not path.isprintable():
        raise RepositoryError("a local repository needs an absolute path, such as /srv/git/module.git")
    return Repository("file", path)


def _remote(url: str) -> Repository:
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    if scheme not in _SCHEMES:
        raise RepositoryError(f'"{parts.scheme}" is not an allowed protocol; {_WRITE}')
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise RepositoryError(f"the port is not a number; {_WRITE}") from None
    if _HOST.fullmatch(host) is None:
        raise RepositoryError(f'"{host}" is not a valid host; {_WRITE}')
    if parts.query or parts.fragment:
        raise RepositoryError("leave out what follows ? or #")
    if len(parts.path) < 2:
        raise RepositoryError(f"the path of the repository is missing; {_WRITE}")
    shown_port = f":{port}" if port else ""
    if scheme == "ssh":
        if parts.password:
            raise RepositoryError("ssh does not support passwords here; use a key of the server instead")
        return _ssh(parts.username or "", host, shown_port, parts.path)
    shown = f"[{host}]" if ":" in host else host
    address = urlunsplit((scheme, f"{shown}{shown_port}", parts.path, "", ""))
    user = unquote(parts.username or "")
    header = ""
    if user or parts.password:
        pair = f"{user}:{unquote(parts.password or '')}"
        if not pair.isprintable():
            raise RepositoryError("the user or password contains characters that cannot be sent")
        header = "Authorization: Basic " + base64.b64encode(pair.encode()).decode()
    return Repository("https" if scheme == "https" else "http", address, header, host)


def _ssh(user: str, host: str, port: str, path: str, *, is_relative: bool = False) -> Repository:
    # ssh takes a host that starts with - for an option. Git refuses such hosts, too.
    if _HOST.fullmatch(host) is None:
        raise RepositoryError(f'"{host}" is not a valid host; {_WRITE}')
    if user and _USER.fullmatch(user) is None:
        raise RepositoryError(f'"{user}" is not a valid user; {_WRITE}')
    if path.startswith("/-"):
        raise RepositoryError("the path starts with -, like an option")
    account = f"{user}@" if user else ""
    if is_relative:
        return Repository("ssh", f"{account}{host}:{path[1:]}", host=host)
    return Repository("ssh", f"ssh://{account}{host}{port}{path}", host=host)


def _userinfo(url: str) -> str:
    return url.partition("://")[2].partition("/")[0].rpartition("@")[0]
