"""The users of the cluster: a certificate authority, certificates, static tokens and a kubeconfig for each user."""

from __future__ import annotations

import datetime
import ipaddress
import secrets
from collections.abc import Sequence
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tools.cluster.layout import API_PORT, API_SERVICE_ADDRESS, DOMAIN, NODE_ADDRESS, Layout

COMPONENTS = "muster:components"
"""The group of the cluster's own controllers. They may do everything, but are not `system:masters`, which is exempt
from the server's priority and fairness."""

_CONTROLLERS = (
    "coredns", "kwok", "volcano", "argo", "training-operator", "scheduler-plugins", "kueue", "network-policy",
    "operator",
)  # fmt: skip
_DAYS = 365


def make(layout: Layout) -> None:
    """Creates what is missing. Existing credentials stay valid."""
    certificates = layout.certificates
    if (certificates / "complete").exists():
        return
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _certificate("muster-cluster", authority_key, None, None)
    _write(certificates / "ca", authority, authority_key)
    server_names = [
        "localhost", layout.node, "kubernetes", "kubernetes.default", "kubernetes.default.svc",
        f"kubernetes.default.svc.{DOMAIN}", "127.0.0.1", NODE_ADDRESS, API_SERVICE_ADDRESS,
    ]  # fmt: skip
    for name, common_name, organization, names in (
        ("apiserver", "kube-apiserver", "", server_names),
        ("kubelet", f"system:node:{layout.node}", "system:nodes", [layout.node, NODE_ADDRESS, "127.0.0.1"]),
        ("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters", []),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(common_name, key, authority, authority_key, organization, names)
        _write(certificates / name, certificate, key)
    _write(certificates / "service-accounts", None, rsa.generate_private_key(public_exponent=65537, key_size=2048))
    _tokens(layout)
    (certificates / "complete").touch()


def users(layout: Layout) -> dict[str, tuple[str, str]]:
    """Short name to the user and group that the API server sees."""
    return {
        "admin": ("muster:admin", "system:masters"),
        "kube-controller-manager": ("system:kube-controller-manager", ""),
        "kube-scheduler": ("system:kube-scheduler", ""),
        "kube-proxy": ("system:kube-proxy", ""),
        "kubelet": (f"system:node:{layout.node}", "system:nodes"),
        **{name: (f"muster:{name}", COMPONENTS) for name in _CONTROLLERS},
    }


def authority_of(layout: Layout) -> Path:
    return layout.certificates / "ca.crt"


def _tokens(layout: Layout) -> None:
    lines = []
    for name, (user, group) in users(layout).items():
        token = secrets.token_hex(16)
        groups = f',"{group}"' if group else ""
        lines.append(f"{token},{user},{user}{groups}\n")
        _kubeconfig(layout, name, token)
    path = layout.certificates / "tokens.csv"
    path.touch(mode=0o600)
    path.write_text("".join(lines))


def _kubeconfig(layout: Layout, name: str, token: str) -> None:
    path = layout.kubeconfig_of(name)
    path.touch(mode=0o600)
    cluster = {
        "server": f"https://{NODE_ADDRESS}:{API_PORT}",
        "certificate-authority": str(authority_of(layout)),
    }
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": layout.name,
                "clusters": [{"name": layout.name, "cluster": cluster}],
                "users": [{"name": name, "user": {"token": token}}],
                "contexts": [{"name": layout.name, "context": {"cluster": layout.name, "user": name}}],
            },
            sort_keys=False,
        )
    )


def _certificate(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey | None,
    organization: str = "",
    names: Sequence[str] = (),
) -> x509.Certificate:
    """Without an issuer, it is a self-signed authority."""
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    subject = x509.Name(attributes)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    if issuer is not None:
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
        builder = builder.add_extension(alternatives, critical=False)
    return builder.sign(issuer_key or key, hashes.SHA256())


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _write(
    path: Path, certificate: x509.Certificate | None, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
) -> None:
    private = path.with_name(f"{path.name}.key")
    private.touch(mode=0o600)
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )  # fmt: skip
    if certificate is not None:
        path.with_name(f"{path.name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
