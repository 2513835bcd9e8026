from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.embedded.auth.tokens import PREFIX, TokenFile
from muster.kube.rbac import AUTHENTICATED, MASTERS

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_token_identifies_its_user(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    user = tokens.verify(tokens.issue("ada", ["team-a"]))
    assert user is not None
    assert (user.name, user.groups) == ("ada", frozenset({"team-a", AUTHENTICATED}))
    assert not user.is_master


def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "tokens.json").issue("root", [MASTERS])
    user = TokenFile(tmp_path / "tokens.json").verify(token)
    assert user is not None and user.is_master


def test_the_file_holds_no_token_and_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "identity" / "tokens.json"
    token = TokenFile(path).issue("ada")
    assert token.removeprefix(PREFIX) not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0
    assert path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("guess", ["", "x", PREFIX, PREFIX + "A" * 43, "ключ", "\udcff"])
def test_anything_else_is_nobodys(tmp_path: Path, guess: str) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    tokens.issue("ada")
    assert tokens.verify(guess) is None


def test_a_token_ends_when_it_expires(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    token = tokens.issue("ada", expires=NOW)
    assert tokens.verify(token, NOW - timedelta(seconds=1)) is not None
    assert tokens.verify(token, NOW) is None


def test_revoking_by_user_or_by_id(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    first, second, other = tokens.issue("ada"), tokens.issue("ada"), tokens.issue("bob")
    assert tokens.revoke(user="ada") == 2
    assert tokens.verify(first) is None and tokens.verify(second) is None
    assert tokens.revoke(id=tokens.list_issued()[0].id) == 1
    assert tokens.verify(other) is None
    assert tokens.revoke(user="nobody") == 0


def test_a_damaged_file_is_an_error_not_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"tokens": [{"id": 1}]}')
    with pytest.raises(ValueError, match="damaged"):
        TokenFile(path)
