"""Installs the operator in a cluster, waits until it is available, and uninstalls it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from muster.kube.builtin import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, POD
from muster.kube.cluster import Cluster
from muster.kube.errors import NotFound
from muster.kube.objects import (
    Object,
    get_condition,
    is_condition_true,
    labels_of,
    meta,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    version_of,
)
from muster.kube.pod_diagnosis import diagnose_pod
from muster.operator.install_manifests import LABELS, NAME, SELECTOR, InstallOptions, build_manifests
from muster.operator.webhook_certificates import CONFIGURATION

MANAGER = "muster-operator-install"
_DEPLOYMENT = ("apps/v1", "Deployment")
_POLL_SECONDS = 0.5

Say = Callable[[str], None]


class InstallError(RuntimeError):
    """Says what is in the way, and what to do about it."""


class OtherOperator(NamedTuple):
    """An operator that runs the same jobs, or the webhook it would leave behind."""

    kind: str
    namespace: str
    name: str
    advice: str
    can_be_replaced: bool = True

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


_OTHER_OPERATORS = {
    "training-operator": "its jobs continue under this operator",
    "paddle-controller-manager": "its jobs continue under this operator",
    "mpi-operator": "let its MPIJobs finish first: this operator cannot adopt their launchers",
}
THEIR_WEBHOOK = "validator.training-operator.kubeflow.org"


async def install(
    cluster: Cluster,
    options: InstallOptions,
    say: Say,
    *,
    seconds: float,
    replace: bool = False,
    anyway: bool = False,
) -> None:
    """Applies everything with server-side apply, so that it can be repeated, and waits up to `seconds` until all
    replicas are available. With `replace`, training-operator and paddle-operator are stopped first; `anyway` keeps
    them."""
    found = await find_other_operators(cluster)
    if found and not anyway:
        _check_other_operators(found, replace)
        for other in found:
            await _stop_operator(cluster, other, say)
    for obj in build_manifests(options):
        if obj["kind"] == "Deployment":
            await _wait_established(cluster, seconds)
        await apply_object(cluster, obj, say)
    await wait_available(cluster, NAME, options.namespace, SELECTOR, say, seconds)


async def uninstall(cluster: Cluster, options: InstallOptions, say: Say, *, definitions: bool = False) -> None:
    """Deletes what `install` created, the webhook first. Jobs and their objects stay. With `definitions`, the
    CustomResourceDefinitions are deleted as well, and with them every job; also those of workspaces, unless they are
    Kubeflow's."""
    for obj in reversed(build_manifests(dataclasses.replace(options, workspaces=True))):
        kind = cluster.catalogue.of_object(obj)
        if kind is CUSTOM_RESOURCE_DEFINITION and not definitions:
            continue
        try:
            there = await cluster.get(kind, name_of(obj), namespace_of(obj))
            is_ours = LABELS.items() <= labels_of(there).items() or not LABELS.items() <= labels_of(obj).items()
            if kind in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION) and not is_ours:
                say(f"{_title(obj)} kept: it existed before")
                continue
            await cluster.delete(kind, name_of(obj), namespace_of(obj))
            say(f"{_title(obj)} deleted")
        except NotFound:
            continue
    if not definitions:
        say("CustomResourceDefinitions and jobs are kept, but no operator runs the jobs now (--crds deletes both)")


async def find_other_operators(cluster: Cluster) -> list[OtherOperator]:
    """Finds other operators of these jobs by the names of their installations."""
    found = []
    deployments = await cluster.list(cluster.catalogue.of(*_DEPLOYMENT))
    for obj in deployments.items:
        advice = _OTHER_OPERATORS.get(name_of(obj))
        if advice and spec_of(obj).get("replicas", 1):
            other = OtherOperator("deployment", namespace_of(obj), name_of(obj), advice, name_of(obj) != "mpi-operator")
            found.append(other)
    with suppress(NotFound):
        await cluster.get(cluster.catalogue.of(CONFIGURATION.api_version, CONFIGURATION.kind), THEIR_WEBHOOK)
        advice = "without its operator no job could be created or changed"
        found.append(OtherOperator("validatingwebhookconfiguration", "", THEIR_WEBHOOK, advice))
    return found


def _check_other_operators(found: Iterable[OtherOperator], replace: bool) -> None:
    in_the_way = [other for other in found if not (replace and other.can_be_replaced)]
    if not in_the_way:
        return
    lines = ["other operators run the same jobs:"]
    lines += [f"  {other}: {other.advice}" for other in in_the_way]
    if any(other.can_be_replaced for other in in_the_way):
        lines.append("--replace stops them (replicas: 0) and removes their webhook; running jobs continue")
    lines.append("--anyway installs beside them, for instance with --enable-scheme for other kinds than theirs")
    raise InstallError("\n".join(lines))


async def _stop_operator(cluster: Cluster, other: OtherOperator, say: Say) -> None:
    if other.kind != "deployment":
        kind = cluster.catalogue.of(CONFIGURATION.api_version, CONFIGURATION.kind)
        await cluster.delete(kind, other.name)
        say(f"{other} deleted")
        return
    kind = cluster.catalogue.of(*_DEPLOYMENT)
    stopped = await cluster.patch(kind, other.name, other.namespace, {"spec": {"replicas": 0}}, field_manager=MANAGER)
    labels = ",".join(f"{name}={value}" for name, value in spec_of(stopped)["selector"]["matchLabels"].items())
    while True:
        if not (await cluster.list(POD, other.namespace, labels=labels)).items:
            break
        await asyncio.sleep(_POLL_SECONDS)
    say(f"{other} scaled to 0")


async def apply_object(cluster: Cluster, obj: Object, say: Say) -> None:
    kind = cluster.catalogue.of_object(obj)
    before = ""
    with suppress(NotFound):
        before = version_of(await cluster.get(kind, name_of(obj), namespace_of(obj)))
    if kind is NAMESPACE and before:
        return  # a namespace that existed before is not ours to label or delete
    made = await cluster.patch(
        kind, name_of(obj), namespace_of(obj), obj, type="apply", field_manager=MANAGER, force=True
    )
    outcome = "created" if not before else "unchanged" if version_of(made) == before else "configured"
    say(f"{_title(obj)} {outcome}")


async def _wait_established(cluster: Cluster, seconds: float) -> None:
    """Waits for the CRDs: before, the operator would find none of its kinds."""
    wanted = {name_of(crd) for crd in build_manifests() if crd["kind"] == "CustomResourceDefinition"}
    there: set[str] = set()
    try:
        async with asyncio.timeout(seconds):
            while True:
                found = (await cluster.list(CUSTOM_RESOURCE_DEFINITION)).items
                there = {
                    name_of(crd) for crd in found if is_condition_true(status_of(crd).get("conditions"), "Established")
                }
                if wanted <= there:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        missing = ", ".join(sorted(wanted - there))
        raise InstallError(f"the cluster does not serve {missing} after {seconds:g} s") from None


async def wait_available(
    cluster: Cluster, name: str, namespace: str, selector: Mapping[str, str], say: Say, seconds: float
) -> None:
    """Waits until all replicas of a Deployment are available. Raises InstallError, with the reasons of its Pods."""
    kind, said = cluster.catalogue.of(*_DEPLOYMENT), ""
    obj: Object = {}
    try:
        async with asyncio.timeout(seconds):
            while True:
                obj = await cluster.get(kind, name, namespace)
                ready, text = deployment_progress(obj)
                if text != said:
                    said = text
                    say(text)
                if ready:
                    return
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        labels = ",".join(f"{label}={value}" for label, value in selector.items())
        pods = (await cluster.list(POD, namespace, labels=labels)).items
        causes = [f"  {name_of(pod)}: {cause}" for pod in pods for cause in diagnose_pod(pod)]
        refused = get_condition(status_of(obj).get("conditions") or [], "ReplicaFailure")
        if refused is not None:
            causes.append(f"  {refused.get('message', '')}")
        raise InstallError("\n".join([f"{namespace}/{name} is not available after {seconds:g} s", *causes])) from None


def deployment_progress(obj: Object) -> tuple[bool, str]:
    """Returns whether all replicas of a Deployment are up to date and available, and a line about it."""
    wanted, status = spec_of(obj).get("replicas", 1), status_of(obj)
    up_to_date = status.get("updatedReplicas", 0) if _is_observed(obj) else 0
    available = min(status.get("availableReplicas", 0), up_to_date)
    text = f"{namespace_of(obj)}/{name_of(obj)}: {available} of {wanted} replicas available"
    return _is_observed(obj) and available >= wanted and status.get("replicas", 0) == wanted, text


def _is_observed(obj: Object) -> bool:
    return bool(status_of(obj).get("observedGeneration", 0) >= meta(obj).get("generation", 0))


def _title(obj: Object) -> str:
    group = obj["apiVersion"].partition("/")[0] if "/" in obj["apiVersion"] else ""
    return f"{obj['kind'].lower()}{'.' if group else ''}{group}/{name_of(obj)}"
