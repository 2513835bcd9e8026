"""Gets one commit of a repository. Git reads no configuration but ours, runs no hooks and no filters, follows no
submodules, and speaks no protocol but the repository's own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from muster.platform.modules.checkout import listing_problem
from muster.platform.modules.commands import BuildFailed, Surroundings, run
from muster.platform.modules.repositories import Repository, is_commit

MOST_FILES = 50_000


async def fetch(repository: Repository, ref: str, commit: str, into: Path, here: Surroundings) -> str:
    """Checks out `commit` if one is pinned already, else what the branch or tag is now. Answers the commit. Raises
    BuildFailed."""
    into.mkdir(parents=True)
    git = Git(repository, into, here)
    await git.must("init", "--quiet", "--template=", "--", str(into), told="no repository could be made")
    wanted = commit or (ref if is_commit(ref) else await _full_name(git, repository, ref))
    here.log.say(f"fetching {wanted} of {repository.address}")
    await git.must(
        "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--",
        repository.address, wanted, told=f'"{ref}" could not be fetched',
    )  # fmt: skip
    found = (await git.output("rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")).decode().strip()
    if not is_commit(found) or (is_commit(wanted) and found != wanted):
        raise BuildFailed(f'"{ref}" is no commit, or no longer the one that is pinned')
    problem = listing_problem(await git.output("ls-tree", "-r", "-l", "-z", found), here.most_bytes, MOST_FILES)
    if problem:
        raise BuildFailed(f"the repository cannot be used: {problem}")
    await git.must("checkout", "--quiet", "--force", "--detach", found, "--", told="it could not be checked out")
    here.log.say(f"commit {found}")
    return found


class Git:
    def __init__(self, repository: Repository, folder: Path, here: Surroundings) -> None:
        self._folder, self._here = folder, here
        self._env = git_environment(repository)

    async def must(self, *words: str, told: str) -> None:
        code, _ = await run(["git", *words], self._here, cwd=self._folder, env=self._env)
        if code != 0:
            raise BuildFailed(f"{told}; see the log")

    async def output(self, *words: str) -> bytes:
        code, printed = await run(["git", *words], self._here, cwd=self._folder, env=self._env, quiet=True)
        if code != 0:
            raise BuildFailed(f"git {words[0]} failed; see the log")
        return printed


def git_environment(repository: Repository) -> dict[str, str]:
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
    if repository.authorization:
        parts = urlsplit(repository.address)
        settings[f"http.{urlunsplit((parts.scheme, parts.netloc, '', '', ''))}.extraHeader"] = repository.authorization
    given: dict[str, str] = {}
    for number, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    # Keys for ssh are in the server's home; nothing else there is for modules.
    home = {} if repository.protocol == "ssh" else {"HOME": "/nonexistent", "SSH_AUTH_SOCK": ""}
    return {
        **given,
        **home,
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
    """A branch comes before a tag of the same name."""
    wanted = [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    printed = await git.output("ls-remote", "--quiet", "--", repository.address, *wanted)
    there = {line.partition("\t")[2] for line in printed.decode(errors="replace").splitlines()}
    for name in wanted:
        if name in there:
            return name
    raise BuildFailed(f'the repository has no branch or tag "{ref}"')
