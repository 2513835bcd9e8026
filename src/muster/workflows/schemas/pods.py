"""Schemas that a workflow takes from Pods. Argo substitutes `{{...}}` before it creates a Pod, so a field with a few
allowed values there may contain any text here."""

from __future__ import annotations

from typing import Any, Final

from muster.kube.kinds import Schema
from muster.kube.schema import BOOLEAN, INT_OR_STRING, STRING, STRINGS, list_of, obj, upstream_schema

_LATER = frozenset({"fileKeyRef", "podCertificate", "restartPolicyRules"})
"""Newer fields of Pods that Argo v4.0 does not know."""


def worded_freely(schema: Schema) -> Schema:
    """Returns the schema without its enums; keys of list items are checked on the Pod."""
    freed: dict[str, Any] = {"x-muster-duplicates": True} if "x-kubernetes-list-map-keys" in schema else {}
    for key, value in schema.items():
        if key == "enum":
            continue
        if key == "properties":
            freed[key] = {name: worded_freely(sub) for name, sub in value.items() if name not in _LATER}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            freed[key] = worded_freely(value)
        else:
            freed[key] = value
    return freed


_CONTAINER: Final = worded_freely(upstream_schema("core.v1.Container"))["properties"]
VOLUME_MOUNT: Final = worded_freely(upstream_schema("core.v1.VolumeMount"))

CONTAINER: Final = obj(_CONTAINER)
SCRIPT: Final = obj({**_CONTAINER, "source": STRING})
CONTAINER_NODE: Final = obj({**_CONTAINER, "dependencies": STRINGS})
USER_CONTAINER: Final = obj({**_CONTAINER, "mirrorVolumeMounts": BOOLEAN})

VOLUME: Final = worded_freely(upstream_schema("core.v1.Volume"))
VOLUMES: Final = list_of(VOLUME, map_keys=["name"], patch_merge_key="name", duplicates=True)
VOLUME_CLAIM_TEMPLATES: Final = list_of(worded_freely(upstream_schema("core.v1.PersistentVolumeClaim")))

AFFINITY: Final = worded_freely(upstream_schema("core.v1.Affinity"))
DNS_CONFIG: Final = upstream_schema("core.v1.PodDNSConfig")
HOST_ALIASES: Final = list_of(upstream_schema("core.v1.HostAlias"))
IMAGE_PULL_SECRETS: Final = list_of(upstream_schema("core.v1.LocalObjectReference"))
SECURITY_CONTEXT: Final = worded_freely(upstream_schema("core.v1.PodSecurityContext"))
TOLERATIONS: Final = list_of(worded_freely(upstream_schema("core.v1.Toleration")))
POD_DISRUPTION_BUDGET: Final = obj({
    "maxUnavailable": INT_OR_STRING,
    "minAvailable": INT_OR_STRING,
    "selector": upstream_schema("meta.v1.LabelSelector"),
    "unhealthyPodEvictionPolicy": STRING,
})  # fmt: skip
