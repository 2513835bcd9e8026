"""Tasks of `kfp.kubernetes.CreatePVC` and `DeletePVC`: they make and remove a claim, and run no container.

Their images, `argostub/createpvc` and `argostub/deletepvc`, do not exist: a backend is expected to recognize them.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from muster.kube.errors import is_dns_name
from muster.kube.pod_security import PREFIX
from muster.pipelines.model import ContainerSpec
from muster.pipelines.task import TaskFailed, TaskLaunch, TaskOutputs
from muster.workflows.model import Template

CREATE, DELETE = "argostub/createpvc", "argostub/deletepvc"
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")


def is_claim_stub(container: ContainerSpec) -> bool:
    return container.image.partition(":")[0] in (CREATE, DELETE)


def claim_template(launch: TaskLaunch) -> Template:
    """Returns the resource template of a task that makes or removes a claim. Raises TaskFailed."""
    name = _claim_name(launch)
    manifest: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": launch.run.namespace},
    }
    if launch.container.image.startswith(DELETE):
        return {"resource": {"action": "delete", "flags": ["--ignore-not-found"], "manifest": json.dumps(manifest)}}
    inputs = launch.inputs.parameters
    modes = inputs.get("access_modes") or []
    if not modes or not isinstance(modes, list) or not all(mode in _MODES for mode in modes):
        raise TaskFailed(f"access_modes has to be a list of {', '.join(_MODES)}")
    annotations = inputs.get("annotations") or {}
    if not isinstance(annotations, dict):
        raise TaskFailed("annotations has to be an object")
    for key in annotations:
        if key.startswith(PREFIX):
            raise TaskFailed(f"annotations: {key} is reserved for the server")
    spec: dict[str, Any] = {"accessModes": modes, "resources": {"requests": {"storage": inputs.get("size") or ""}}}
    # The default of the SDK names a class that few clusters have; there it stands for the default class.
    storage_class = inputs.get("storage_class_name")
    if storage_class not in (None, "standard"):
        spec["storageClassName"] = storage_class
    if inputs.get("volume_name"):
        spec["volumeName"] = inputs["volume_name"]
    if inputs.get("data_source"):
        spec["dataSource"] = inputs["data_source"]
    manifest["metadata"]["annotations"] = annotations
    manifest["spec"] = spec
    return {"resource": {"action": "create", "manifest": json.dumps(manifest)}}


def claim_outputs(launch: TaskLaunch) -> TaskOutputs:
    if launch.container.image.startswith(DELETE):
        return TaskOutputs()
    return TaskOutputs({name: _claim_name(launch) for name in launch.component.output_definitions.parameters})


def _claim_name(launch: TaskLaunch) -> str:
    inputs = launch.inputs.parameters
    unique = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{launch.run.run_id}/{launch.task_id}"))
    name = str(inputs["pvc_name"]) if inputs.get("pvc_name") else unique + str(inputs.get("pvc_name_suffix") or "")
    if not is_dns_name(name):
        raise TaskFailed(f'"{name}" is not a valid name of a claim: use lower-case letters, digits and dashes')
    return name
