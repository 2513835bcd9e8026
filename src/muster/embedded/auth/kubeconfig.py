"""The kubeconfig of the embedded cluster, for kubectl and every other client."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import Any

import yaml

from muster.embedded.auth.certificates import Certificates
from muster.embedded.auth.private_files import write_private
from muster.embedded.auth.tokens import TokenFile
from muster.kube.rbac import MASTERS

ADMIN = "muster-admin"


def kubeconfig(
    server: str,
    authority_pem: bytes,
    token: str,
    *,
    user: str = ADMIN,
    name: str = "muster",
    namespace: str = "default",
) -> dict[str, Any]:
    """Returns a kubeconfig with one cluster, user and context. `authority_pem` is empty for a server without TLS."""
    cluster: dict[str, Any] = {"server": server}
    if authority_pem:
        cluster["certificate-authority-data"] = base64.b64encode(authority_pem).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": namespace}}],
        "current-context": name,
    }


def ensure_admin_kubeconfig(path: Path, server: str, certificates: Certificates | None, tokens: TokenFile) -> None:
    """Writes `path` (readable by its owner only) for administrator access to `server`.

    A valid token in the file is kept. Otherwise, a new one is issued and the old ones are revoked."""
    authority = certificates.authority_pem() if certificates else b""
    token = _read_token(path)
    user = tokens.verify(token) if token else None
    if user is None or not user.is_master:
        tokens.revoke(user=ADMIN)
        token = tokens.issue(ADMIN, [MASTERS])
    text = _dump(kubeconfig(server, authority, token))
    if not path.exists() or path.read_bytes() != text or path.stat().st_mode & 0o077:
        write_private(path, text)


def _read_token(path: Path) -> str:
    with contextlib.suppress(OSError, yaml.YAMLError, KeyError, IndexError, TypeError):
        # The C version, if available: every start of a server reads and writes this file.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return str(yaml.load(path.read_text(), loader)["users"][0]["user"]["token"])  # noqa: S506
    return ""


def _dump(config: dict[str, Any]) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(config, Dumper=dumper, sort_keys=False, encoding="utf-8")
    return text
