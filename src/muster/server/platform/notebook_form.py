"""A notebook as the form describes it, and as the object that it becomes. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.kube.errors import is_env_name
from muster.kube.objects import Object, annotations_of, labels_of, spec_of
from muster.kube.pod_security import QUEUE_ANNOTATION, is_kernel_path
from muster.kube.quantity import QuantityError, multiply_resources, parse_quantity
from muster.platform.graphs.templates import KUEUE_QUEUE, placement_on, queue_metadata
from muster.platform.messages import FieldError, field_error
from muster.platform.records.resources import QueueSystem, StorageRoot, VirtualCluster
from muster.platform.records.workspaces import WorkspaceMount
from muster.platform.resources.resources import GPU
from muster.workspaces.images import HOME, WorkspaceImage, find_image
from muster.workspaces.kinds import CULL_IDLE_ANNOTATION, NOTEBOOK, main_container

CLUSTER_ANNOTATION: Final = "muster.dev/virtual-cluster"
SKUS_ANNOTATION: Final = "muster.dev/skus"
"""On a Notebook: the virtual cluster that its form named, and how many SKUs."""
HOME_VOLUME: Final = "home"
MOST_MOUNTS: Final = 20
_IMAGE: Final = re.compile(r"[a-z0-9][a-zA-Z0-9._/:@-]{0,254}")


@dataclass(frozen=True, slots=True)
class MountForm:
    path: str
    root: str = ""
    claim: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class ResourceForm:
    """What a notebook requests: SKUs of a virtual cluster, or amounts."""

    cluster: str = ""
    skus: int = 0
    cpu: str = ""
    memory: str = ""
    gpus: int = 0


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user may choose from."""

    images: Sequence[WorkspaceImage] = ()
    clusters: Mapping[str, VirtualCluster] = field(default_factory=dict)
    roots: Mapping[str, StorageRoot] = field(default_factory=dict)
    claims: frozenset[str] = frozenset()
    queue_system: QueueSystem = "embedded"


_PLACEMENT: Final = ("nodeSelector", "tolerations", "schedulerName", "priorityClassName")
DEFAULT_RESOURCES: Final = {"cpu": "500m", "memory": "1Gi"}
"""What a notebook requests if the form names nothing. These are requests without limits."""


def choose_image(wanted: str, images: Sequence[WorkspaceImage]) -> str:
    """Returns the image for a name of the list, or for itself; the first of the list for ''."""
    if not wanted and images:
        return images[0].image
    return next((each.image for each in images if each.name == wanted), wanted)


def image_errors(wanted: str, images: Sequence[WorkspaceImage]) -> list[FieldError]:
    chosen = choose_image(wanted, images)
    # A single word without a tag is a mistyped name of the list rather than an image.
    if _IMAGE.fullmatch(chosen) and (chosen != wanted or re.search(r"[/:]", chosen)):
        return []
    return [field_error("image", "workspace.image", image=wanted[:200], known=[each.name for each in images])]


def resource_errors(form: ResourceForm, choices: Choices) -> list[FieldError]:
    found = []
    if form.cluster:
        known = sorted(choices.clusters)
        if form.cluster not in choices.clusters:
            found.append(field_error("cluster", "task.cluster", cluster=form.cluster, clusters=known))
        elif not choices.clusters[form.cluster].usable:
            usable = [name for name in known if choices.clusters[name].usable]
            found.append(field_error("cluster", "task.forbidden", cluster=form.cluster, clusters=usable))
        if form.cpu or form.memory or form.gpus:
            found.append(field_error("cluster", "workspace.cluster"))
    elif form.skus:
        found.append(field_error("skus", "workspace.skus"))
    for name in ("cpu", "memory"):
        amount = getattr(form, name)
        try:
            if amount and parse_quantity(amount) <= 0:
                raise QuantityError(f'"{amount}" is not more than 0')
        except QuantityError as error:
            found.append(field_error(name, "workspace.amount", detail=str(error)))
    return found


def resources_of(form: ResourceForm, choices: Choices) -> Object:
    """The `resources` of the container. SKUs are limits as well, as with nodes of a graph."""
    if form.cluster:
        amounts = multiply_resources(choices.clusters[form.cluster].sku, form.skus or 1)
        return {"requests": amounts, "limits": dict(amounts)}
    asked = {name: getattr(form, name) for name in ("cpu", "memory") if getattr(form, name)}
    requests = {**DEFAULT_RESOURCES, **asked}
    limits = {"memory": form.memory} if form.memory else {}
    if form.gpus:
        requests[GPU] = limits[GPU] = str(form.gpus)
    return {"requests": requests, **({"limits": limits} if limits else {})}


def mount_errors(mounts: Sequence[MountForm], choices: Choices, *, has_home: bool) -> list[FieldError]:
    found = []
    paths = [HOME] if has_home else []
    for number, mount in enumerate(mounts):
        at = f"mounts[{number}]"
        if bool(mount.root) == bool(mount.claim):
            found.append(field_error(at, "workspace.mount"))
            continue
        if mount.root and mount.root not in choices.roots:
            found.append(field_error(f"{at}.root", "storage.root", root=mount.root, roots=sorted(choices.roots)))
            continue
        if mount.root and not choices.roots[mount.root].usable:
            usable = sorted(name for name, root in choices.roots.items() if root.usable)
            found.append(field_error(f"{at}.root", "storage.forbidden", root=mount.root, roots=usable))
        if mount.claim and mount.claim not in choices.claims:
            found.append(field_error(f"{at}.claim", "workspace.claim", name=mount.claim, known=sorted(choices.claims)))
        path = mount.path or (choices.roots[mount.root].path if mount.root else f"/data/{mount.claim}")
        if not is_mount_path(path) or path in paths:
            found.append(field_error(f"{at}.path", "workspace.mount-path", path=path))
        paths.append(path)
    return found


def is_mount_path(path: str) -> bool:
    return (
        path.startswith("/")
        and path not in ("/", "/tmp")  # noqa: S108 (the container's)
        and posixpath.normpath(path) == path
        and path.isprintable()
        and ":" not in path
        and not is_kernel_path(path)
    )


def variable_errors(env: Mapping[str, str]) -> list[FieldError]:
    return [field_error(f"env.{name}", "workspace.variable", name=name) for name in env if not is_env_name(name)]


def volumes_of(mounts: Sequence[MountForm], choices: Choices, home: str) -> tuple[list[Object], list[Object]]:
    """Returns the volumes and the mounts of the container, with the home if there is one."""
    volumes: list[Object] = []
    found: list[Object] = []
    if home:
        volumes.append({"name": HOME_VOLUME, "persistentVolumeClaim": {"claimName": home}})
        found.append({"name": HOME_VOLUME, "mountPath": HOME})
    for number, mount in enumerate(mounts):
        root = choices.roots.get(mount.root)
        claim = mount.claim or (root.claim if root is not None else "")
        path = mount.path or (root.path if root is not None else f"/data/{claim}")
        source: Object = {"persistentVolumeClaim": {"claimName": claim}}
        if not claim and root is not None:
            source = {"hostPath": {"path": root.host_path or root.path, "type": "Directory"}}
        volumes.append({"name": f"mount-{number}", **source})
        made: Object = {"name": f"mount-{number}", "mountPath": path}
        if mount.read_only or (root is not None and root.read_only):
            made["readOnly"] = True
        found.append(made)
    return volumes, found


def build_notebook(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    *,
    image: str,
    resources: ResourceForm,
    mounts: Sequence[MountForm],
    home: str,
    env: Mapping[str, str],
    cull_idle_minutes: float | None,
    choices: Choices,
) -> Object:
    volumes, container_mounts = volumes_of(mounts, choices, home)
    container: Object = {
        "name": name,
        "image": choose_image(image, choices.images),
        "resources": resources_of(resources, choices),
        "volumeMounts": container_mounts,
    }
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    spec: Object = {"containers": [container], "volumes": volumes}
    obj: Object = {
        "apiVersion": NOTEBOOK.api_version,
        "kind": NOTEBOOK.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name, **labels}, "annotations": {}},
        "spec": {"template": {"spec": spec}},
    }
    obj = with_resources(obj, resources, choices)
    return with_idle_minutes(obj, cull_idle_minutes)


def with_resources(notebook: Object, form: ResourceForm, choices: Choices) -> Object:
    """Returns the notebook with other resources: the container's, the nodes of a virtual cluster, and its queue."""
    before = spec_of(notebook)["template"]["spec"]
    spec = {name: value for name, value in before.items() if name not in _PLACEMENT}
    annotations = {
        name: value
        for name, value in annotations_of(notebook).items()
        if name not in (QUEUE_ANNOTATION, CLUSTER_ANNOTATION, SKUS_ANNOTATION)
    }
    labels = {name: value for name, value in labels_of(notebook).items() if name != KUEUE_QUEUE}
    if form.cluster:
        cluster = choices.clusters[form.cluster]
        annotations[CLUSTER_ANNOTATION], annotations[SKUS_ANNOTATION] = cluster.name, str(form.skus or 1)
        queue = cluster.queue_in(choices.queue_system)
        spec |= placement_on(cluster, queue, choices.queue_system)
        queueing = queue_metadata(queue, choices.queue_system)
        annotations |= queueing.get("annotations", {})
        labels |= queueing.get("labels", {})
    changed = with_container(_with_spec(notebook, spec), resources=resources_of(form, choices))
    return {**changed, "metadata": {**changed["metadata"], "labels": labels, "annotations": annotations}}


def with_mounts(notebook: Object, mounts: Sequence[MountForm], choices: Choices) -> Object:
    volumes, container_mounts = volumes_of(mounts, choices, home_of(notebook))
    spec = {**spec_of(notebook)["template"]["spec"], "volumes": volumes}
    return with_container(_with_spec(notebook, spec), volumeMounts=container_mounts)


def with_idle_minutes(notebook: Object, minutes: float | None) -> Object:
    """None for what the settings say."""
    annotations = {name: value for name, value in annotations_of(notebook).items() if name != CULL_IDLE_ANNOTATION}
    if minutes is not None:
        annotations[CULL_IDLE_ANNOTATION] = f"{minutes:g}"
    return {**notebook, "metadata": {**notebook["metadata"], "annotations": annotations}}


def with_container(notebook: Object, **changes: Any) -> Object:
    """Returns the notebook with other fields of its main container."""
    chosen = main_container(notebook)
    spec = spec_of(notebook)["template"]["spec"]
    containers = [{**each, **changes} if each is chosen else each for each in spec["containers"]]
    return _with_spec(notebook, {**spec, "containers": containers})


def _with_spec(notebook: Object, spec: Object) -> Object:
    template = {**(spec_of(notebook).get("template") or {}), "spec": spec}
    return {**notebook, "spec": {**spec_of(notebook), "template": template}}


def mounts_in(notebook: Object) -> list[WorkspaceMount]:
    """What a notebook mounts of claims and folders, also if it did not come from the form."""
    spec = (spec_of(notebook).get("template") or {}).get("spec") or {}
    volumes = {str(each.get("name")): each for each in spec.get("volumes") or ()}
    found = []
    for mount in main_container(notebook).get("volumeMounts") or ():
        volume = volumes.get(str(mount.get("name")), {})
        claim = str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "")
        folder = str((volume.get("hostPath") or {}).get("path") or "")
        if claim or folder:
            path, inner = str(mount.get("mountPath") or ""), str(mount.get("subPath") or "")
            found.append(WorkspaceMount(path, claim, folder, inner, bool(mount.get("readOnly"))))
    return found


def home_of(notebook: Object) -> str:
    """The claim at the home folder; '' if there is none."""
    return next((each.claim for each in mounts_in(notebook) if each.path == HOME and each.claim), "")


def requests_of(notebook: Object) -> dict[str, str]:
    resources = main_container(notebook).get("resources") or {}
    found = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {str(name): str(amount) for name, amount in found.items()}


def gpus_of(notebook: Object) -> int:
    """All accelerators count that are named like a GPU."""
    return sum(_whole(amount) for name, amount in requests_of(notebook).items() if name.endswith("/gpu"))


def _whole(amount: str) -> int:
    try:
        return int(parse_quantity(amount))
    except QuantityError:
        return 0


def image_name_of(notebook: Object, images: Iterable[WorkspaceImage]) -> str:
    image = str(main_container(notebook).get("image") or "")
    listed = list(images)
    exact = next((each.name for each in listed if each.image == image), "")
    found = find_image(image, listed)
    return exact or (found.name if found is not None else "")


def folder_in_mounts(notebook: Object, path: str) -> str | None:
    """Returns where a folder of a notebook is, as a path of a TensorBoard's logs; None if it is in no volume. A path
    that is not absolute is in the home folder."""
    whole = posixpath.normpath(path if path.startswith("/") else f"{HOME}/{path}")
    fitting = [each for each in mounts_in(notebook) if whole == each.path or whole.startswith(f"{each.path}/")]
    if not fitting or ".." in path.split("/"):
        return None
    mount = max(fitting, key=lambda each: len(each.path))
    inner = posixpath.join(mount.sub_path, whole[len(mount.path) :].strip("/")).strip("/")
    if mount.claim:
        return f"pvc://{mount.claim}/{inner}".rstrip("/")
    return f"{mount.folder}/{inner}".rstrip("/")
