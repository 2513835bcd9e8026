"""Repository URLs: which ones are passed to git, and which are refused."""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from muster.platform.modules.build_process import BuildContext, BuildFailed, BuildLog
from muster.platform.modules.git_source import (
    CheckoutError,
    fetch,
    git_environment,
    inner_path,
    listing_problem,
    outside_link,
    read_readme,
)
from muster.workflows.artifacts.git_addresses import (
    Repository,
    RepositoryError,
    credentials_in,
    local_problem,
    read_repository,
    ref_problem,
    without_credentials,
)
from tests.http_server import serve_git, serve_http
from tests.platform.modules.git_repositories import GitRepository


@pytest.mark.parametrize(
    ("url", "protocol", "address"),
    [
        ("https://git.example/a/b.git", "https", "https://git.example/a/b.git"),
        ("http://192.168.70.8/aisdp/data_service/pipeline_demo", "http",
         "http://192.168.70.8/aisdp/data_service/pipeline_demo"),
        ("HTTPS://Git.Example:8443/a", "https", "https://git.example:8443/a"),
        ("https://user:pass@git.example/a", "https", "https://git.example/a"),
        ("https://[::1]:8080/a", "https", "https://[::1]:8080/a"),
        ("ssh://git@git.example:2222/a/b.git", "ssh", "ssh://git@git.example:2222/a/b.git"),
        ("git@git.example:a/b.git", "ssh", "git@git.example:a/b.git"),
        ("git@git.example:/srv/b.git", "ssh", "ssh://git@git.example/srv/b.git"),
        ("/srv/git/a.git", "file", "/srv/git/a.git"),
        ("file:///srv/git/a%20b.git", "file", "/srv/git/a b.git"),
    ],
)  # fmt: skip
def test_arguments_for_git(url: str, protocol: str, address: str) -> None:
    found = read_repository(url)
    assert (found.protocol, found.address) == (protocol, address)


@pytest.mark.parametrize(
    "url",
    [
        "", " ", "main", "./a", "../a", "~/a", "a/b",
        "ext::sh -c touch% /tmp/evil", "ext::sh", "fd::7", "transport::https://x/y", "EXT::sh",
        "--upload-pack=touch /tmp/evil", "-oProxyCommand=touch /tmp/evil", "-u", "--",
        "git://git.example/a", "ftp://git.example/a", "javascript://x/a", "data:text/plain,x",
        "https://git.example/a\n", "https://git.example/a\nb", "https://git.example/a\x00b", "https://git.example/a b",
        "https://git.example", "https:///a", "https://-x/a", "https://git.example:x/a", "https://git.example/a?x=--y",
        "https://git.example/a#b", "https://git ex/a",
        "ssh://-oProxyCommand=x/a", "ssh://git@-oProxyCommand=x/a", "ssh://-x@host/a", "ssh://a:b@host/a",
        "ssh://host/-x", "git@-oProxyCommand=x:a", "-x@host:a", "git@host:-x", "$(x)@host:a", "git@ho`x`st:a",
        "file://other/srv", "file:///a?b", "file:relative", "https://git.example/" + "a" * 2000,
    ],
)  # fmt: skip
def test_refused_urls(url: str) -> None:
    with pytest.raises(RepositoryError):
        read_repository(url)


@pytest.mark.parametrize(
    ("address", "allowed", "is_admin", "refused"),
    [
        ("/srv/git/a", (), False, True),
        ("/srv/git/a", (), True, False),
        ("/srv/git/a", ("/srv/git",), False, False),
        ("/srv/git/../secret", ("/srv/git",), False, True),
        ("/srv/github", ("/srv/git",), False, True),
    ],
)
def test_local_repositories_need_an_admin_or_a_setting(
    address: str, allowed: tuple[str, ...], is_admin: bool, refused: bool
) -> None:
    folders = tuple(map(Path, allowed))
    assert bool(local_problem(Repository("file", address), folders, is_admin=is_admin)) == refused
    assert local_problem(Repository("https", "https://git.example/a"), (), is_admin=False) == ""


def test_a_link_out_of_an_allowed_directory_is_followed_and_refused(tmp_path: Path) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "git" / "link").symlink_to(tmp_path / "secret")
    repository = Repository("file", str(tmp_path / "git" / "link"))
    assert local_problem(repository, (tmp_path / "git",), is_admin=False)


@pytest.mark.parametrize(
    ("url", "shown", "secrets"),
    [
        ("https://git.example/a", "https://git.example/a", []),
        ("https://ann:p%40ss@git.example/a", "https://***@git.example/a", ["p%40ss", "ann:p%40ss", "p@ss"]),
        ("https://token@git.example/a", "https://***@git.example/a", ["token"]),
        ("ssh://git@git.example/a", "ssh://git@git.example/a", []),
        ("git@git.example:a", "git@git.example:a", []),
    ],
)
def test_credentials(url: str, shown: str, secrets: list[str]) -> None:
    assert without_credentials(url) == shown
    assert credentials_in(url) == secrets


def test_credentials_are_sent_to_their_host_only_and_are_on_no_command_line() -> None:
    repository = read_repository("https://ann:pass@git.example/a")
    env = git_environment(repository)
    keys = {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(int(env["GIT_CONFIG_COUNT"]))}
    assert keys["http.https://git.example.extraHeader"] == "Authorization: Basic YW5uOnBhc3M="
    assert "pass" not in repository.address


@pytest.mark.parametrize(("url", "only"), [("/srv/a", "file"), ("git@host:a", "ssh"), ("https://h/a", "http:https")])
def test_git_uses_no_other_protocol(url: str, only: str) -> None:
    env = git_environment(read_repository(url))
    assert env["GIT_ALLOW_PROTOCOL"] == only
    assert env["GIT_CONFIG_GLOBAL"] == "/dev/null"


@pytest.mark.parametrize("ref", ["main", "v1.0", "lyy-demo", "feature/x_1", "分支", "a+b", "release@2"])
def test_branches_and_tags(ref: str) -> None:
    assert ref_problem(ref) == ""


@pytest.mark.parametrize(
    "ref",
    ["", "-x", "--output=x", "a b", "a\n", "a..b", "a@{1}", "a:b", "a^", "a~1", "/a", "a/", "a//b", "a.lock", ".a",
     "a/.b", "a.", "a*", "a?", "a[", "a\\b", "x" * 251],
)  # fmt: skip
def test_invalid_branches(ref: str) -> None:
    assert ref_problem(ref)


@pytest.mark.parametrize(
    ("written", "path"),
    [("/", ""), ("", ""), (".", ""), ("a", "a"), ("/a/b/", "a/b"), ("./a//b", "a/b"), ("a/..b", "a/..b")],
)
def test_paths_in_a_repository(written: str, path: str) -> None:
    assert inner_path(written) == path


@pytest.mark.parametrize("written", ["..", "../a", "a/../b", "/..", ".git", "a/.GIT/hooks", "a\nb", "a\\b", "a\0"])
def test_paths_out_of_the_repository(written: str) -> None:
    with pytest.raises(ValueError, match=r"out of the repository|the folder .git|characters"):
        inner_path(written)


def entry(name: str, mode: str = "100644", kind: str = "blob", size: str = "10") -> str:
    return f"{mode} {kind} {'0' * 40} {size:>7}\t{name}"


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], ""),
        ([entry("a"), entry("b c/d", "100755"), entry("l", "120000"), entry("sub", "160000", "commit", "-")], ""),
        ([entry("../a")], "leads out"),
        ([entry("/etc/passwd")], "leads out"),
        ([entry("a/.git/config")], "leads out"),
        ([entry("a/.Git/config")], "leads out"),
        ([entry("a", "040000")], "neither a file nor a link"),
        ([entry("a", size="1000001")], "larger than 1 MB"),
        ([entry("a"), entry("b"), entry("c"), entry("d"), entry("e")], "more than 4 files"),
    ],
)
def test_files_that_may_be_checked_out(entries: list[str], problem: str) -> None:
    found = listing_problem("\0".join(entries).encode(), 1_000_000, 4)
    assert problem in found
    assert bool(problem) == bool(found)


@pytest.mark.parametrize(
    ("link", "target", "leads_out"),
    [
        ("a", "b", False),
        ("sub/a", "../b", False),
        ("sub/a", "../sub/./b", False),
        ("a", "missing", False),
        ("a", "..", True),
        ("a", "sub/../../x", True),
        ("sub/a", "../../x", True),
        ("a", "/etc", True),
        ("a", "up/etc", True),
    ],
)
def test_links(tmp_path: Path, link: str, target: str, leads_out: bool) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "b").write_text("")
    (root / link).symlink_to(target)
    if target.startswith("up"):
        (root / "up").symlink_to("/")
    assert bool(outside_link(root)) == leads_out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("README.txt", b"x", "is not Markdown"),
        ("README.md", None, "there is no file"),
        ("README.md", b"\xff\xfe", "not text in UTF-8"),
        ("README.md", b"a\0b", "is not text"),
        ("README.md", b" \n", "is empty"),
        ("README.md", b"x" * 1_000_001, "larger than"),
    ],
)
def test_invalid_readmes(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckoutError, match=message):
        read_readme(tmp_path, name)


def test_a_readme_that_is_no_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "README.md")
    with pytest.raises(CheckoutError, match="is not a file"):
        read_readme(tmp_path, "README.md")


@dataclass
class GitServer:
    repository: GitRepository
    redirect: str = ""
    port: int = 0
    asked: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.headers.get("Authorization", ""))
        if self.redirect:
            raise web.HTTPFound(self.redirect)
        if self.asked[-1] != "Basic " + b64encode(b"ann:hunter2").decode():
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Basic"})
        return await serve_git(request, self.repository.path.parent)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[GitServer]:
    git = GitServer(GitRepository(tmp_path / "served" / "repository"))
    async with serve_http(git.answer) as git.port:
        yield git


async def fetched(url: str, tmp_path: Path) -> tuple[str, str]:
    """Returns the commit or the error, and the log."""
    log = BuildLog(tmp_path / "log", credentials_in(url))
    deadline = asyncio.get_running_loop().time() + 60
    (tmp_path / "work").mkdir()
    here = BuildContext("v1", log, deadline, tmp_path / "work", 10_000_000)
    try:
        found = await fetch(read_repository(url), "main", "", tmp_path / "work" / "repository", here)
    except BuildFailed as error:
        found = str(error)
    log.close()
    return found, (tmp_path / "log").read_text()


async def test_credentials_reach_only_their_server(server: GitServer, tmp_path: Path) -> None:
    commit, log = await fetched(f"http://ann:hunter2@127.0.0.1:{server.port}/repository", tmp_path)
    assert commit == server.repository.git("rev-parse", "HEAD")
    assert "hunter2" not in log
    assert b64encode(b"ann:hunter2").decode() not in log
    assert f"http://127.0.0.1:{server.port}/repository" in log
    kept = (tmp_path / "work" / "repository" / ".git" / "config").read_text()
    assert "hunter2" not in kept


async def test_git_does_not_prompt_for_credentials(server: GitServer, tmp_path: Path) -> None:
    told, log = await fetched(f"http://127.0.0.1:{server.port}/repository", tmp_path)
    assert told == "git ls-remote failed; see the log"
    assert "fatal" in log


@pytest.mark.parametrize("where", ["file:///etc", "ext::sh -c 'touch /tmp/muster-evil'", "ftp://127.0.0.1/x"])
async def test_a_server_cannot_redirect_git_to_another_protocol(server: GitServer, tmp_path: Path, where: str) -> None:
    server.redirect = where
    told, _ = await fetched(f"http://ann:hunter2@127.0.0.1:{server.port}/repository", tmp_path)
    assert told == "git ls-remote failed; see the log"
    assert not Path("/tmp/muster-evil").exists()
