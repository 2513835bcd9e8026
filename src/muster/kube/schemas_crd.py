"""CustomResourceDefinition."""

from __future__ import annotations

from typing import Final

from muster.kube.schema import ANY, BOOLEAN, BYTES, INT32, INT64, STRING, STRINGS, TIME, list_of, obj, of, root, string

SERVICE_REFERENCE: Final = obj({**of(STRING, "name namespace path"), "port": INT32}, ["namespace", "name"])
WEBHOOK_CLIENT_CONFIG: Final = obj({"caBundle": BYTES, "service": SERVICE_REFERENCE, "url": STRING})
WEBHOOK_CONVERSION: Final = obj(
    {
        "clientConfig": WEBHOOK_CLIENT_CONFIG,
        "conversionReviewVersions": STRINGS,
    },
    ["conversionReviewVersions"],
)
CRD_CONVERSION: Final = obj({"strategy": STRING, "webhook": WEBHOOK_CONVERSION}, ["strategy"])
CRD_NAMES: Final = obj(
    {
        **of(STRING, "kind listKind plural singular"),
        **of(STRINGS, "categories shortNames"),
    },
    ["plural", "kind"],
)
CRD_COLUMN_DEFINITION: Final = obj(
    {
        **of(STRING, "description format jsonPath name type"),
        "priority": INT32,
    },
    ["name", "type", "jsonPath"],
)
CRD_VALIDATION: Final = obj({"openAPIV3Schema": ANY})
SELECTABLE_FIELD: Final = obj({"jsonPath": STRING}, ["jsonPath"])
CRD_SUBRESOURCE_SCALE: Final = obj(
    {
        **of(STRING, "labelSelectorPath specReplicasPath statusReplicasPath"),
    },
    ["specReplicasPath", "statusReplicasPath"],
)
CRD_SUBRESOURCE_STATUS: Final = obj({})
CRD_SUBRESOURCES: Final = obj({"scale": CRD_SUBRESOURCE_SCALE, "status": CRD_SUBRESOURCE_STATUS})
CRD_VERSION: Final = obj(
    {
        **of(BOOLEAN, "deprecated served storage"),
        **of(STRING, "deprecationWarning name"),
        "additionalPrinterColumns": list_of(CRD_COLUMN_DEFINITION),
        "schema": CRD_VALIDATION,
        "selectableFields": list_of(SELECTABLE_FIELD),
        "subresources": CRD_SUBRESOURCES,
    },
    ["name", "served", "storage"],
)
CRD_SPEC: Final = obj(
    {
        "conversion": CRD_CONVERSION,
        "group": STRING,
        "names": CRD_NAMES,
        "preserveUnknownFields": BOOLEAN,
        "scope": string(["Namespaced", "Cluster"]),
        "versions": list_of(CRD_VERSION),
    },
    ["group", "names", "scope", "versions"],
)
CRD_CONDITION: Final = obj(
    {
        **of(STRING, "message reason status type"),
        "lastTransitionTime": TIME,
        "observedGeneration": INT64,
    },
)
CRD_STATUS: Final = obj(
    {
        "acceptedNames": CRD_NAMES,
        "conditions": list_of(CRD_CONDITION, map_keys=["type"]),
        "observedGeneration": INT64,
        "storedVersions": STRINGS,
    },
)
CRD_SCHEMA: Final = root({"spec": CRD_SPEC, "status": CRD_STATUS}, ["spec"])
