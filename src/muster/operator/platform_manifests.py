"""Every object of the platform's server on a Kubernetes cluster: RBAC, settings, Deployment, Service and policies.

`muster deploy` applies these objects. The Helm chart `muster` and the kustomize folder deploy/kustomize/platform are
generated from them by tools/deploy.py. The operator, which runs training jobs, is in `install_manifests`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

from muster import __version__
from muster.kube.manifests import dump
from muster.kube.objects import Object
from muster.operator.install_manifests import restricted_pod_spec
from muster.training.registry import training_kinds
from muster.workspaces.kinds import NOTEBOOK, NOTEBOOK_LABEL, TENSORBOARD, TENSORBOARD_LABEL

NAME: Final = "muster"
NAMESPACE: Final = "muster-system"
IMAGE: Final = f"muster:{__version__}"
SECRET: Final = "muster"  # noqa: S105  (the name of one)
HOME: Final = "/var/lib/muster"
SECRETS: Final = "/etc/muster/secrets"
CONFIG: Final = "config.yaml"
PORT, MONITORING_PORT = 8265, 8080
CONFIG_ANNOTATION: Final = "muster.dev/config"
"""A hash of the settings: Pods are replaced when they change."""

SELECTOR: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/component": "server"}
LABELS: Final = {**SELECTOR, "app.kubernetes.io/part-of": "muster"}

REQUIRED_KEYS: Final = ("database-url", "encryption-key")
"""What the Secret must have: a PostgreSQL URL, and 32 random bytes in base64. `needed_keys` has what settings add."""
OPTIONAL_KEYS: Final = ("s3-access-key", "s3-secret-key", "oidc-client-secret")
_S3_KEYS: Final = {"s3-access-key": "accessKey", "s3-secret-key": "secretKey"}
_VARIABLES: Final = {
    "MUSTER_DATABASE": "database-url",
    "MUSTER_ENCRYPTION_KEY": "encryption-key",
    "MUSTER_S3_ACCESS_KEY": "s3-access-key",
    "MUSTER_S3_SECRET_KEY": "s3-secret-key",
}


@dataclass(frozen=True, slots=True)
class PlatformOptions:
    namespace: str = NAMESPACE
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    pull_secrets: Any = ()
    replicas: Any = 2
    secret: str = SECRET
    """The Secret with REQUIRED_KEYS and OPTIONAL_KEYS. It must exist: no password is an option or a value."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Settings, as in docs/settings.md: web.url, artifacts.s3, oidc and so on."""
    resources: Any = field(
        default_factory=lambda: {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}
    )
    placement: Mapping[str, Any] = field(default_factory=dict)
    """nodeSelector, tolerations, affinity and priorityClassName of its Pods."""
    egress_ports: Any = (443, 5432, 6443)
    """The ports to which its Pods may connect: API server, PostgreSQL, object store, OpenID provider, git."""
    ingress_from: Any = ()
    """Peers of the NetworkPolicy that may reach the web port, such as the namespace of the ingress; all by default."""


def build_platform(options: PlatformOptions = PlatformOptions()) -> list[Object]:
    """Returns all objects in the order in which to apply them, without the namespace and the Secret."""
    return [
        account(options),
        role(options),
        binding(options),
        config_map(options),
        service(options),
        network_policy(options),
        disruption_budget(options),
        deployment(options),
    ]


def server_config(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the server: those of the installation, and those given."""
    web = {"host": "0.0.0.0", "port": PORT, "monitoring": {"host": "0.0.0.0", "port": MONITORING_PORT}}  # noqa: S104
    config: dict[str, Any] = {**extra, "web": {**(extra.get("web") or {}), **web}}
    oidc = extra.get("oidc")
    if oidc and not {"clientSecret", "clientSecretFile"} & oidc.keys():
        config["oidc"] = {**oidc, "clientSecretFile": f"{SECRETS}/oidc-client-secret"}
    return config


def needed_keys(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys that the Secret must have for these settings. Without them, the server does not start, or OpenID logins
    fail."""
    s3, oidc = (config.get("artifacts") or {}).get("s3") or {}, config.get("oidc") or {}
    keys: tuple[str, ...] = REQUIRED_KEYS
    if s3 and not s3.get("secretName"):
        keys += tuple(key for key, field in _S3_KEYS.items() if not s3.get(field))
    if oidc and not {"clientSecret", "clientSecretFile"} & oidc.keys():
        keys += ("oidc-client-secret",)
    return keys


def egress_ports(config: Mapping[str, Any], more: Sequence[int] = ()) -> tuple[int, ...]:
    """The ports that the server needs: the usual ones, those of addresses in the settings, and `more`."""
    dispatch = config.get("dispatch") or {}
    addresses = [
        ((config.get("artifacts") or {}).get("s3") or {}).get("endpoint"),
        (config.get("oidc") or {}).get("issuer"),
        (config.get("kubernetes") or {}).get("argoServer"),
        (dispatch.get("aihc") or {}).get("endpoint"),
        (dispatch.get("timaker") or {}).get("address"),
    ]
    named = {
        address.port or (443 if address.scheme == "https" else 80)
        for address in (urlsplit(each) for each in addresses if each)
    }
    named |= {port for each in (config.get("webhooks") or {}).get("addresses") or () if (port := _port_of(each))}
    return tuple(sorted({*PlatformOptions().egress_ports, *named, *more}))


def _port_of(address: str) -> int | None:
    """The port of `hooks.local:8080`; None for a host without a port, an IPv6 address or a network."""
    host, _, port = address.rpartition(":")
    is_port = bool(host) and port.isdigit() and (":" not in host or host.endswith("]"))
    return int(port) if is_port else None


def account(options: PlatformOptions) -> Object:
    """Its Pods request its token themselves."""
    return _object("v1", "ServiceAccount", options, {"automountServiceAccountToken": False})


def role(options: PlatformOptions) -> Object:
    return _object(f"{_RBAC}/v1", "ClusterRole", options, {"rules": rules()}, namespaced=False)


def binding(options: PlatformOptions) -> Object:
    content = {
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": options.namespace}],
    }
    return _object(f"{_RBAC}/v1", "ClusterRoleBinding", options, content, namespaced=False)


def config_map(options: PlatformOptions) -> Object:
    return _object("v1", "ConfigMap", options, {"data": {CONFIG: dump(server_config(options.config))}})


def service(options: PlatformOptions) -> Object:
    ports = [
        {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"},
        {"name": "monitoring", "port": MONITORING_PORT, "targetPort": "monitoring", "protocol": "TCP"},
    ]
    return _object("v1", "Service", options, {"spec": {"selector": SELECTOR, "ports": ports}})


def network_policy(options: PlatformOptions) -> Object:
    """Kubelets probe from nodes, which no selector matches, so the monitoring port is open to all. Pods of workspaces
    are reached by their addresses, to show them in the browser."""
    workspaces = [
        {"namespaceSelector": {}, "podSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}
        for label in (NOTEBOOK_LABEL, TENSORBOARD_LABEL)
    ]
    http: Object = {"ports": [{"port": "http", "protocol": "TCP"}]}
    spec = {
        "podSelector": {"matchLabels": SELECTOR},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            {**http, "from": options.ingress_from} if options.ingress_from else http,
            {"ports": [{"port": "monitoring", "protocol": "TCP"}]},
        ],
        "egress": [
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"ports": [{"port": port, "protocol": "TCP"} for port in options.egress_ports]},
            {"to": workspaces},
        ],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", options, {"spec": spec})


def disruption_budget(options: PlatformOptions) -> Object:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}}
    return _object("policy/v1", "PodDisruptionBudget", options, {"spec": spec})


def deployment(options: PlatformOptions) -> Object:
    """A new server starts before an old one stops: they share the database (docs/platform.md, several servers)."""
    digest = sha256(dump(server_config(options.config)).encode()).hexdigest()
    metadata = {"labels": dict(LABELS), "annotations": {CONFIG_ANNOTATION: digest}}
    spec = {
        "replicas": options.replicas,
        "selector": {"matchLabels": SELECTOR},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": metadata, "spec": _pod_spec(options)},
    }
    return _object("apps/v1", "Deployment", options, {"spec": spec})


def _pod_spec(options: PlatformOptions) -> Object:
    optional = [{"key": "oidc-client-secret", "path": "oidc-client-secret"}]
    secrets = {"secretName": options.secret, "items": optional, "optional": True, "defaultMode": 0o440}
    return restricted_pod_spec(
        NAME,
        SELECTOR,
        _container(options),
        volumes=[
            {"name": "home", "emptyDir": {}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "config", "configMap": {"name": NAME}},
            {"name": "secrets", "secret": secrets},
        ],
        placement=options.placement,
        pull_secrets=options.pull_secrets,
    )


def _container(options: PlatformOptions) -> Object:
    def variable(name: str, key: str) -> Object:
        reference: Object = {"name": options.secret, "key": key}
        optional = {"optional": True} if key in OPTIONAL_KEYS else {}
        return {"name": name, "valueFrom": {"secretKeyRef": {**reference, **optional}}}

    return {
        "name": "server",
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "args": ["server", "--cluster=kubernetes"],
        "env": [{"name": "MUSTER_HOME", "value": HOME}, *(variable(name, key) for name, key in _VARIABLES.items())],
        "ports": [
            {"name": "http", "containerPort": PORT, "protocol": "TCP"},
            {"name": "monitoring", "containerPort": MONITORING_PORT, "protocol": "TCP"},
        ],
        # The first start upgrades the database.
        "startupProbe": {**_probe("/healthz", every=2), "failureThreshold": 60},
        "livenessProbe": _probe("/healthz", every=20),
        "readinessProbe": _probe("/readyz", every=5),
        "resources": options.resources,
        "volumeMounts": [
            {"name": "home", "mountPath": HOME},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  (of the container)
            {"name": "config", "mountPath": f"{HOME}/{CONFIG}", "subPath": CONFIG, "readOnly": True},
            {"name": "secrets", "mountPath": SECRETS, "readOnly": True},
        ],
    }


def _probe(path: str, *, every: int) -> Object:
    return {"httpGet": {"path": path, "port": "monitoring"}, "periodSeconds": every, "timeoutSeconds": 5}


def _object(
    api_version: str, kind: str, options: PlatformOptions, content: Object, *, namespaced: bool = True
) -> Object:
    metadata: Object = {"name": NAME, "labels": dict(LABELS)}
    if namespaced:
        metadata["namespace"] = options.namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


# RBAC: each rule is a call that the server's code makes. Namespaces of users and teams come and go, so the rules apply
# to all of them; `muster deploy --dry-run` prints them.

_RBAC = "rbac.authorization.k8s.io"
_KEEP = ("create", "delete", "get", "list", "patch")
"""Objects that the server creates and keeps as they should be."""


def rules() -> list[Object]:
    jobs: dict[str, set[str]] = {}
    for kind in training_kinds():
        jobs.setdefault(kind.group, set()).add(kind.plural)
    for kind in (NOTEBOOK, TENSORBOARD):
        jobs.setdefault(kind.group, set()).add(kind.plural)
    return [
        # A namespace for every user and team, with a service account for runs and what admins share with it.
        _rule("", ["namespaces"], _KEEP),
        _rule("", ["configmaps", "persistentvolumeclaims", "secrets"], (*_KEEP, "watch")),
        _rule("", ["persistentvolumes"], ("create", "delete", "get")),
        _rule("", ["limitranges", "resourcequotas", "serviceaccounts"], _KEEP),
        _rule(_RBAC, ["rolebindings", "roles"], _KEEP),
        # Runs. The service account of runs reports results of nodes, and one may only grant what one has.
        _rule("argoproj.io", ["workflows"], (*_KEEP, "update", "watch")),
        _rule("argoproj.io", ["workflowtaskresults"], ("create", "list", "patch")),
        # Schedules, and the templates that they name.
        _rule("argoproj.io", ["cronworkflows"], (*_KEEP, "update", "watch")),
        _rule("argoproj.io", ["clusterworkflowtemplates", "workflowtemplates"], ("get", "list")),
        # Training jobs, notebooks and TensorBoards, of users and of nodes of runs.
        *(_rule(group, sorted(plurals), (*_KEEP, "update", "watch")) for group, plurals in sorted(jobs.items())),
        _rule("batch", ["jobs"], (*_KEEP, "watch")),
        # Logs, shells, and where things run.
        _rule("", ["pods"], (*_KEEP, "watch")),
        _rule("", ["pods/log"], ("get",)),
        _rule("", ["pods/exec"], ("create", "get")),
        _rule("", ["services"], ("get", "list")),
        _rule("", ["events"], ("list", "watch")),
        _rule("", ["nodes"], ("get", "list", "watch")),
        # What Pods use over time, if the cluster measures it.
        _rule("metrics.k8s.io", ["pods"], ("list",)),
        # Virtual clusters.
        _rule("scheduling.volcano.sh", ["queues"], (*_KEEP, "update")),
        _rule("scheduling.volcano.sh", ["podgroups"], ("get", "list")),
        _rule("scheduling.x-k8s.io", ["podgroups"], ("list",)),
        _rule("kueue.x-k8s.io", ["clusterqueues", "localqueues", "resourceflavors"], _KEEP),
        _rule("scheduling.k8s.io", ["priorityclasses"], ("create", "delete", "list")),
    ]


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Object:
    return {"apiGroups": [group], "resources": list(resources), "verbs": sorted(verbs)}
