"""Every object that `muster operator install` creates: CRDs, RBAC, Deployment, Service and webhook.

The Helm chart and the kustomize base in deploy/ are generated from these objects by tools/deploy.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from muster import __version__
from muster.kube.crd import crd_from_kinds
from muster.kube.kinds import Kind, Schema
from muster.kube.objects import Object
from muster.kube.schema import OBJECT_META
from muster.operator.settings import lease_name
from muster.operator.webhook import WEBHOOK_PATH
from muster.training.registry import training_kinds

# Merged from crds: The CustomResourceDefinitions of the training kinds, as `muster operator install` brings them to a
# cluster.
#
# They take over from training-operator's and paddle-operator's in place, so they accept whatever those accept and
# drop
# nothing that those keep. What a value may be is therefore not said here but by the webhook: with a narrower
# definition,
# a job stored under the wider one could no longer be changed, not even its status.


_NARROWING = frozenset({"enum", "minimum", "maximum", "minLength", "maxLength", "pattern"})
_TEMPLATE_META = ("annotations", "finalizers", "labels", "name", "namespace")
"""What a template's metadata may say. The rest is an API server's to write; clients in Go send a `creationTimestamp` of
null there, which has to be dropped and not refused."""


def build_crds() -> list[Object]:
    """One for every kind, with all its versions; the first one is stored. There is nothing to convert: versions of a
    kind have the same fields."""
    by_resource: dict[str, list[Kind]] = {}
    for kind in training_kinds():
        by_resource.setdefault(kind.resource, []).append(replace(kind, schema=_root(kind.schema)))
    return [crd_from_kinds(kinds) for kinds in by_resource.values()]


def _root(schema: Schema) -> Schema:
    fields = {name: field if name == "metadata" else _wide(field) for name, field in schema["properties"].items()}
    return {**schema, "properties": fields}


def _wide(schema: Schema) -> Schema:
    """Structure without judgement."""
    if schema is OBJECT_META:
        return {
            "type": "object",
            "properties": {name: _wide(OBJECT_META["properties"][name]) for name in _TEMPLATE_META},
        }
    wide = {key: value for key, value in schema.items() if key not in _NARROWING}
    if "properties" in wide:
        wide["properties"] = {name: _wide(field) for name, field in wide["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(wide.get(key), dict):
            wide[key] = _wide(wide[key])
    if wide.get("x-kubernetes-list-type") == "set":
        wide["x-kubernetes-list-type"] = "atomic"  # a set may not have an entry twice
    return wide


# Merged from install_rbac: What the operator may do, and no more: each line is a call that its code makes.


_RBAC = "rbac.authorization.k8s.io"
_FOUND = ("create", "get", "list", "patch", "watch")
"""What belongs to jobs is made, and found; what another operator made gets our labels."""
_GANGS = ("create", "delete", "get", "list", "update", "watch")


def job_rules() -> list[Object]:
    """In every namespace whose jobs the operator looks after."""
    jobs = [
        rule
        for group, plurals in _jobs().items()
        for rule in (
            _rule(group, plurals, ("delete", "list", "patch", "watch")),
            _rule(group, [f"{plural}/status" for plural in plurals], ("patch",)),
            # To be the owner of things that block its deletion; some clusters ask for this.
            _rule(group, [f"{plural}/finalizers" for plural in plurals], ("update",)),
        )
    ]
    return [
        *jobs,
        _rule("", ["pods", "services"], (*_FOUND, "delete")),
        # The launchers of MPIJobs may do this to their own workers, and one may grant only what one has.
        _rule("", ["pods/exec"], ("create", "get")),
        # Those that say who the workers of a launcher are, and what it may do to them, change with their number. Those
        # that say where members are go when it is no longer true.
        _rule("", ["configmaps"], (*_FOUND, "delete", "update")),
        _rule(_RBAC, ["roles"], (*_FOUND, "update")),
        _rule("", ["serviceaccounts"], _FOUND),
        _rule(_RBAC, ["rolebindings"], _FOUND),
        _rule("autoscaling", ["horizontalpodautoscalers"], _FOUND),
        _rule("", ["events"], ("create", "patch")),
        _rule("scheduling.volcano.sh", ["podgroups"], _GANGS),
        _rule("scheduling.x-k8s.io", ["podgroups"], _GANGS),
    ]


def webhook_rules(configuration: str) -> list[Object]:
    """In the whole cluster, and of one object only."""
    return [
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations"],
            ("get", "update"),
            names=[configuration],
        )
    ]


def own_rules(lease: str, secret: str) -> list[Object]:
    """In the operator's own namespace. That something is to be created cannot be limited to a name."""
    return [
        _rule("coordination.k8s.io", ["leases"], ("create",)),
        _rule("coordination.k8s.io", ["leases"], ("get", "update"), names=[lease]),
        *([_rule("", ["secrets"], ("get", "update"), names=[secret])] if secret else []),
    ]


def _jobs() -> dict[str, list[str]]:
    by_group: dict[str, list[str]] = {}
    for kind in training_kinds():
        plurals = by_group.setdefault(kind.group, [])
        if kind.plural not in plurals:
            plurals.append(kind.plural)
    return {group: sorted(plurals) for group, plurals in by_group.items()}


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    rule: Object = {"apiGroups": [group], "resources": list(resources), "verbs": sorted(verbs)}
    return rule | {"resourceNames": list(names)} if names else rule


# Merged from install_manifests: Everything that `muster operator install` brings to a cluster, as objects. The Helm
# chart and the kustomize base in
# deploy/ are written from the same functions.


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


def build_manifests(options: InstallOptions = InstallOptions()) -> list[Object]:  # noqa: B008 (frozen)
    """In the order in which they are to be applied."""
    return [
        namespace(options),
        *build_crds(),
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
        "clientConfig": {"service": {"name": NAME, "namespace": options.namespace, "path": WEBHOOK_PATH, "port": 443}},
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
