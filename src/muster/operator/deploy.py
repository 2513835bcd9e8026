"""Deploys the platform on a cluster: checks the cluster first, applies everything, and waits until it is available.

`gather_facts` asks the cluster; `check_cluster` decides, as a pure function, what is missing and how to fix it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from muster.kube.builtin import NAMESPACE, SECRET, STORAGE_CLASS
from muster.kube.encryption import EncryptionError, KeyRing
from muster.kube.errors import ApiError, Forbidden, NotFound
from muster.kube.kinds import Kind
from muster.kube.objects import Object, annotations_of, name_of, namespace_of, spec_of
from muster.kube.remote.client import RemoteCluster
from muster.operator import install_manifests, platform_manifests
from muster.operator.install import Say, apply_object, find_other_operators, install, wait_available
from muster.operator.install_manifests import InstallOptions, build_manifests
from muster.operator.platform_manifests import OPTIONAL_KEYS, PlatformOptions, build_platform, needed_keys

State: TypeAlias = Literal["ok", "warning", "error"]

OLDEST_KUBERNETES: Final = (1, 28)
OLDEST_ARGO: Final = (3, 7)
NEWEST_ARGO: Final = (4, 0)
"""The newest minor version that Muster is tested with."""
_DEPLOYMENT: Final = ("apps/v1", "Deployment")
_REVIEW: Final = Kind(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_POSTGRES_SCHEMES: Final = frozenset(("postgresql", "postgres", "postgresql+psycopg"))
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SCHEDULERS: Final = {
    "Volcano": "scheduling.volcano.sh/",
    "Kueue": "kueue.x-k8s.io/",
    "scheduler-plugins": "scheduling.x-k8s.io/",
}
"""API groups, in any version."""


class Check(NamedTuple):
    """A line of the report."""

    name: str
    state: State
    found: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known about a cluster."""

    version: str = ""
    groups: frozenset[str] = frozenset()
    """The groups and versions that it serves."""
    argo_kind: bool = False
    argo_images: tuple[str, ...] = ()
    """The images of the Deployments of Argo's controller."""
    storage_classes: Mapping[str, bool] = field(default_factory=dict)
    """Whether each of them is the default."""
    denied: tuple[str, ...] = ()
    """What the caller may not do, and would have to."""
    namespace_exists: bool = False
    secret_keys: frozenset[str] | None = None
    """The keys of the Secret; None if it does not exist."""
    secret_hidden: bool = False
    """Whether the caller may not read the Secret."""
    secret_faults: tuple[str, ...] = ()
    """What is wrong with values of the Secret, without the values."""
    database_port: int | None = None
    """The port in the Secret's database-url; None if it cannot be read."""
    other_operators: tuple[str, ...] = ()
    s3: bool = False
    """Whether the settings name an object store."""
    url: str = ""
    """The address for browsers."""
    shared_class: str = ""
    """The storage class for training nodes with files, if the settings name one."""


@dataclass(frozen=True, slots=True)
class DeployOptions:
    platform: PlatformOptions = field(default_factory=PlatformOptions)
    operator: InstallOptions | None = field(default_factory=InstallOptions)
    """None: training jobs are run by an operator that is installed in another way."""

    def objects(self) -> list[Object]:
        """All objects in the order in which to apply them."""
        first = (
            build_manifests(self.operator)
            if self.operator is not None
            else [install_manifests.namespace(InstallOptions(namespace=self.platform.namespace))]
        )
        return [*first, *build_platform(self.platform)]


def check_cluster(facts: Facts, options: DeployOptions) -> list[Check]:
    """Returns the report: errors keep the platform from working."""
    return [
        _check_version(facts.version),
        _check_argo(facts),
        _check_schedulers(facts.groups, options),
        _check_storage(facts.storage_classes, facts.shared_class),
        _check_permissions(facts.denied),
        _check_secret(facts, options.platform),
        _check_operators(facts, options),
        _check_settings(facts),
    ]


def parse_version(text: str) -> tuple[int, int] | None:
    """Returns major and minor of `v1.35.4`, or of the tag of an image."""
    found = re.search(r"(?:^|[:@\-])v?(\d+)\.(\d+)(?:\.\d+)?(?:[-+].*)?$", text)
    return (int(found[1]), int(found[2])) if found else None


def _check_version(version: str) -> Check:
    known = parse_version(version)
    if known is None or known < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        return Check("Kubernetes", "error", version or "unknown", f"upgrade the cluster to {oldest} or newer")
    return Check("Kubernetes", "ok", version)


def _check_argo(facts: Facts) -> Check:
    install_argo = "install Argo Workflows 4.0: https://argo-workflows.readthedocs.io/en/latest/installation/"
    if not facts.argo_kind:
        return Check("Argo Workflows", "error", "its definitions are missing", install_argo)
    if not facts.argo_images:
        return Check(
            "Argo Workflows",
            "warning",
            "no Deployment workflow-controller",
            "check that its controller runs, 3.7 or newer",
        )
    image = facts.argo_images[0]
    version = parse_version(image)
    if len(facts.argo_images) > 1:
        fix = "set kubernetes.argoInstanceId to the instanceID of the one that is to run workflows"
        return Check("Argo Workflows", "warning", f"{len(facts.argo_images)} controllers", fix)
    if version is None:
        return Check("Argo Workflows", "warning", image, "check that it is 3.7 or newer: the tag does not say")
    if version < OLDEST_ARGO:
        return Check("Argo Workflows", "error", image, install_argo)
    if version > NEWEST_ARGO:
        return Check("Argo Workflows", "warning", image, "Muster is tested with 4.0 and, in part, with 3.7")
    return Check("Argo Workflows", "ok", image)


def _check_schedulers(groups: frozenset[str], options: DeployOptions) -> Check:
    there = [name for name, group in _SCHEDULERS.items() if any(each.startswith(group) for each in groups)]
    gang = options.operator.gang.partition(":")[0] if options.operator is not None else "none"
    wanted = {"volcano": "Volcano", "scheduler-plugins": "scheduler-plugins"}.get(gang, "")
    if wanted and wanted not in there:
        return Check(
            "gang scheduling", "error", f"{wanted} is not installed", "install it, or leave out --gang-scheduler-name"
        )
    if not there:
        fix = (
            "install Volcano or Kueue, if jobs are to wait for all their Pods; without them, the total of a virtual "
            "cluster counts for each namespace alone"
        )
        return Check("gang scheduling", "warning", "none of Volcano, Kueue, scheduler-plugins", fix)
    return Check("gang scheduling", "ok", ", ".join(there))


def _check_storage(classes: Mapping[str, bool], shared: str) -> Check:
    if shared and shared not in classes:
        found = f"there is no {shared}, the kubernetes.sharedStorageClass"
        return Check("storage class", "error", found, f"use one of {', '.join(classes) or 'none'}, with ReadWriteMany")
    default = [name for name, is_default in classes.items() if is_default]
    if default:
        return Check("storage class", "ok", f"{default[0]} (default)" + (f", {shared} (shared)" if shared else ""))
    if not classes:
        fix = "install a provisioner with a default class: notebooks, and training nodes with files, need volumes"
        return Check("storage class", "warning", "none", fix)
    fix = "mark one as the default, or name a class in every volume: kubectl annotate storageclass NAME " + (
        f"{_DEFAULT_CLASS}=true"
    )
    return Check("storage class", "warning", ", ".join(classes), fix)


def _check_permissions(denied: Sequence[str]) -> Check:
    if not denied:
        return Check("permissions", "ok", "all that is needed")
    shown = ", ".join(denied[:4]) + (f" and {len(denied) - 4} more" if len(denied) > 4 else "")
    return Check("permissions", "error", f"you may not {shown}", "ask a cluster admin to run this command")


def _check_secret(facts: Facts, options: PlatformOptions) -> Check:
    literals = {
        "database-url": "postgresql://USER:PASSWORD@HOST/muster",
        "encryption-key": "$(openssl rand -base64 32)",
    }
    missing = [key for key in needed_keys(options.config) if key not in (facts.secret_keys or ())]
    name = f"{options.namespace}/{options.secret}"
    port = facts.database_port
    if facts.secret_hidden:
        fix = f"check that it exists, with {', '.join(needed_keys(options.config))}"
        return Check("Secret", "warning", f"{name}: you may not read it", fix)
    if not missing and facts.secret_faults:
        fix = f"correct it: kubectl edit secret {options.secret} --namespace {options.namespace} (values are in base64)"
        return Check("Secret", "error", f"{name}: {'; '.join(facts.secret_faults)}", fix)
    if not missing and port is not None and port not in options.egress_ports:
        fix = f"add --egress-port {port}, or networkPolicy.egressPorts in the chart"
        return Check("Secret", "warning", f"{name}: the NetworkPolicy does not allow port {port} of database-url", fix)
    if not missing:
        return Check("Secret", "ok", f"{name}: {', '.join(sorted(facts.secret_keys or ()))}")
    given = " ".join(f"--from-literal={key}={literals.get(key, '...')}" for key in missing)
    command = f"kubectl create secret generic {options.secret} --namespace {options.namespace} {given}"
    if not facts.namespace_exists:
        command = f"kubectl create namespace {options.namespace}; {command}"
    found = f"{name} does not exist" if facts.secret_keys is None else f"{name} lacks {', '.join(missing)}"
    return Check("Secret", "error", found, command if facts.secret_keys is None else f"add {', '.join(missing)} to it")


def _check_operators(facts: Facts, options: DeployOptions) -> Check:
    if options.operator is None:
        return Check("operator", "ok", "left as it is")
    if facts.other_operators:
        fix = "run `muster operator install --replace` first, or use --without-operator"
        return Check("operator", "error", f"{', '.join(facts.other_operators)} runs the same jobs", fix)
    return Check("operator", "ok", "no other operator runs training jobs")


def _check_settings(facts: Facts) -> Check:
    missing = []
    if not facts.s3:
        missing.append("artifacts.s3: without it, nodes cannot pass files, and logs are lost with their Pods")
    if not facts.url:
        missing.append("web.url: links and OpenID logins need the address that browsers use")
    elif facts.url.startswith("http:"):
        missing.append("web.url: use https, because passwords are sent to it")
    if missing:
        return Check("settings", "warning", f"{len(missing)} to set", "; ".join(missing))
    return Check("settings", "ok", facts.url)


# Asking the cluster


async def gather_facts(cluster: RemoteCluster, options: DeployOptions) -> Facts:
    """The cluster's kinds have been discovered. What the caller may not read counts as missing."""
    cluster.catalogue.register(_REVIEW)  # it cannot be listed, so it is not discovered
    version = await cluster.version()
    secret, secret_hidden = await _read_secret(cluster, options.platform)
    config = options.platform.config
    others = [] if options.operator is None else await _other_operators(cluster)
    classes = await _list(cluster, STORAGE_CLASS)
    return Facts(
        version=str(version.get("gitVersion") or ""),
        groups=frozenset(kind.api_version for kind in cluster.catalogue),
        argo_kind=any(kind.group == "argoproj.io" and kind.plural == "workflows" for kind in cluster.catalogue),
        argo_images=await _argo_images(cluster),
        storage_classes={name_of(each): annotations_of(each).get(_DEFAULT_CLASS) == "true" for each in classes},
        denied=tuple(await _denied(cluster, options.objects())),
        namespace_exists=await _get(cluster, NAMESPACE, options.platform.namespace, "") is not None,
        secret_keys=None if secret is None else frozenset(secret.get("data") or {}),
        secret_hidden=secret_hidden,
        secret_faults=() if secret is None else secret_faults(secret),
        database_port=None if secret is None else _database_port(secret),
        other_operators=tuple(others),
        s3=bool((config.get("artifacts") or {}).get("s3")),
        url=str((config.get("web") or {}).get("url") or ""),
        shared_class=str((config.get("kubernetes") or {}).get("sharedStorageClass") or ""),
    )


def secret_faults(secret: Object) -> tuple[str, ...]:
    """What would keep the server from starting. Keys that are missing are not listed."""
    found = []
    data = secret.get("data") or {}
    if "database-url" in data and not _is_postgres_url(_value(secret, "database-url")):
        found.append(
            "database-url is not postgresql://USER:PASSWORD@HOST/NAME (in a password, / is written as %2F, @ as %40)"
        )
    if "encryption-key" in data:
        try:
            KeyRing(None, _value(secret, "encryption-key").replace(",", " ").split(), source="encryption-key")
        except (EncryptionError, ValueError):
            found.append("encryption-key is not 32 random bytes in base64 (openssl rand -base64 32)")
    found += [f"{key} is empty" for key in OPTIONAL_KEYS if key in data and not _value(secret, key).strip()]
    return tuple(found)


def _is_postgres_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        # Several hosts, each with its port, are for PostgreSQL's own library to read.
        return url.scheme in _POSTGRES_SCHEMES and ("," in url.netloc or bool(url.port or url.hostname or url.query))
    except ValueError:
        return False


def _value(secret: Object, key: str) -> str:
    return b64decode((secret.get("data") or {}).get(key) or "").decode(errors="replace")


def _database_port(secret: Object) -> int | None:
    try:
        url = urlsplit(_value(secret, "database-url"))
        return (url.port or 5432) if url.hostname else None
    except ValueError:
        return None


async def _read_secret(cluster: RemoteCluster, options: PlatformOptions) -> tuple[Object | None, bool]:
    """Returns the Secret, and whether it is hidden from the caller."""
    try:
        return await cluster.get(SECRET, options.secret, options.namespace), False
    except Forbidden:
        return None, True
    except ApiError:
        return None, False


async def _get(cluster: RemoteCluster, kind: Kind, name: str, namespace: str) -> Object | None:
    try:
        return await cluster.get(kind, name, namespace)
    except ApiError:
        return None


async def _list(cluster: RemoteCluster, kind: Kind) -> Sequence[Object]:
    try:
        return (await cluster.list(kind)).items
    except ApiError:
        return ()


async def _other_operators(cluster: RemoteCluster) -> list[str]:
    try:
        return [str(other) for other in await find_other_operators(cluster)]
    except ApiError:
        return []


async def _argo_images(cluster: RemoteCluster) -> tuple[str, ...]:
    """Finds Argo's controllers by the command of their containers: charts give them names of their own."""
    found = []
    for deployment in await _list(cluster, cluster.catalogue.of(*_DEPLOYMENT)):
        for container in spec_of(deployment)["template"]["spec"].get("containers") or ():
            command = [*(container.get("command") or ()), *(container.get("args") or ())]
            if "workflow-controller" in command or name_of(deployment).endswith("workflow-controller"):
                found.append(str(container.get("image") or ""))
                break
    return tuple(found)


async def _denied(cluster: RemoteCluster, objects: Iterable[Object]) -> list[str]:
    """Asks for every kind of object whether the caller may apply it, and for roles whether they may be granted."""
    asked: dict[tuple[str, str, str, str], None] = {}
    for obj in objects:
        kind = cluster.catalogue.of_object(obj)
        for verb in ("create", "get", "patch"):
            asked[verb, kind.group, kind.plural, namespace_of(obj)] = None
    asked["escalate", "rbac.authorization.k8s.io", "clusterroles", ""] = None
    denied = []
    for verb, group, plural, namespace in asked:
        attributes = {"verb": verb, "group": group, "resource": plural, "namespace": namespace}
        review = {"apiVersion": _REVIEW.api_version, "kind": _REVIEW.kind, "spec": {"resourceAttributes": attributes}}
        if not (await cluster.create(review)).get("status", {}).get("allowed"):
            denied.append(f"{verb} {plural}{f' in {namespace}' if namespace else ''}")
    return denied


async def deploy(cluster: RemoteCluster, options: DeployOptions, say: Say, *, seconds: float) -> None:
    """Applies everything with server-side apply, so that it can be repeated, and waits until it is available."""
    if options.operator is not None:
        await install(cluster, options.operator, say, seconds=seconds)
        objects = build_platform(options.platform)
    else:
        objects = options.objects()
    for obj in objects:
        await apply_object(cluster, obj, say)
    await wait_available(
        cluster, platform_manifests.NAME, options.platform.namespace, platform_manifests.SELECTOR, say, seconds
    )


async def undeploy(cluster: RemoteCluster, options: PlatformOptions, say: Say) -> None:
    """Deletes the server. The database, the Secret, namespaces, runs and jobs stay."""
    for obj in reversed(build_platform(options)):
        kind = cluster.catalogue.of_object(obj)
        try:
            await cluster.delete(kind, name_of(obj), namespace_of(obj))
        except NotFound:
            continue
        say(f"{obj['kind'].lower()}/{name_of(obj)} deleted")


def to_rows(checks: Iterable[Check]) -> list[tuple[Any, ...]]:
    marks = {"ok": "✔", "warning": "!", "error": "✘"}
    return [(f"{marks[check.state]} {check.name}", check.found) for check in checks]
