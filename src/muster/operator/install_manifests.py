"""Everything that `muster operator install` brings to a cluster, as objects. The Helm chart and the kustomize base in
deploy/ are written from the same functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from muster import __version__
from muster.kube.objects import Object
from muster.operator.crds import crds
from muster.operator.install_rbac import job_rules, own_rules, webhook_rules
from muster.operator.settings import lease_name
from muster.operator.webhook import PATH
from muster.training.registry import training_kinds

NAME = "muster-operator"
NAMESPACE = "muster-system"
IMAGE = f"muster-operator:{__version__}"
WEBHOOK_SECRET = f"{NAME}-webhook"
CERTIFICATES = "/etc/muster/webhook"
PORT, WEBHOOK_PORT = 8080, 9443
USER = 65532

SELECTOR = {"app.kubernetes.io/name": NAME}
LABELS = {**SELECTOR, "app.kubernetes.io/part-of": "muster"}
ADMISSION = "muster.dev/admission"
"""Label on a namespace: `off` keeps the webhook away from its jobs."""

FailurePolicy: TypeAlias = Literal["Ignore", "Fail"]

_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class InstallOptions:
    namespace: str = NAMESPACE
    image: str = IMAGE
    pull_policy: str = "IfNotPresent"
    pull_secrets: Any = ()
    replicas: Any = 2
    gang: str = "none"
    namespaces: tuple[str, ...] = ()
    """Whose jobs; none named means all. The operator then has no rights in the others."""
    arguments: tuple[str, ...] = ()
    """More of `muster operator`'s own."""
    failure_policy: str = "Ignore"
    """What becomes of jobs while no replica answers. `Ignore` lets them in: the controller finds the same mistakes
    when it is back, and fails the job with the same message. `Fail` keeps everybody from changing jobs until then."""
    issuer: Any = None
    """A cert-manager issuer for the webhook's certificate; without one the operator makes its own."""
    resources: Any = field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    )
    placement: Mapping[str, Any] = field(default_factory=dict)
    """nodeSelector, tolerations, affinity, priorityClassName of its Pods."""
    api_ports: Any = (443, 6443)
    """Of API servers: where the operator's Pods may connect to."""


def manifests(options: InstallOptions = InstallOptions()) -> list[Object]:  # noqa: B008 (frozen)
    """In the order in which they are to be applied."""
    return [
        namespace(options),
        *crds(),
        *accounts(options),
        *([certificate(options)] if options.issuer else [secret(options)]),
        service(options),
        network_policy(options),
        disruption_budget(options),
        deployment(options),
        webhook(options),
    ]


def namespace(options: InstallOptions) -> Object:
    labels = {**LABELS, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": options.namespace, "labels": labels}}


def accounts(options: InstallOptions) -> list[Object]:
    """Who the operator is, and what it may do."""
    return [
        account(options),
        job_role(options),
        *job_bindings(options),
        *([] if options.issuer else webhook_accounts(options)),
        own_role(options),
        own_binding(options),
    ]


def account(options: InstallOptions) -> Object:
    """Its Pods ask for its token themselves."""
    content = {"automountServiceAccountToken": False}
    return _object("v1", "ServiceAccount", NAME, options.namespace, content)


def job_role(options: InstallOptions) -> Object:
    return _object(f"{_RBAC}/v1", "ClusterRole", NAME, "", {"rules": job_rules()})


def job_bindings(options: InstallOptions) -> list[Object]:
    if not options.namespaces:
        return [_binding("ClusterRoleBinding", NAME, "", "ClusterRole", NAME, options)]
    return [
        _binding("RoleBinding", f"{NAME}-jobs", namespace, "ClusterRole", NAME, options)
        for namespace in options.namespaces
    ]


def webhook_accounts(options: InstallOptions) -> list[Object]:
    name = f"{NAME}-webhook"
    return [
        _object(f"{_RBAC}/v1", "ClusterRole", name, "", {"rules": webhook_rules(NAME)}),
        _binding("ClusterRoleBinding", name, "", "ClusterRole", name, options),
    ]


def own_role(options: InstallOptions) -> Object:
    rules = own_rules(lease_name(options.namespaces), "" if options.issuer else WEBHOOK_SECRET)
    return _object(f"{_RBAC}/v1", "Role", NAME, options.namespace, {"rules": rules})


def own_binding(options: InstallOptions) -> Object:
    return _binding("RoleBinding", NAME, options.namespace, "Role", NAME, options)


def secret(options: InstallOptions) -> Object:
    """Empty: the operator puts the webhook's certificate into it. So it needs no right to create any, and the Secret
    goes when the operator does."""
    return _object("v1", "Secret", WEBHOOK_SECRET, options.namespace, {"type": "Opaque"})


def certificate(options: InstallOptions) -> Object:
    spec = {
        "secretName": WEBHOOK_SECRET,
        "dnsNames": [f"{NAME}.{options.namespace}.svc", f"{NAME}.{options.namespace}.svc.cluster.local"],
        "issuerRef": options.issuer,
    }
    return _object("cert-manager.io/v1", "Certificate", WEBHOOK_SECRET, options.namespace, {"spec": spec})


def service(options: InstallOptions) -> Object:
    ports = [
        {"name": "webhook", "port": 443, "targetPort": "webhook", "protocol": "TCP"},
        {"name": "metrics", "port": PORT, "targetPort": "http", "protocol": "TCP"},
    ]
    return _object("v1", "Service", NAME, options.namespace, {"spec": {"selector": SELECTOR, "ports": ports}})


def network_policy(options: InstallOptions) -> Object:
    """API servers and kubelets come from nodes, which no selector names, so the two ports are open to all. Out go
    questions for names, what is said to the API server, and to an etcd that elastic PaddleJobs name."""
    spec = {
        "podSelector": {"matchLabels": SELECTOR},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": "webhook", "protocol": "TCP"}, {"port": "http", "protocol": "TCP"}]}],
        "egress": [
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"ports": _tcp(options.api_ports)},
            {"ports": _tcp([2379])},
        ],
    }
    return _object("networking.k8s.io/v1", "NetworkPolicy", NAME, options.namespace, {"spec": spec})


def disruption_budget(options: InstallOptions) -> Object:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}}
    return _object("policy/v1", "PodDisruptionBudget", NAME, options.namespace, {"spec": spec})


def deployment(options: InstallOptions) -> Object:
    template = {"metadata": {"labels": dict(LABELS)}, "spec": _pod_spec(options)}
    spec = {
        "replicas": options.replicas,
        "selector": {"matchLabels": SELECTOR},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
        "template": template,
    }
    return _object("apps/v1", "Deployment", NAME, options.namespace, {"spec": spec})


def webhook(options: InstallOptions) -> Object:
    """Asked about jobs whose spec is new. It concerns nothing but jobs, so no selector has to keep it away from what it
    needs itself; a namespace can stay out by a label."""
    jobs: dict[str, dict[str, None]] = {}
    versions: dict[str, dict[str, None]] = {}
    for kind in training_kinds():
        jobs.setdefault(kind.group, {})[kind.plural] = None
        versions.setdefault(kind.group, {})[kind.version] = None
    selector: Object = {"matchExpressions": [{"key": ADMISSION, "operator": "NotIn", "values": ["off"]}]}
    if options.namespaces:
        named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(options.namespaces)}
        selector["matchExpressions"].append(named)
    hook = {
        "name": "jobs.operator.muster.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"name": NAME, "namespace": options.namespace, "path": PATH, "port": 443}},
        "failurePolicy": options.failure_policy,
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "namespaceSelector": selector,
        "matchConditions": [
            {"name": "spec-is-new", "expression": "oldObject == null || object.spec != oldObject.spec"}
        ],
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": sorted(versions[group]),
                "operations": ["CREATE", "UPDATE"],
                "resources": sorted(plurals),
                "scope": "Namespaced",
            }
            for group, plurals in jobs.items()
        ],
    }
    configuration = _object(
        "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", NAME, "", {"webhooks": [hook]}
    )
    if options.issuer:
        annotation = {"cert-manager.io/inject-ca-from": f"{options.namespace}/{WEBHOOK_SECRET}"}
        configuration["metadata"]["annotations"] = annotation
    return configuration


def _pod_spec(options: InstallOptions) -> Object:
    spec: Object = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": SELECTOR},
            }
        ],
        "containers": [_container(options)],
        **options.placement,
    }
    if options.pull_secrets:
        spec["imagePullSecrets"] = options.pull_secrets
    if options.issuer:
        spec["volumes"] = [{"name": "webhook", "secret": {"secretName": WEBHOOK_SECRET, "defaultMode": 0o440}}]
    return spec


def _container(options: InstallOptions) -> Object:
    container: Object = {
        "name": "operator",
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "args": list(arguments(options)),
        "ports": [
            {"name": "http", "containerPort": PORT, "protocol": "TCP"},
            {"name": "webhook", "containerPort": WEBHOOK_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": _probe("/healthz", every=20),
        "readinessProbe": _probe("/readyz", every=5),
        "resources": options.resources,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    if options.issuer:
        container["volumeMounts"] = [{"name": "webhook", "mountPath": CERTIFICATES, "readOnly": True}]
    return container


def arguments(options: InstallOptions) -> Sequence[str]:
    return (
        "operator",
        f"--port={PORT}",
        f"--webhook-port={WEBHOOK_PORT}",
        "--log-format=json",
        f"--gang-scheduler-name={options.gang}",
        *([f"--webhook-certificates={CERTIFICATES}"] if options.issuer else []),
        *(f"--namespace={namespace}" for namespace in options.namespaces),
        *options.arguments,
    )


def _probe(path: str, *, every: int) -> Object:
    return {"httpGet": {"path": path, "port": "http"}, "periodSeconds": every, "timeoutSeconds": 3}


def _tcp(ports: Any) -> Any:
    return [{"port": port, "protocol": "TCP"} for port in ports]


def _binding(kind: str, name: str, namespace: str, role_kind: str, role: str, options: InstallOptions) -> Object:
    content = {
        "roleRef": {"apiGroup": _RBAC, "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": options.namespace}],
    }
    return _object(f"{_RBAC}/v1", kind, name, namespace, content)


def _object(api_version: str, kind: str, name: str, namespace: str, content: Object) -> Object:
    metadata: Object = {"name": name, "labels": dict(LABELS)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}
