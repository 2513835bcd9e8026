"""The kubeconfig of the embedded cluster, which kubectl and every other client use as it is."""

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
    """One cluster, one user, one context. An empty `authority_pem` is for a server without TLS."""
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
    """Writes `path` (for its owner only) so that it reaches `server` as administrator. A token that is still good is
    kept; otherwise the administrator gets a new one, and the old ones end."""
    authority = certificates.authority_pem() if certificates else b""
    token = _token_in(path)
    user = tokens.verify(token) if token else None
    if user is None or not user.is_master:
        tokens.revoke(user=ADMIN)
        token = tokens.issue(ADMIN, [MASTERS])
    text = _dump(kubeconfig(server, authority, token))
    if not path.exists() or path.read_bytes() != text or path.stat().st_mode & 0o077:
        write_private(path, text)


def _token_in(path: Path) -> str:
    with contextlib.suppress(OSError, yaml.YAMLError, KeyError, IndexError, TypeError):
        # In C where PyYAML was built with it: a server that starts reads and writes one of these every time.
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return str(yaml.load(path.read_text(), loader)["users"][0]["user"]["token"])  # noqa: S506
    return ""


def _dump(config: dict[str, Any]) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(config, Dumper=dumper, sort_keys=False, encoding="utf-8")
    return text
