"""`muster users|teams|tokens ...` against a complete Muster, as users run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.commands import Muster, Result


def as_other(cluster: Muster, *words: str, config: Path, **environment: str) -> Result:
    """Runs a command as another user of the same machine, with their own home and without access to the cluster's
    data."""
    done = subprocess.run(
        cluster.command(*words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MUSTER_HOME": str(config / "home"), "XDG_CONFIG_HOME": str(config), **environment},
    )
    return Result(done.returncode, done.stdout, done.stderr)


def web(cluster: Muster) -> str:
    found = re.search(r"  web +(\S+)", cluster("status").ok().out)
    assert found is not None
    return found[1]


def test_up_and_status_show_the_address_and_the_first_login(cluster: Muster) -> None:
    shown = cluster("status").ok().out
    link = re.search(r"  first login (\S+)  \(works once\)", shown)
    assert link is not None
    assert re.fullmatch(rf"{re.escape(web(cluster))}/welcome#[0-9a-f]{{64}}", link[1])
    assert link[1] in cluster("up").ok().out, "a second `up` prints it again"
    log = (cluster.home / "server.log").stat().st_mode
    assert log & 0o077 == 0, "other users cannot read the link"


def test_the_owner_of_the_cluster_is_its_admin(cluster: Muster) -> None:
    assert "(admin), authenticated by token, scopes: admin, read, write" in cluster("users", "whoami").ok().out


def test_accounts_teams_and_the_audit_log(cluster: Muster) -> None:
    made = cluster("users", "create", "ann", "--display-name", "安").ok()
    assert f"{web(cluster)}/welcome#" in made.out
    cluster("users", "create", "bob", "--admin").ok()
    again = cluster("users", "create", "ann")
    assert (again.code, again.err) == (
        1,
        'error: the platform refused the request\nname: there is already an account "ann"\n',
    )
    assert cluster("users", "edit", "ann", "--email", "a@example.com").ok().out == "ann updated\n"
    assert cluster("users", "edit", "ann").err == "error: nothing to change; use --display-name, --email or --role\n"
    cluster("teams", "create", "crew", "--description", "us").ok()
    cluster("teams", "add", "crew", "ann", "--leader").ok()
    cluster("teams", "add", "crew", "bob").ok()
    members = cluster("teams", "members", "crew").ok().out.splitlines()
    assert [line.split()[0] for line in members[1:]] == ["ann", "bob"]
    cluster("teams", "remove", "crew", "bob").ok()
    assert cluster("teams", "list").ok().out.splitlines()[1].split() == ["crew", "1", "us"]
    leaders = json.loads(cluster("users", "list", "--role", "leader", "--json").ok().out)
    assert [(user["name"], user["display_name"], user["email"]) for user in leaders] == [("ann", "安", "a@example.com")]
    cluster("users", "disable", "bob").ok()
    assert "bob" in cluster("users", "list", "--disabled").ok().out
    cluster("users", "enable", "bob").ok()
    assert "/welcome#" in cluster("users", "reset-password", "bob").ok().out
    done = cluster("users", "audit", "--kind", "team").ok().out.splitlines()
    assert done[0].split() == ["TIME", "WHO", "BY", "FROM", "DID", "TO", "NAME"]
    assert len(done) == 5
    cluster("teams", "delete", "crew").ok()
    assert "there is no team" in cluster("teams", "members", "crew").err


def test_a_user_works_with_a_token_until_it_is_revoked(cluster: Muster, tmp_path: Path) -> None:
    secret = cluster("tokens", "create", "laptop", "--scope", "read", "--days", "1").ok().out.strip()
    assert secret.startswith("mst_")
    nobody = as_other(cluster, "users", "list", config=tmp_path)
    assert nobody.err == "no platform is running; start one with `muster up`, or log in to one with `muster login`\n"
    for words in ((), ("--token", "-")):  # no terminal to ask on
        told = as_other(cluster, "login", web(cluster), *words, config=tmp_path)
        assert (told.code, told.err[:30]) == (1, "error: no token; pass --token ")
    wrong = as_other(cluster, "login", web(cluster), "--token", "mst_wrong", config=tmp_path)
    assert wrong.err == "error: this token is unknown, was revoked, or has expired\n"
    assert not (tmp_path / "muster").exists()
    said = as_other(cluster, "login", web(cluster), "--token", secret, config=tmp_path).ok().out
    assert re.fullmatch(rf"logged in to {re.escape(web(cluster))} as \S+ \(admin\)\n", said)
    assert (tmp_path / "muster" / "login.json").stat().st_mode & 0o777 == 0o600
    assert "scopes: read\n" in as_other(cluster, "users", "whoami", config=tmp_path).ok().out
    refused = as_other(cluster, "teams", "create", "x", config=tmp_path)
    assert refused.err == 'error: this token lacks the scope "write", which "create" needs\n'
    by_variables = {"MUSTER_URL": web(cluster), "MUSTER_TOKEN": secret}
    as_other(cluster, "users", "whoami", config=tmp_path / "elsewhere", **by_variables).ok()

    listed = json.loads(cluster("tokens", "list", "--json").ok().out)
    identifier = next(token["id"] for token in listed if token["name"] == "laptop")
    assert cluster("tokens", "revoke", identifier).ok().out == "laptop revoked\n"
    assert "was revoked" in as_other(cluster, "users", "whoami", config=tmp_path).err
    assert "laptop" not in cluster("tokens", "list").ok().out
    assert "laptop" in cluster("tokens", "list", "--all").ok().out
    as_other(cluster, "logout", config=tmp_path).ok()
    assert "no platform is running" in as_other(cluster, "users", "whoami", config=tmp_path).err


def test_the_openapi_document(cluster: Muster) -> None:
    document = json.loads(cluster("openapi").ok().out)
    assert document["openapi"].startswith("3.1")
    assert "list_users" in str(document["paths"]["/api/v1/users"])


@pytest.mark.parametrize("words", [["--help"], ["users", "--help"], ["status"]])
def test_commands_do_not_import_server_modules(cluster: Muster, words: list[str]) -> None:
    heavy = "print(sorted({'fastapi', 'pydantic', 'sqlalchemy', 'alembic'} & sys.modules.keys()))"
    looked = f"import sys, muster.cli.main as main; main.run(sys.argv[1:]); {heavy}"
    program = [cluster.command()[0], "-c", looked, *words]
    done = subprocess.run(program, capture_output=True, text=True, env=cluster.environment, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
