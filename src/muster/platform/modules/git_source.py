"""Fetches the source of a module from git.

Addresses are validated (`muster.workflows.artifacts.git_addresses`). Git reads no configuration but ours, runs no hooks
and no filters, and follows no submodules. Nothing in a checkout leads out of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from posixpath import isabs
from urllib.parse import urlsplit, urlunsplit

from muster.platform.modules.build_process import BuildContext, BuildFailed, run_command
from muster.workflows.artifacts.egress import Egress, egress_proxy, upstream_proxy
from muster.workflows.artifacts.git_addresses import Repository, is_commit
from muster.workflows.artifacts.landlock import Confinement, confined_command

LONGEST_README = 1_000_000
_MARKDOWN = (".md", ".markdown", ".mdown", ".mkd")


class CheckoutError(ValueError):
    """The repository is not as a module's has to be."""


def inner_path(written: str) -> str:
    """Normalizes a path in the repository; `/` is the whole repository. Raises ValueError."""
    if not written.isprintable() or "\\" in written:
        raise ValueError("it contains characters that are not valid in a path")
    parts = [part for part in written.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError('it leads out of the repository; leave out ".."')
    if any(part == ".git" for part in (part.lower() for part in parts)):
        raise ValueError("the folder .git cannot be used")
    return "/".join(parts)


def listing_problem(listing: bytes, most_bytes: int, most_files: int) -> str:
    """Why the files listed by `git ls-tree -r -l -z` may not be checked out; '' if they may."""
    total = files = 0
    for entry in filter(None, listing.split(b"\0")):
        head, _, raw = entry.partition(b"\t")
        mode, kind, _, size = head.split()
        name = raw.decode(errors="replace")
        parts = name.split("/")
        if isabs(name) or ".." in parts or ".git" in (part.lower() for part in parts):
            return f'"{name}" leads out of the repository'
        if kind != b"blob":
            continue  # a submodule stays an empty folder
        if mode not in (b"100644", b"100755", b"100664", b"120000"):
            return f'"{name}" is neither a file nor a link'
        files += 1
        total += int(size)
        if files > most_files:
            return f"it has more than {most_files} files"
        if total > most_bytes:
            return f"it is larger than {most_bytes // 1_000_000} MB"
    return ""


def outside_link(root: Path) -> str:
    """The first link that leads out of the folder; '' if there is none."""
    for path in _links(root):
        relative = path.relative_to(root).as_posix()
        target = str(path.readlink())
        climbs = _climbs(len(path.relative_to(root).parts) - 1, target)
        if isabs(target) or climbs or not path.resolve().is_relative_to(root.resolve()):
            return f'the link "{relative}" leads to "{target}", outside of the repository'
    return ""


def resolve_inside(root: Path, relative: str) -> Path:
    """Where it really is. Raises CheckoutError if a link leads it out."""
    place = (root / relative).resolve()
    if not place.is_relative_to(root.resolve()):
        raise CheckoutError(f'"{relative}" leads out of the repository')
    return place


def read_text(root: Path, relative: str, what: str, longest: int = LONGEST_README) -> str:
    """Reads a regular file of the checkout as UTF-8. Raises CheckoutError."""
    place = resolve_inside(root, relative)
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        raise CheckoutError(f'{what}: there is no file "{relative}" in the repository') from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CheckoutError(f'{what}: "{relative}" is not a file')
        content = file.read(longest + 1)
    if len(content) > longest:
        raise CheckoutError(f'{what}: "{relative}" is larger than {longest // 1000} kB')
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CheckoutError(f'{what}: "{relative}" is not text in UTF-8') from None


def read_readme(root: Path, relative: str) -> str:
    if not relative.lower().endswith(_MARKDOWN):
        raise CheckoutError(f'readme: "{relative}" is not Markdown; use a file such as README.md')
    text = read_text(root, relative, "readme")
    if "\0" in text:
        raise CheckoutError(f'readme: "{relative}" is not text')
    if not text.strip():
        raise CheckoutError(f'readme: "{relative}" is empty; describe what the module does, its inputs and its outputs')
    return text


def _links(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root, followlinks=False):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                yield path


def _climbs(depth: int, target: str) -> bool:
    """Whether it leaves the folder even on the way, from so far down in it."""
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False


MOST_FILES = 50_000


async def fetch(repository: Repository, ref: str, commit: str, into: Path, here: BuildContext) -> str:
    """Checks out `commit` if one is pinned, else the current commit of the branch or tag. Returns the commit. Raises
    BuildFailed."""
    into.mkdir(parents=True)
    async with _network(repository, here) as proxy:
        return await _fetch(Git(repository, into, here, proxy), repository, ref, commit, into, here)


@asynccontextmanager
async def _network(repository: Repository, here: BuildContext) -> AsyncIterator[str]:
    """Yields the proxy that git has to use. A repository of an author who is not an admin leads neither to this host
    itself nor to what only the server's ssh key opens."""
    if here.guest is None or repository.protocol == "file":
        yield ""
    elif repository.protocol == "ssh":
        if repository.host not in here.guest.ssh_hosts:
            raise BuildFailed(
                f"ssh uses the key of the server, and {repository.host} is not in modules.sshHosts: use an https "
                "address, or ask an admin to add the host"
            )
        yield ""
    else:
        egress = Egress(here.guest.addresses)
        try:
            async with egress_proxy(egress) as url:
                yield upstream_proxy() or url
        except BuildFailed:
            if egress.refused:
                raise BuildFailed(egress.refused[0]) from None
            raise


async def _fetch(git: Git, repository: Repository, ref: str, commit: str, into: Path, here: BuildContext) -> str:
    await git.must("init", "--quiet", "--template=", "--", str(into), told="no repository could be made")
    wanted = commit or (ref if is_commit(ref) else await _full_name(git, repository, ref))
    here.log.say(f"fetching {wanted} of {repository.address}")
    await git.must(
        "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--",
        repository.address, wanted, told=f'"{ref}" could not be fetched',
    )  # fmt: skip
    found = (await git.output("rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")).decode().strip()
    if not is_commit(found) or (is_commit(wanted) and found != wanted):
        raise BuildFailed(f'"{ref}" is not a commit, or not the pinned one any more')
    problem = listing_problem(await git.output("ls-tree", "-r", "-l", "-z", found), here.most_bytes, MOST_FILES)
    if problem:
        raise BuildFailed(f"the repository cannot be used: {problem}")
    await git.must("checkout", "--quiet", "--force", "--detach", found, "--", told="it could not be checked out")
    here.log.say(f"commit {found}")
    return found


class Git:
    def __init__(self, repository: Repository, folder: Path, here: BuildContext, proxy: str = "") -> None:
        self._folder, self._here = folder, here
        self._env = git_environment(repository, proxy)
        self._is_confined = here.guest is not None and repository.protocol in ("http", "https")

    async def must(self, *words: str, told: str) -> None:
        code, _ = await run_command(self._command(words), self._here, cwd=self._folder, env=self._env)
        if code != 0:
            raise BuildFailed(f"{told}; see the log")

    async def output(self, *words: str) -> bytes:
        code, printed = await run_command(self._command(words), self._here, cwd=self._folder, env=self._env, quiet=True)
        if code != 0:
            raise BuildFailed(f"git {words[0]} failed; see the log")
        return printed

    def _command(self, words: Sequence[str]) -> list[str]:
        if not self._is_confined:
            return ["git", *words]
        return confined_command(["git", *words], Confinement((str(self._folder),), file_bytes=self._here.most_bytes))


def git_environment(repository: Repository, proxy: str = "") -> dict[str, str]:
    settings = {
        "protocol.allow": "never",
        f"protocol.{repository.protocol}.allow": "always",
        "core.hooksPath": "/dev/null",
        "core.fsmonitor": "false",
        "core.attributesFile": "/dev/null",
        "core.symlinks": "true",
        "fetch.fsckObjects": "true",
        "transfer.fsckObjects": "true",
        "submodule.recurse": "false",
        "credential.helper": "",
        "http.followRedirects": "initial",
        "advice.detachedHead": "false",
        "safe.directory": "*",
        "gc.auto": "0",
    }
    if repository.protocol in ("http", "https"):
        # A server may send us from http to https, but nowhere else.
        settings["protocol.https.allow"] = "always"
    if proxy:
        settings["http.proxy"] = proxy
    if repository.authorization:
        parts = urlsplit(repository.address)
        settings[f"http.{urlunsplit((parts.scheme, parts.netloc, '', '', ''))}.extraHeader"] = repository.authorization
    given: dict[str, str] = {}
    for number, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    # SSH keys are in the server's home; modules need nothing else there.
    home = {} if repository.protocol == "ssh" else {"HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
    return {
        **given,
        **home,
        **({"NO_PROXY": "", "no_proxy": ""} if proxy else {}),
        "GIT_CONFIG_COUNT": str(len(settings)),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "true",
        "SSH_ASKPASS": "true",
        "GIT_ALLOW_PROTOCOL": "http:https" if repository.protocol in ("http", "https") else repository.protocol,
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=accept-new -oConnectTimeout=20",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_HTTP_LOW_SPEED_LIMIT": "100",
        "GIT_HTTP_LOW_SPEED_TIME": "60",
        "LC_ALL": "C.UTF-8",
    }


async def _full_name(git: Git, repository: Repository, ref: str) -> str:
    """A branch takes precedence over a tag of the same name."""
    wanted = [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    printed = await git.output("ls-remote", "--quiet", "--", repository.address, *wanted)
    there = {line.partition("\t")[2] for line in printed.decode(errors="replace").splitlines()}
    for name in wanted:
        if name in there:
            return name
    raise BuildFailed(f'the repository has no branch or tag "{ref}"')
