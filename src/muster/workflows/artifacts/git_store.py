"""Git repositories as artifacts, checked out with the installed `git`."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from muster.workflows.artifacts.git_addresses import RepositoryError, read_repository, ref_problem
from muster.workflows.artifacts.locations import ArtifactError, ArtifactUnreachable, Location, public_url
from muster.workflows.artifacts.stores import ReadOnlyStore, SecretOf, StoreAccess

_PROTOCOLS = "https:http:ssh:git"
_ASK = """#!/bin/sh
case "$1" in
Username*) printf '%s\\n' "$MUSTER_GIT_USERNAME" ;;
*) printf '%s\\n' "$MUSTER_GIT_PASSWORD" ;;
esac
"""
_LOST = ("Could not resolve host", "Connection refused", "Connection timed out", "Could not connect", "early EOF")


class GitStore(ReadOnlyStore):
    what = "git artifacts"

    def __init__(self, secret_of: SecretOf, access: StoreAccess = StoreAccess()) -> None:  # noqa: B008
        self._secret_of = secret_of
        self._access = access

    async def load(self, location: Location, target: Path) -> None:
        settings: Mapping[str, Any] = location["git"]
        if shutil.which("git") is None:
            raise ArtifactError("git artifacts need git on this machine (Debian: apt-get install git)")
        repo, revision = str(settings["repo"]), str(settings.get("revision") or "")
        for value in (repo, revision, str(settings.get("branch") or ""), *(settings.get("fetch") or ())):
            if str(value).startswith("-"):
                raise ArtifactError(f'git: "{value}" is an option, not a repository, branch or revision')
        if self._access.for_member:
            _check_addresses(settings)
        with TemporaryDirectory() as folder:
            git = _Git(await self._environment(settings, Path(folder)), public_url(repo))
            await git.run(
                "clone", "--quiet", "--no-checkout", "--template=", *_extent(settings), "--", repo, str(target)
            )
            git.folder = target
            for ref in settings.get("fetch") or ():
                await git.run("fetch", "--quiet", *_depth(settings), "origin", str(ref))
            await _check_out(git, settings, revision)
            if not settings.get("disableSubmodules") and (target / ".gitmodules").exists():
                await git.run("submodule", "--quiet", "update", "--init", "--recursive", "--force", *_depth(settings))

    def read(self, location: Location) -> AsyncIterator[bytes]:
        raise ArtifactError("a git artifact is a folder and cannot be read as one file")

    async def _environment(self, settings: Mapping[str, Any], folder: Path) -> dict[str, str]:
        """Does not inherit the server's own identity and configuration."""
        env = {
            name: value for name, value in os.environ.items() if name in _PASSED_ON or name.lower().endswith("proxy")
        }
        env |= {"HOME": str(folder), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ATTR_NOSYSTEM": "1", "GIT_LFS_SKIP_SMUDGE": "1", "LC_ALL": "C"}
        # A submodule must not lead from a remote repository to a local one.
        is_local = str(settings["repo"]).startswith(("/", "file:")) and not self._access.for_member
        env["GIT_ALLOW_PROTOCOL"] = f"{_PROTOCOLS}:file" if is_local else _PROTOCOLS
        env |= _configuration({**_CONFIGURATION, **self._network()})
        if settings.get("insecureSkipTLS"):
            env["GIT_SSL_NO_VERIFY"] = "1"
        name, password = settings.get("usernameSecret"), settings.get("passwordSecret")
        if name or password:
            ask = folder / "ask"
            ask.write_text(_ASK)
            ask.chmod(0o700)
            env["GIT_ASKPASS"] = str(ask)
            env["MUSTER_GIT_USERNAME"] = (await self._secret_of(name)).strip() if name else ""
            env["MUSTER_GIT_PASSWORD"] = (await self._secret_of(password)).strip() if password else ""
        known_hosts = folder / "known_hosts" if self._access.for_member else Path("~/.ssh/known_hosts").expanduser()
        ssh = ["ssh", "-o", "BatchMode=yes"]
        if self._access.for_member:
            known_hosts.write_text(self._access.known_hosts)
            ssh += ["-F", "/dev/null", "-o", "IdentityAgent=none", "-o", f"ProxyCommand={self._access.connect} %h %p"]
            ssh += ["-o", "ForwardAgent=no", "-o", "PermitLocalCommand=no", "-o", "ConnectTimeout=30"]
            if not settings.get("sshPrivateKeySecret"):
                ssh += ["-o", "IdentityFile=none", "-o", "IdentitiesOnly=yes"]
        if settings.get("insecureIgnoreHostKey"):
            ssh += ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
        else:
            ssh += ["-o", "StrictHostKeyChecking=yes", "-o", f"UserKnownHostsFile={known_hosts}"]
        if settings.get("sshPrivateKeySecret"):
            key = folder / "key"
            key.touch(0o600)
            text = await self._secret_of(settings["sshPrivateKeySecret"])
            key.write_text(text if text.endswith("\n") else f"{text}\n")
            ssh += ["-o", "IdentitiesOnly=yes", "-i", str(key)]
        env["GIT_SSH_COMMAND"] = shlex.join(ssh)
        return env

    def _network(self) -> dict[str, str]:
        if not self._access.for_member:
            return {}
        return {"http.proxy": self._access.proxy, "core.gitProxy": self._access.connect}


_CONFIGURATION = {
    "safe.directory": "*", "core.hooksPath": "/dev/null", "core.fsmonitor": "false", "core.attributesFile": "/dev/null",
    "credential.helper": "", "advice.detachedHead": "false", "gc.auto": "0", "maintenance.auto": "false",
}  # fmt: skip
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "TMPDIR")


class _Git:
    def __init__(self, env: Mapping[str, str], shown: str) -> None:
        self._env = env
        self._shown = shown
        self.folder: Path | None = None

    async def run(self, *words: str) -> None:
        where = ["-C", str(self.folder)] if self.folder is not None else []
        process = await asyncio.create_subprocess_exec(
            "git", *where, *words,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            env=self._env, start_new_session=True,
        )  # fmt: skip
        try:
            _, said = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            text = said.decode("utf-8", "replace")
            kind = ArtifactUnreachable if any(sign in text for sign in _LOST) else ArtifactError
            raise kind(f"git {words[0]} of {self._shown}: {_last(text)}")


def _configuration(settings: Mapping[str, str]) -> dict[str, str]:
    env = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return env


def _check_addresses(settings: Mapping[str, Any]) -> None:
    """Raises ArtifactError for a repository or revision that git or ssh could take for something else."""
    repo = str(settings["repo"])
    try:
        found = read_repository(f"http{repo[3:]}" if repo.startswith("git://") else repo)
    except RepositoryError as error:
        raise ArtifactError(f"git.repo: {error}") from None
    if found.protocol == "file":
        raise ArtifactError(f'git.repo: "{repo}" is on the server: use the address of a remote repository')
    refs = [str(settings.get(field) or "") for field in ("revision", "branch")]
    refs += [part for fetch in settings.get("fetch") or () for part in str(fetch).lstrip("+").split(":")]
    for ref in refs:
        problem = ref_problem(ref.removesuffix("*").removesuffix("/")) if ref else ""
        if problem:
            raise ArtifactError(f'git: "{ref}" is not a branch, tag or commit: {problem}')


async def _check_out(git: _Git, settings: Mapping[str, Any], revision: str) -> None:
    if not revision:
        await git.run("checkout", "--quiet", "--force")
        return
    try:
        await git.run("checkout", "--quiet", "--force", revision, "--")
    except ArtifactError:
        # A shallow clone has no other branches and no older commits, so these are fetched explicitly.
        await git.run("fetch", "--quiet", *_depth(settings), "origin", revision)
        await git.run("checkout", "--quiet", "--force", "FETCH_HEAD", "--")


def _extent(settings: Mapping[str, Any]) -> Sequence[str]:
    if settings.get("singleBranch") and settings.get("branch"):
        return [*_depth(settings), "--single-branch", "--branch", str(settings["branch"])]
    return _depth(settings)


def _depth(settings: Mapping[str, Any]) -> list[str]:
    return ["--depth", str(int(settings["depth"]))] if settings.get("depth") else []


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    refused = [line.removeprefix("muster: ") for line in lines if line.startswith("muster: ")]  # see egress.py
    if refused:
        return refused[0][:300]
    told = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (told or lines or ["no reason given"])[-1][:300]
