from __future__ import annotations

from pathlib import Path

import pytest

from muster.embedded.auth.certificates import Certificates, ensure_certificates
from muster.embedded.auth.kubeconfig import ADMIN, ensure_admin_kubeconfig
from muster.embedded.auth.tokens import TokenFile
from muster.kube.remote.kubeconfig import Access, Token, load_kubeconfig

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def tokens(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "tokens.json")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return ensure_certificates(tmp_path_factory.mktemp("identity"))


def token_of(access: Access) -> str:
    assert isinstance(access.credentials, Token)
    return access.credentials.value


def test_the_file_is_a_kubeconfig(tmp_path: Path, tokens: TokenFile, certificates: Certificates) -> None:
    ensure_admin_kubeconfig(tmp_path / "kubeconfig", SERVER, certificates, tokens)
    access = load_kubeconfig(tmp_path / "kubeconfig")
    assert (access.server, access.namespace) == (SERVER, "default")
    assert access.authority == certificates.authority.read_bytes()
    user = tokens.verify(token_of(access))
    assert user is not None and user.name == ADMIN and user.is_master


def test_it_is_for_its_owner_only(tmp_path: Path, tokens: TokenFile, certificates: Certificates) -> None:
    path = tmp_path / "kubeconfig"
    ensure_admin_kubeconfig(path, SERVER, certificates, tokens)
    path.chmod(0o644)
    ensure_admin_kubeconfig(path, SERVER, certificates, tokens)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_good_token_is_kept_when_the_server_moves(
    tmp_path: Path, tokens: TokenFile, certificates: Certificates
) -> None:
    path = tmp_path / "kubeconfig"
    ensure_admin_kubeconfig(path, SERVER, certificates, tokens)
    before = token_of(load_kubeconfig(path))
    ensure_admin_kubeconfig(path, "https://127.0.0.1:7777", certificates, tokens)
    assert load_kubeconfig(path).server == "https://127.0.0.1:7777"
    assert token_of(load_kubeconfig(path)) == before


def test_a_lost_kubeconfig_ends_the_token_that_was_in_it(
    tmp_path: Path, tokens: TokenFile, certificates: Certificates
) -> None:
    path = tmp_path / "kubeconfig"
    ensure_admin_kubeconfig(path, SERVER, certificates, tokens)
    lost = token_of(load_kubeconfig(path))
    path.unlink()
    ensure_admin_kubeconfig(path, SERVER, certificates, tokens)
    assert tokens.verify(lost) is None
    assert tokens.verify(token_of(load_kubeconfig(path))) is not None


@pytest.mark.parametrize("rubbish", ["", "[]", "users: [", "users: [{user: {token: stolen}}]", "users: 3"])
def test_rubbish_is_replaced(tmp_path: Path, tokens: TokenFile, rubbish: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(rubbish)
    ensure_admin_kubeconfig(path, "http://127.0.0.1:8080", None, tokens)
    assert tokens.verify(token_of(load_kubeconfig(path))) is not None


def test_a_token_of_another_user_is_replaced(tmp_path: Path, tokens: TokenFile) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(f"users: [{{user: {{token: {tokens.issue('ada')}}}}}]")
    ensure_admin_kubeconfig(path, SERVER, None, tokens)
    user = tokens.verify(token_of(load_kubeconfig(path)))
    assert user is not None and user.is_master
