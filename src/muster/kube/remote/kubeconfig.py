"""Reads how to reach an API server: from a kubeconfig file, or inside a Pod."""

from __future__ import annotations

import base64
import binascii
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

log = logging.getLogger(__name__)

POD_CREDENTIALS = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where Kubernetes mounts a Pod's token and its cluster's certificate authority."""


class KubeconfigError(ValueError):
    """The file is missing, unreadable or incomplete. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Token:
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token file that another program renews, as the kubelet does for a Pod."""

    path: Path


@dataclass(frozen=True, slots=True)
class Password:
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Plugin:
    """A program that prints credentials, as cloud providers have."""

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    provide_cluster: bool = False


Credentials: TypeAlias = Token | TokenFile | Password | Plugin | None


@dataclass(frozen=True, slots=True)
class Access:
    """An API server and our credentials for it, as PEM texts and not paths."""

    server: str
    namespace: str = "default"
    authority: bytes = b""
    insecure: bool = False
    tls_name: str = ""
    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    credentials: Credentials = None
    source: str = ""
    """Where this was read from, for messages."""


def load_kubeconfig(path: str | Path | Sequence[str | Path], context: str = "") -> Access:
    """Returns the access of a kubeconfig's context: the current one, unless another is named. Of several files, as in
    KUBECONFIG, the first that has an entry wins."""
    paths = [Path(path)] if isinstance(path, str | Path) else [Path(p) for p in path]
    existing = [p.expanduser() for p in paths if p.expanduser().exists()]
    if not existing:
        raise KubeconfigError(
            f"there is no kubeconfig at {', '.join(str(p) for p in paths)}; name one with --kubeconfig or KUBECONFIG"
        )
    config = _merge([(p, _read(p)) for p in existing])
    return access_of(config, context, ", ".join(str(p) for p in existing))


def in_cluster(
    environment: Mapping[str, str] = os.environ,
    credentials: Path = POD_CREDENTIALS,
) -> Access:
    """Returns the access that Kubernetes gives to every Pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (credentials / "token").exists():
        raise KubeconfigError(
            f"this is not inside a cluster: KUBERNETES_SERVICE_HOST is not set, or there is no {credentials / 'token'}"
        )
    namespace = credentials / "namespace"
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        authority=(credentials / "ca.crt").read_bytes() if (credentials / "ca.crt").exists() else b"",
        credentials=TokenFile(credentials / "token"),
        source="the Pod's service account",
    )


def access_of(config: Mapping[str, Any], context: str = "", source: str = "kubeconfig") -> Access:
    """The same for a kubeconfig that is already parsed. Its paths must be absolute."""
    wanted = context or config.get("current-context") or ""
    contexts = _by_name(config, "contexts", "context")
    if not contexts:
        raise KubeconfigError(f"{source}: this is not a kubeconfig: it has no contexts")
    if not wanted:
        raise KubeconfigError(f"{source}: no current-context is set; name one of: {_names(contexts)}")
    chosen = _pick(contexts, wanted, "context", source)
    cluster = _pick(_by_name(config, "clusters", "cluster"), str(chosen.get("cluster") or ""), "cluster", source)
    users = _by_name(config, "users", "user")
    user = _pick(users, str(chosen["user"]), "user", source) if chosen.get("user") else {}
    server = str(cluster.get("server") or "")
    if not server.startswith(("http://", "https://")):
        raise KubeconfigError(
            f'{source}: the cluster "{chosen.get("cluster")}" has no server; it looks like https://host:6443'
        )
    if cluster.get("proxy-url"):
        log.warning("%s: proxy-url is not supported and is ignored", source)
    return Access(
        server=server.rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        authority=_pem(cluster, "certificate-authority", source),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        tls_name=str(cluster.get("tls-server-name") or ""),
        certificate=_pem(user, "client-certificate", source),
        key=_pem(user, "client-key", source),
        credentials=_credentials(user, source),
        source=f'{source} (context "{wanted}")',
    )


def _credentials(user: Mapping[str, Any], source: str) -> Credentials:
    for unsupported in ("auth-provider", "as", "as-groups", "as-uid"):
        if user.get(unsupported):
            raise KubeconfigError(f"{source}: {unsupported} is not supported; use a token, a certificate or exec")
    if user.get("tokenFile"):
        return TokenFile(Path(str(user["tokenFile"])))
    if user.get("token"):
        return Token(str(user["token"]))
    if user.get("username"):
        return Password(str(user["username"]), str(user.get("password") or ""))
    plugin = user.get("exec")
    if not plugin:
        return None
    if not plugin.get("command"):
        raise KubeconfigError(f"{source}: exec has no command")
    return Plugin(
        command=str(plugin["command"]),
        arguments=tuple(str(a) for a in plugin.get("args") or ()),
        environment={str(e["name"]): str(e["value"]) for e in plugin.get("env") or ()},
        api_version=str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1"),
        install_hint=str(plugin.get("installHint") or ""),
        provide_cluster=bool(plugin.get("provideClusterInfo")),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise KubeconfigError(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # Omit the text around the error: it may contain a token.
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise KubeconfigError(f"{path}{where} is not YAML") from None
    if not isinstance(config, dict):
        raise KubeconfigError(f"{path} is not a kubeconfig: it has no clusters, users and contexts")
    return config


_PATHS = {
    ("clusters", "cluster"): ("certificate-authority",),
    ("users", "user"): ("client-certificate", "client-key", "tokenFile"),
}


def _merge(configs: list[tuple[Path, dict[str, Any]]]) -> dict[str, Any]:
    """Merges several kubeconfigs, and makes paths absolute: they are relative to their file."""
    merged: dict[str, Any] = {"clusters": [], "users": [], "contexts": []}
    for path, config in configs:
        merged.setdefault("current-context", config.get("current-context"))
        merged["current-context"] = merged["current-context"] or config.get("current-context")
        for (section, inner), fields in _PATHS.items():
            for entry in config.get(section) or ():
                body = entry.get(inner) or {}
                for name in fields:
                    if body.get(name):
                        body[name] = str(path.parent.resolve() / str(body[name]))
                plugin = body.get("exec") or {}
                if "/" in str(plugin.get("command") or ""):
                    plugin["command"] = str(path.parent.resolve() / str(plugin["command"]))
        for section in ("clusters", "users", "contexts"):
            known = {entry.get("name") for entry in merged[section]}
            merged[section] += [entry for entry in config.get(section) or () if entry.get("name") not in known]
    return merged


def _by_name(config: Mapping[str, Any], section: str, inner: str) -> dict[str, Mapping[str, Any]]:
    return {str(entry.get("name")): entry.get(inner) or {} for entry in config.get(section) or ()}


def _pick(entries: Mapping[str, Mapping[str, Any]], name: str, what: str, source: str) -> Mapping[str, Any]:
    found = entries.get(name)
    if found is None:
        raise KubeconfigError(f'{source} has no {what} "{name}"; it has: {_names(entries)}')
    return found


def _names(entries: Mapping[str, Any]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(entries)) or "none"


def _pem(holder: Mapping[str, Any], name: str, source: str) -> bytes:
    """Returns a certificate or key, given as data or as a file."""
    data = holder.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=True)
        except (binascii.Error, ValueError):
            raise KubeconfigError(f"{source}: {name}-data is not base64") from None
    if not holder.get(name):
        return b""
    try:
        return Path(str(holder[name])).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"{source}: {name} {holder[name]} cannot be read: {error.strerror}") from None
