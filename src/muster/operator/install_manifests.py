"""Every object that `muster operator install` creates: CRDs, RBAC, Deployment, Service and webhook.

The Helm chart and the kustomize base in deploy/ are generated from these objects by tools/deploy.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
from muster.workspaces.kinds import NOTEBOOK, NOTEBOOK_LABEL, TENSORBOARD, TENSORBOARD_LABEL, workspace_kinds

NAME = "muster-operator"
NAMESPACE = "muster-system"
IMAGE = f"muster-operator:{__version__}"
WEBHOOK_SECRET = f"{NAME}-webhook"
CERTIFICATES = "/etc/muster/webhook"
PORT, WEBHOOK_PORT = 8080, 9443
USER = 65532

SELECTOR = {"app.kubernetes.io/name": NAME}
LABELS = {**SELECTOR, "app.kubernetes.io/part-of": "muster"}
RESTRICTED_CONTAINER: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
ADMISSION = "muster.dev/admission"
"""Label on a namespace: `off` excludes its jobs from the webhook."""

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
    """The namespaces of the jobs to run; empty means all. The operator has no rights in others."""
    arguments: tuple[str, ...] = ()
    """Further arguments of `muster operator`."""
    failure_policy: str = "Ignore"
    """What happens to jobs while no replica is available. `Ignore` accepts them: the controller finds the same mistakes
    later and fails the job with the same message. `Fail` rejects all changes of jobs until then."""
    issuer: Any = None
    """A cert-manager issuer for the webhook's certificate; without one the operator issues its own."""
    resources: Any = field(
        default_factory=lambda: {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}}
    )
    placement: Mapping[str, Any] = field(default_factory=dict)
    """nodeSelector, tolerations, affinity and priorityClassName of its Pods."""
    api_ports: Any = (443, 6443)
    """The ports of API servers to which the operator's Pods may connect."""
    workspaces: bool = False
    """Whether the operator runs Notebooks and Tensorboards, too."""


def build_manifests(options: InstallOptions = InstallOptions()) -> list[Object]:
    """Returns all objects in the order in which to apply them."""
    return [
        namespace(options),
        *build_crds(workspaces=options.workspaces),
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
    """The operator's identity and its rights."""
    return [
        account(options),
        job_role(options),
        *job_bindings(options),
        *([] if options.issuer else webhook_accounts(options)),
        own_role(options),
        own_binding(options),
    ]


def account(options: InstallOptions) -> Object:
    """Its Pods request its token themselves."""
    content = {"automountServiceAccountToken": False}
    return _object("v1", "ServiceAccount", NAME, options.namespace, content)


def job_role(options: InstallOptions) -> Object:
    return _object(f"{_RBAC}/v1", "ClusterRole", NAME, "", {"rules": job_rules(workspaces=options.workspaces)})


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
    """Creates it empty: the operator stores the webhook's certificate in it. So it needs no right to create Secrets,
    and uninstalling deletes it."""
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
    """API servers and kubelets connect from nodes, which no selector matches, so both ports are open to all. Egress is
    allowed to DNS, the API server, an etcd that elastic PaddleJobs name, and notebooks and TensorBoards, which say when
    they were last used."""
    servers = [
        {"namespaceSelector": {}, "podSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}}
        for label in (NOTEBOOK_LABEL, TENSORBOARD_LABEL)
    ]
    spec = {
        "podSelector": {"matchLabels": SELECTOR},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": "webhook", "protocol": "TCP"}, {"port": "http", "protocol": "TCP"}]}],
        "egress": [
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
            {"ports": _tcp(options.api_ports)},
            {"ports": _tcp([2379])},
            *([{"to": servers}] if options.workspaces else []),
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
    """Called for jobs with a new spec. It only concerns jobs, so it cannot block anything that it needs itself. A label
    excludes a namespace."""
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
    volume = {"name": "webhook", "secret": {"secretName": WEBHOOK_SECRET, "defaultMode": 0o440}}
    return restricted_pod_spec(
        NAME,
        SELECTOR,
        _container(options),
        volumes=[volume] if options.issuer else [],
        placement=options.placement,
        pull_secrets=options.pull_secrets,
    )


def restricted_pod_spec(
    account: str, selector: Object, container: Object, *, volumes: list[Object], placement: Mapping[str, Any],
    pull_secrets: Any,
) -> Object:  # fmt: skip
    """Pods of the operator and of the server: not root, and on different nodes where possible."""
    return {
        "serviceAccountName": account,
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
                "labelSelector": {"matchLabels": selector},
            }
        ],
        "containers": [{**container, "securityContext": RESTRICTED_CONTAINER}],
        **({"volumes": volumes} if volumes else {}),
        **placement,
        **({"imagePullSecrets": pull_secrets} if pull_secrets else {}),
    }


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
        *(["--workspaces"] if options.workspaces else []),
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


# RBAC: each rule is a call that the operator's code makes, and no more.

_RBAC = "rbac.authorization.k8s.io"
_CHILD_VERBS = ("create", "get", "list", "patch", "watch")
"""Objects of jobs are created and found; those of another operator get our labels."""
_POD_GROUP_VERBS = ("create", "delete", "get", "list", "update", "watch")


def job_rules(*, workspaces: bool = False) -> list[Object]:
    """The rules in every namespace whose jobs the operator runs."""
    jobs = [
        rule
        for group, plurals in _jobs().items()
        for rule in (
            _rule(group, plurals, ("delete", "list", "patch", "watch")),
            _rule(group, [f"{plural}/status" for plural in plurals], ("patch",)),
            # To own objects that block its deletion, which some clusters check.
            _rule(group, [f"{plural}/finalizers" for plural in plurals], ("update",)),
        )
    ]
    return [
        *jobs,
        _rule("", ["pods", "services"], (*_CHILD_VERBS, "delete")),
        # The launchers of MPIJobs do this to their workers, and one may only grant what one has.
        _rule("", ["pods/exec"], ("create", "get")),
        # Roles and ConfigMaps that list a launcher's workers change with their number. Those that list addresses are
        # deleted when they are outdated.
        _rule("", ["configmaps"], (*_CHILD_VERBS, "delete", "update")),
        _rule(_RBAC, ["roles"], (*_CHILD_VERBS, "update")),
        _rule("", ["serviceaccounts"], _CHILD_VERBS),
        _rule(_RBAC, ["rolebindings"], _CHILD_VERBS),
        _rule("autoscaling", ["horizontalpodautoscalers"], _CHILD_VERBS),
        _rule("", ["events"], ("create", "patch")),
        _rule("scheduling.volcano.sh", ["podgroups"], _POD_GROUP_VERBS),
        _rule("scheduling.x-k8s.io", ["podgroups"], _POD_GROUP_VERBS),
        *(_workspace_rules() if workspaces else []),
    ]


def _workspace_rules() -> list[Object]:
    """What the controllers of Notebooks and Tensorboards do besides. The tokens of their servers are Secrets."""
    kinds = ((NOTEBOOK.group, NOTEBOOK.plural), (TENSORBOARD.group, TENSORBOARD.plural))
    own = [
        rule
        for group, plural in kinds
        for rule in (
            _rule(group, [plural], ("get", "list", "patch", "watch")),
            _rule(group, [f"{plural}/status"], ("update",)),
            _rule(group, [f"{plural}/finalizers"], ("update",)),
        )
    ]
    return [*own, _rule("", ["secrets"], ("create", "get")), _rule("", ["namespaces"], ("get",))]


def webhook_rules(configuration: str) -> list[Object]:
    """The rules in the whole cluster, for one object only."""
    return [
        _rule(
            "admissionregistration.k8s.io",
            ["validatingwebhookconfigurations"],
            ("get", "update"),
            names=[configuration],
        )
    ]


def own_rules(lease: str, secret: str) -> list[Object]:
    """The rules in the operator's own namespace. `create` cannot be limited to a name."""
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


# The CRDs of the training kinds replace those of training-operator and paddle-operator in place. So they accept
# whatever those accept and drop nothing that those keep. Allowed values are left to the webhook: with a narrower
# definition, a job stored under the wider one could no longer be changed, not even its status.

_VALUE_LIMITS = frozenset({"enum", "minimum", "maximum", "minLength", "maxLength", "pattern"})
_TEMPLATE_META = ("annotations", "finalizers", "labels", "name", "namespace")
"""The fields of a template's metadata. The others are written by API servers. Go clients send `creationTimestamp: null`
there, which must be dropped and not rejected."""


def build_crds(*, workspaces: bool = False) -> list[Object]:
    """Returns one CRD per kind with all its versions, the first of which is stored. Versions of a kind have the same
    fields, so nothing is converted."""
    return [*_crds(training_kinds()), *(build_workspace_crds() if workspaces else ())]


def build_workspace_crds() -> list[Object]:
    """The CRDs of Notebooks and Tensorboards. Their labels tell them from Kubeflow's own: only with `--workspaces` do
    they belong to the operator."""
    return [{**crd, "metadata": {**crd["metadata"], "labels": dict(LABELS)}} for crd in _crds(workspace_kinds())]


def _crds(kinds: Iterable[Kind]) -> list[Object]:
    by_resource: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_resource.setdefault(kind.resource, []).append(replace(kind, schema=_root(kind.schema)))
    return [crd_from_kinds(versions) for versions in by_resource.values()]


def _root(schema: Schema) -> Schema:
    fields = {
        name: field if name == "metadata" else _without_limits(field) for name, field in schema["properties"].items()
    }
    return {**schema, "properties": fields}


def _without_limits(schema: Schema) -> Schema:
    """Returns the structure of a schema without its limits on values."""
    if schema is OBJECT_META:
        return {
            "type": "object",
            "properties": {name: _without_limits(OBJECT_META["properties"][name]) for name in _TEMPLATE_META},
        }
    wide = {key: value for key, value in schema.items() if key not in _VALUE_LIMITS}
    if "properties" in wide:
        wide["properties"] = {name: _without_limits(field) for name, field in wide["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(wide.get(key), dict):
            wide[key] = _without_limits(wide[key])
    if wide.get("x-kubernetes-list-type") == "set":
        wide["x-kubernetes-list-type"] = "atomic"  # a set must not have an entry twice
    return wide
