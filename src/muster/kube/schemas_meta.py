"""What many kinds share: references, selectors, conditions."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import INT64, RESOURCES, STRING, STRING_MAP, STRINGS, TIME, list_of, obj, of, string

LABEL_SELECTOR_REQUIREMENT: Final = obj(
    {
        "key": STRING,
        "operator": string(["In", "NotIn", "Exists", "DoesNotExist"]),
        "values": STRINGS,
    },
    ["key", "operator"],
)
LABEL_SELECTOR: Final = obj(
    {
        "matchExpressions": list_of(LABEL_SELECTOR_REQUIREMENT),
        "matchLabels": STRING_MAP,
    },
    atomic=True,
)
LOCAL_OBJECT_REFERENCE: Final = obj({"name": STRING}, atomic=True)
OBJECT_REFERENCE: Final = obj(
    {
        **of(STRING, "apiVersion fieldPath kind name namespace resourceVersion uid"),
    },
    atomic=True,
)
TYPED_LOCAL_OBJECT_REFERENCE: Final = obj({**of(STRING, "apiGroup kind name")}, ["kind", "name"], atomic=True)
TYPED_OBJECT_REFERENCE: Final = obj({**of(STRING, "apiGroup kind name namespace")}, ["kind", "name"])
SECRET_REFERENCE: Final = obj({**of(STRING, "name namespace")}, atomic=True)
CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        "lastTransitionTime": TIME,
        "observedGeneration": INT64,
    },
)
NODE_SELECTOR_REQUIREMENT: Final = obj(
    {
        "key": STRING,
        "operator": string(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
        "values": STRINGS,
    },
    ["key", "operator"],
)
NODE_SELECTOR_TERM: Final = obj(
    {
        **of(list_of(NODE_SELECTOR_REQUIREMENT), "matchExpressions matchFields"),
    },
    atomic=True,
)
NODE_SELECTOR: Final = obj({"nodeSelectorTerms": list_of(NODE_SELECTOR_TERM)}, ["nodeSelectorTerms"], atomic=True)
TOPOLOGY_SELECTOR_LABEL_REQUIREMENT: Final = obj({"key": STRING, "values": STRINGS}, ["key", "values"])
TOPOLOGY_SELECTOR_TERM: Final = obj(
    {
        "matchLabelExpressions": list_of(TOPOLOGY_SELECTOR_LABEL_REQUIREMENT),
    },
    atomic=True,
)
VOLUME_RESOURCE_REQUIREMENTS: Final = obj({**of(RESOURCES, "limits requests")})
