"""Addresses of repositories: what git is told, and what it never gets to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.platform.modules.fetching import git_environment
from muster.platform.modules.repositories import (
    Repository,
    RepositoryError,
    credentials_in,
    local_problem,
    read_repository,
    ref_problem,
    without_credentials,
)


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
def test_what_git_is_told(url: str, protocol: str, address: str) -> None:
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
def test_what_git_never_gets_to_see(url: str) -> None:
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
def test_local_ones_are_for_admins_or_where_the_settings_say(
    address: str, allowed: tuple[str, ...], is_admin: bool, refused: bool
) -> None:
    folders = tuple(map(Path, allowed))
    assert bool(local_problem(Repository("file", address), folders, is_admin=is_admin)) == refused
    assert local_problem(Repository("https", "https://git.example/a"), (), is_admin=False) == ""


def test_a_link_out_of_an_allowed_folder_is_seen_through(tmp_path: Path) -> None:
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


def test_credentials_go_to_their_host_and_are_on_no_command_line() -> None:
    repository = read_repository("https://ann:pass@git.example/a")
    env = git_environment(repository)
    keys = {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(int(env["GIT_CONFIG_COUNT"]))}
    assert keys["http.https://git.example.extraHeader"] == "Authorization: Basic YW5uOnBhc3M="
    assert "pass" not in repository.address


@pytest.mark.parametrize(("url", "only"), [("/srv/a", "file"), ("git@host:a", "ssh"), ("https://h/a", "http:https")])
def test_git_speaks_no_other_protocol(url: str, only: str) -> None:
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
def test_what_is_no_branch(ref: str) -> None:
    assert ref_problem(ref)
