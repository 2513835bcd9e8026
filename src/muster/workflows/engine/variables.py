"""`{{workflow.*}}`: what every text in a workflow may name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from muster.kube.objects import Object, annotations_of, labels_of, meta, name_of, namespace_of, uid_of
from muster.workflows.engine.arguments import ConfigMaps, from_config_map
from muster.workflows.engine.errors import Refused
from muster.workflows.engine.times import moment_of, stamp
from muster.workflows.engine.values import parameters_json, text_of

_SCHEDULED = "workflows.argoproj.io/scheduled-time"
_LAYOUTS = {
    "B": "%B", "b": "%b", "m": "%m", "A": "%A", "a": "%a", "d": "%d", "H": "%H", "I": "%I", "M": "%M", "S": "%S",
    "Y": "%Y", "y": "%y", "p": "%p", "Z": "UTC", "z": "+0000", "L": ".000",
}  # fmt: skip


def workflow_variables(workflow: Object, spec: Object, now: datetime, config_maps: ConfigMaps) -> dict[str, str]:
    """Those that are known before anything runs. Raises Refused."""
    created = moment_of(str(meta(workflow).get("creationTimestamp") or stamp(now)))
    found = {
        "workflow.name": name_of(workflow),
        "workflow.namespace": namespace_of(workflow),
        "workflow.mainEntrypoint": str(spec.get("entrypoint") or ""),
        "workflow.serviceAccountName": str(spec.get("serviceAccountName") or ""),
        "workflow.uid": uid_of(workflow),
        "workflow.creationTimestamp": stamp(created),
        "workflow.creationTimestamp.RFC3339": stamp(created),
        "workflow.creationTimestamp.s": str(int(created.timestamp())),
    }
    for char, layout in _LAYOUTS.items():
        found[f"workflow.creationTimestamp.{char}"] = created.strftime(layout)
    if _SCHEDULED in annotations_of(workflow):
        found["workflow.scheduledTime"] = annotations_of(workflow)[_SCHEDULED]
    if spec.get("priority") is not None:
        found["workflow.priority"] = str(spec["priority"])
    _add_parameters(found, spec, config_maps)
    return found | metadata_variables(workflow, spec)


def metadata_variables(workflow: Object, spec: Object) -> dict[str, str]:
    """`workflow.labels.*` and `workflow.annotations.*`, with those that the spec adds."""
    found: dict[str, str] = {}
    extra: Mapping[str, Any] = spec.get("workflowMetadata") or {}
    for field, own in (("annotations", annotations_of(workflow)), ("labels", labels_of(workflow))):
        written = json.dumps(dict(sorted(own.items())), ensure_ascii=False, separators=(",", ":")) if own else "null"
        found[f"workflow.{field}"] = found[f"workflow.{field}.json"] = written
        later = extra.get("labelsFrom") or {} if field == "labels" else {}
        for name, value in {**own, **(extra.get(field) or {})}.items():
            if name not in later:
                found[f"workflow.{field}.{name}"] = str(value)
    return found


def _add_parameters(found: dict[str, str], spec: Object, config_maps: ConfigMaps) -> None:
    parameters = (spec.get("arguments") or {}).get("parameters") or []
    found["workflow.parameters"] = found["workflow.parameters.json"] = parameters_json(parameters)
    for parameter in parameters:
        name, source = parameter["name"], parameter.get("valueFrom") or {}
        if parameter.get("value") is not None:
            found[f"workflow.parameters.{name}"] = text_of(parameter["value"])
        elif source.get("configMapKeyRef"):
            where = f"arguments.parameters.{name}"
            found[f"workflow.parameters.{name}"] = from_config_map(source, where, found, config_maps)
        elif parameter.get("default") is not None:
            found[f"workflow.parameters.{name}"] = text_of(parameter["default"])
        else:
            raise Refused(f"either value or valueFrom must be specified in order to set global parameter {name}")
