from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.kube.remote.kubeconfig import (
    Access,
    KubeconfigError,
    Password,
    Plugin,
    Token,
    TokenFile,
    access_of,
    in_cluster,
    load_kubeconfig,
)

PEM = b"-----BEGIN CERTIFICATE-----\n"


def config(cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "there", "context": {"cluster": "other", "user": "u"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://h:6443/", **(cluster or {})}},
            {"name": "other", "cluster": {"server": "https://other"}},
        ],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }


def written(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def test_the_current_context_or_another() -> None:
    here = access_of(config())
    assert (here.server, here.namespace) == ("https://h:6443", "team")
    there = access_of(config(), "there")
    assert (there.server, there.namespace) == ("https://other", "default")


@pytest.mark.parametrize(
    ("user", "credentials"),
    [
        ({}, None),
        ({"token": "t"}, Token("t")),
        ({"tokenFile": "/t", "token": "t"}, TokenFile(Path("/t"))),
        ({"username": "u", "password": "p"}, Password("u", "p")),
        (
            {"exec": {"command": "aws", "args": ["eks"], "env": [{"name": "A", "value": "1"}], "apiVersion": "x/v1"}},
            Plugin("aws", ("eks",), {"A": "1"}, "x/v1"),
        ),
    ],
)
def test_who_we_are(user: dict[str, Any], credentials: object) -> None:
    assert access_of(config(user=user)).credentials == credentials


def test_certificates_as_data_and_as_files(tmp_path: Path) -> None:
    encoded = base64.b64encode(PEM).decode()
    (tmp_path / "key.pem").write_bytes(b"key")
    path = written(
        tmp_path / "config",
        config({"certificate-authority-data": encoded}, {"client-certificate-data": encoded, "client-key": "key.pem"}),
    )
    access = load_kubeconfig(path)
    assert (access.authority, access.certificate, access.key) == (PEM, PEM, b"key")


def test_paths_are_relative_to_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "deep" / "config", config(user={"tokenFile": "secrets/token"}))
    monkeypatch.chdir(tmp_path)
    assert load_kubeconfig(path).credentials == TokenFile(tmp_path / "deep" / "secrets" / "token")


def test_of_several_files_the_first_that_has_an_entry_wins(tmp_path: Path) -> None:
    first = written(tmp_path / "a", {"clusters": [{"name": "c", "cluster": {"server": "https://first"}}]})
    second = written(tmp_path / "b", config())
    access = load_kubeconfig([first, tmp_path / "missing", second])
    assert (access.server, access.namespace) == ("https://first", "team")


@pytest.mark.parametrize(
    ("content", "context", "message"),
    [
        (config(), "nowhere", 'no context "nowhere"; it has: "here", "there"'),
        ({**config(), "current-context": ""}, "", 'name one of: "here", "there"'),
        ({**config(), "clusters": []}, "", 'no cluster "c"; it has: none'),
        ({**config(), "users": []}, "", 'no user "u"'),
        (config({"server": ""}), "", "https://host:6443"),
        (config({"certificate-authority-data": "%%%"}), "", "certificate-authority-data is not base64"),
        (config({"certificate-authority": "/no/such.pem"}), "", "cannot be read"),
        (config(user={"auth-provider": {"name": "gcp"}}), "", "auth-provider is not supported"),
        (config(user={"exec": {}, "as": "root"}), "", "as is not supported"),
    ],
)
def test_what_is_wrong_is_named(content: dict[str, Any], context: str, message: str) -> None:
    with pytest.raises(KubeconfigError, match=message):
        access_of(content, context)


@pytest.mark.parametrize("text", ["token: [s3cret", "s3cret", "- s3cret\n"])
def test_an_unreadable_file_is_named_but_not_quoted(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubeconfigError) as error:
        load_kubeconfig(path)
    assert str(path) in str(error.value) and "s3cret" not in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not a kubeconfig: it has no contexts"):
        access_of({"apiVersion": "kubeflow.org/v1"})
    with pytest.raises(KubeconfigError, match="there is no kubeconfig"):
        load_kubeconfig(tmp_path / "nothing")


def test_a_proxy_is_ignored_with_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        access_of(config({"proxy-url": "http://proxy"}))
    assert "proxy-url" in caplog.text


def test_secrets_do_not_show_when_printed() -> None:
    access = access_of(config(user={"token": "s3cret"}))
    assert "s3cret" not in repr(access)
    assert "s3cret" not in repr(Password("u", "s3cret"))
    assert "s3cret" not in repr(Access("https://h", key=b"s3cret"))


def test_inside_a_pod(tmp_path: Path) -> None:
    for name, content in (("token", "t\n"), ("namespace", "team\n"), ("ca.crt", "pem")):
        (tmp_path / name).write_text(content)
    access = in_cluster({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)
    assert (access.server, access.namespace, access.authority) == ("https://10.0.0.1:6443", "team", b"pem")
    assert access.credentials == TokenFile(tmp_path / "token")
    assert in_cluster({"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path).server == "https://[fd00::1]:443"


def test_outside_one(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="not inside a cluster"):
        in_cluster({}, tmp_path)
