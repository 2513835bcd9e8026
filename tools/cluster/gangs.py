"""Those who let a job begin as a whole, beside Volcano: the scheduler of scheduler-plugins, and Kueue.

They run as processes outside of Pods, each as a user of its own who may do everything.
"""

from __future__ import annotations

from typing import Any

import yaml

from tools.cluster.build import manifest, program
from tools.cluster.kubectl import apply, apply_definitions, kubectl, wait_until_established
from tools.cluster.layout import Layout
from tools.cluster.processes import Component, Health
from tools.cluster.sources import KUEUE, SCHEDULER_PLUGINS
from tools.cluster.webhooks import deliver_certificate, endpoint

PLUGINS_SCHEDULER = "scheduler-plugins-scheduler"
"""The schedulerName of Pods, as in upstream's chart."""

KUEUE_NAMESPACE = "kueue-system"
_KUEUE_SECRET = "kueue-webhook-server-cert"  # noqa: S105 (its name)
_KUEUE_SERVICE = "kueue-webhook-service"
_KUEUE_PORT = 9543
_JOBS = "kubeflow.org"
_POD_WEBHOOKS = ("mpod.kb.io", "vpod.kb.io")
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def prepare_scheduler_plugins(layout: Layout) -> None:
    apply_definitions(layout, str(manifest(SCHEDULER_PLUGINS, "config/crd/bases")))


def plugins_scheduler(layout: Layout) -> Component:
    """A second scheduler with upstream's coscheduling configuration."""
    wanted = yaml.safe_load(manifest(SCHEDULER_PLUGINS, "manifests/coscheduling/scheduler-config.yaml").read_text())
    wanted["clientConnection"] = {
        "kubeconfig": str(layout.kubeconfig_of("scheduler-plugins")), "qps": 1000, "burst": 2000,
    }  # fmt: skip
    wanted["profiles"][0]["schedulerName"] = PLUGINS_SCHEDULER
    configuration = layout.configuration / "scheduler-plugins.yaml"
    configuration.write_text(yaml.safe_dump(wanted))
    command = [
        str(program(SCHEDULER_PLUGINS, "scheduler-plugins-scheduler")),
        f"--config={configuration}",
        "--bind-address=127.0.0.1",
        "--secure-port=10269",
        "--authentication-tolerate-lookup-failure=true",
    ]
    return Component("scheduler-plugins-scheduler", command, health=Health(10269, tls=True))


def plugins_controller(layout: Layout) -> Component:
    """Writes the status of PodGroups."""
    command = [
        str(program(SCHEDULER_PLUGINS, "scheduler-plugins-controller")),
        "--metricsAddr=127.0.0.1:11262",
        "--probeAddr=127.0.0.1:11263",
        "--qps=1000",
        "--burst=2000",
    ]
    environment = {"KUBECONFIG": str(layout.kubeconfig_of("scheduler-plugins"))}
    return Component("scheduler-plugins-controller", command, environment, Health(11263))


def prepare_kueue(layout: Layout) -> None:
    """Selects from upstream's manifests what a process beside the cluster needs: CRDs, the Secret of its
    certificate, and the webhooks for its own kinds, for training jobs, and for Pods of a queue. Those for other kinds
    would be called without effect: their integrations are off."""
    rendered = kubectl(layout, "kustomize", str(manifest(KUEUE, "config") / "default"))
    objects = [obj for obj in yaml.safe_load_all(rendered) if obj]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for obj in objects:
        by_kind.setdefault(obj["kind"], []).append(obj)
    apply(layout, [*by_kind["Namespace"], *by_kind["CustomResourceDefinition"]])
    names = [f"crd/{obj['metadata']['name']}" for obj in by_kind["CustomResourceDefinition"]]
    wait_until_established(layout, *names)
    (service,) = (obj for obj in by_kind["Service"] if obj["metadata"]["name"] == _KUEUE_SERVICE)
    service["spec"].pop("selector", None)
    webhooks = by_kind["MutatingWebhookConfiguration"] + by_kind["ValidatingWebhookConfiguration"]
    for obj in webhooks:
        obj["webhooks"] = [_limit_to_queues(hook) for hook in obj["webhooks"] if _is_used(hook)]
    secrets = [] if _has_certificate(layout) else by_kind["Secret"]
    apply(layout, [*secrets, *webhooks, service, endpoint(KUEUE_NAMESPACE, _KUEUE_SERVICE, {"": _KUEUE_PORT})])


def kueue(layout: Layout) -> Component:
    configuration = layout.configuration / "kueue.yaml"
    kinds = ("pytorchjob", "tfjob", "xgboostjob", "mpijob", "paddlejob", "jaxjob")
    wanted = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": "127.0.0.1:11264"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": _KUEUE_PORT, "certDir": str(layout.root / "kueue-certificates")},
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 1000, "burst": 2000},
        "integrations": {"frameworks": ["pod", *(f"{_JOBS}/{kind}" for kind in kinds)]},
        # Its own API server, for which Kueue needs a folder at the root of the file system.
        "featureGates": {"VisibilityOnDemand": False},
    }
    configuration.write_text(yaml.safe_dump(wanted))
    command = [str(program(KUEUE, "kueue")), f"--config={configuration}", "--zap-log-level=2"]
    return Component("kueue", command, {"KUBECONFIG": str(layout.kubeconfig_of("kueue"))}, Health(11264, "/readyz"))


def finish_kueue(layout: Layout) -> None:
    deliver_certificate(layout, "kueue", KUEUE_NAMESPACE, _KUEUE_SECRET, layout.root / "kueue-certificates")


def _is_used(webhook: dict[str, Any]) -> bool:
    ours = all({"kueue.x-k8s.io", _JOBS} & set(rule["apiGroups"]) for rule in webhook["rules"])
    return ours or webhook["name"] in _POD_WEBHOOKS


def _limit_to_queues(webhook: dict[str, Any]) -> dict[str, Any]:
    """Upstream asks Kueue about every Pod. Here, tests stop it: Pods of others have to start without it."""
    if webhook["name"] not in _POD_WEBHOOKS:
        return webhook
    return {**webhook, "objectSelector": {"matchExpressions": [{"key": _QUEUE_LABEL, "operator": "Exists"}]}}


def _has_certificate(layout: Layout) -> bool:
    """Applying an empty Secret again would clear it."""
    return bool(kubectl(layout, "get", "secret", _KUEUE_SECRET, f"--namespace={KUEUE_NAMESPACE}", "--ignore-not-found"))
