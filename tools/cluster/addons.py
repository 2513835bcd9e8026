"""What runs in the cluster beside Kubernetes itself: Volcano, Argo and Kubeflow's training-operator.

They run as processes outside of Pods, each as a user of its own who may do everything.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from tools.cluster.build import manifest, program
from tools.cluster.images import BUSYBOX, argoexec, argoexec_name, load
from tools.cluster.kubectl import apply, apply_definitions, kubectl, wait_until_established
from tools.cluster.layout import Layout
from tools.cluster.processes import Component, Health, wait_until
from tools.cluster.sources import ARGO, ARGO_3, TRAINING_OPERATOR, VERSITYGW, VOLCANO, Source
from tools.cluster.webhooks import deliver_certificate, endpoint

WORKFLOWS = "argo"
"""The namespace of Argo's configuration, and of workflows that need no namespace of their own."""
ARGO_CONFIG = {"executor": "{env: [{name: TRANSIENT_ERROR_PATTERN, value: 'cannot .* resource .workflowtaskresults'}]}"}
"""An API server that was killed refuses what roles allow, until it has read them again. Without this, Argo's executor
takes that for final."""
S3_PORT = 7070
S3_KEYS = ("muster", "only-for-tests-of-muster")
"""The access key and the secret key of the S3 server's root user."""

OPERATOR_NAMESPACE = "kubeflow"
_WEBHOOK_SECRET = "training-operator-webhook-cert"  # noqa: S105 (its name)
_PRIVATE_TMP = 'mount --make-rprivate / && mount --bind "$0" /tmp && exec "$@"'


def prepare_volcano(layout: Layout) -> None:
    folders = ("config/crd/volcano/bases", "config/crd/jobflow/bases")
    apply_definitions(layout, *(str(manifest(VOLCANO, folder)) for folder in folders))


def volcano_scheduler(layout: Layout) -> Component:
    command = [
        str(program(VOLCANO, "vc-scheduler")),
        f"--kubeconfig={layout.kubeconfig_of('volcano')}",
        f"--scheduler-conf={manifest(VOLCANO, 'installer/helm/chart/volcano/config/volcano-scheduler.conf')}",
        "--leader-elect=false",
        "--enable-healthz=true",
        "--healthz-address=127.0.0.1:11251",
        "--cache-dumper=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--v=2",
    ]
    return Component("vc-scheduler", command, health=Health(11251))


def volcano_controllers(layout: Layout) -> Component:
    command = [
        str(program(VOLCANO, "vc-controller-manager")),
        f"--kubeconfig={layout.kubeconfig_of('volcano')}",
        "--leader-elect=false",
        "--enable-healthz=true",
        "--healthz-address=127.0.0.1:11252",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
        "--v=2",
    ]
    return Component("vc-controller-manager", command, health=Health(11252))


def finish_volcano(layout: Layout) -> None:
    """Nothing is scheduled before the queue is open."""

    def is_open() -> bool:
        state = kubectl(
            layout, "get", "queue.scheduling.volcano.sh", "default", "--ignore-not-found",
            "--output=jsonpath={.status.state}",
        )  # fmt: skip
        return state == "Open"

    wait_until(layout, "vc-controller-manager", is_open, 60, "done with opening the default queue")


def prepare_argo(layout: Layout, version: Source) -> None:
    """Replaces the definitions of another version, if it ran before."""
    load(argoexec(version), layout)
    definitions = manifest(version, "manifests/base/crds/minimal")
    files = [str(path) for path in sorted(definitions.glob("argoproj.io_*.yaml"))]
    apply_definitions(layout, *files)
    metadata = {"namespace": WORKFLOWS, "name": "workflow"}
    results = {"apiGroups": ["argoproj.io"], "resources": ["workflowtaskresults"], "verbs": ["create", "patch"]}
    apply(
        layout,
        [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WORKFLOWS}},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": WORKFLOWS, "name": "workflow-controller-configmap"},
                "data": ARGO_CONFIG,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [results],
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "workflow"},
                "subjects": [{"kind": "ServiceAccount", "namespace": WORKFLOWS, "name": "default"}],
            },
        ],
    )


def argo(layout: Layout) -> Component:
    return _workflow_controller(layout, "workflow-controller", ARGO)


def argo_3(layout: Layout) -> Component:
    return _workflow_controller(layout, "workflow-controller-3.7", ARGO_3)


def _workflow_controller(layout: Layout, name: str, version: Source) -> Component:
    command = [
        str(program(version, "workflow-controller")),
        f"--kubeconfig={layout.kubeconfig_of('argo')}",
        f"--namespace={WORKFLOWS}",  # of its configuration; it runs the workflows of all namespaces
        f"--executor-image={argoexec_name(version)}",
        "--executor-image-pull-policy=Never",
        "--qps=1000",
        "--burst=2000",
    ]
    return Component(name, command, {"LEADER_ELECTION_DISABLE": "true"}, Health(6060))


def argo_server(layout: Layout, version: Source, port: int) -> Component:
    """The Argo server, which reads the nodes that the controller keeps in its database. Clients show tokens of the
    cluster."""
    command = [
        str(program(version, "argo")),
        "server",
        f"--kubeconfig={layout.kubeconfig_of('argo')}",
        f"--namespace={WORKFLOWS}",
        "--auth-mode=client",
        "--secure=false",
        "--browser=false",
        f"--port={port}",
    ]
    # For the tokens of clients it reads the address of the API server from here.
    environment = {"KUBECONFIG": str(layout.kubeconfig_of("argo"))}
    return Component("argo-server", command, environment, Health(port, "/"))


def s3(layout: Layout) -> Component:
    """An S3 server, at the node's address and port 7070, with its objects below the cluster's folder."""
    folder = layout.root / "s3"
    for name in ("objects", "attributes", "users"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    access, secret = S3_KEYS
    keys = {"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret}
    command = [
        str(program(VERSITYGW, "versitygw")),
        f"--port=:{S3_PORT}",
        "--health=/healthz",
        "--quiet",
        f"--iam-dir={folder / 'users'}",
        "posix",
        f"--sidecar={folder / 'attributes'}",
        str(folder / "objects"),
    ]
    return Component("s3", command, keys, Health(S3_PORT))


def prepare_training_operator(layout: Layout) -> None:
    """Upstream's manifests except the Deployment: its process runs beside the cluster, and the Service of its
    webhook points there."""
    rendered = kubectl(layout, "kustomize", str(manifest(TRAINING_OPERATOR, "manifests") / "overlays" / "standalone"))
    objects = [obj for obj in yaml.safe_load_all(rendered) if obj and obj["kind"] != "Deployment"]
    namespaces = [obj for obj in objects if obj["kind"] == "Namespace"]
    apply(layout, namespaces)
    certificate = kubectl(
        layout, "get", "secret", _WEBHOOK_SECRET, f"--namespace={OPERATOR_NAMESPACE}", "--ignore-not-found"
    )  # fmt: skip
    for obj in objects:
        if obj["kind"] == "Service":
            obj["spec"].pop("selector", None)
    process = endpoint(OPERATOR_NAMESPACE, "training-operator", {"webhook-server": 9443, "monitoring-port": 8080})
    # Applying an empty Secret again would empty it.
    apply(layout, [obj for obj in objects if not (certificate and obj["kind"] == "Secret")] + [process])
    wait_until_established(layout, "crd/pytorchjobs.kubeflow.org")


def training_operator(layout: Layout) -> Component:
    """Unchanged. It requires its certificate below /tmp, so it gets its own /tmp."""
    private = _operator_tmp(layout)
    (private / "k8s-webhook-server" / "serving-certs").mkdir(parents=True, exist_ok=True)
    command = [
        "unshare", "--mount", "/bin/sh", "-c", _PRIVATE_TMP, str(private),
        str(program(TRAINING_OPERATOR, "training-operator")),
        f"--kubeconfig={layout.kubeconfig_of('training-operator')}",
        "--metrics-bind-address=127.0.0.1:8080",
        "--health-probe-bind-address=127.0.0.1:8081",
        # Its default image is not available here; this one has the nslookup that it calls.
        f"--pytorch-init-container-image={BUSYBOX}",
    ]  # fmt: skip
    return Component("training-operator", command, health=Health(8081, "/readyz"))


def finish_training_operator(layout: Layout) -> None:
    folder = _operator_tmp(layout) / "k8s-webhook-server" / "serving-certs"
    deliver_certificate(layout, "training-operator", OPERATOR_NAMESPACE, _WEBHOOK_SECRET, folder)


def _operator_tmp(layout: Layout) -> Path:
    return layout.root / "training-operator-tmp"
