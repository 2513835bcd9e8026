"""Schemas of parameters, arguments and outputs, and of what controls a step or task."""

from __future__ import annotations

from typing import Final

from muster.kube.kinds import Schema
from muster.kube.schema import (
    ANY,
    BOOLEAN,
    EMPTY,
    INT_OR_STRING,
    NUMBER,
    SCALAR,
    STRING,
    STRINGS,
    list_of,
    map_of,
    obj,
    of,
    upstream_schema,
)
from muster.workflows.schemas.artifacts import ARTIFACTS

VALUE_FROM: Final = obj({
    **of(STRING, "event expression jqFilter jsonPath parameter path"),
    "configMapKeyRef": upstream_schema("core.v1.ConfigMapKeySelector"),
    "default": SCALAR,
    "supplied": EMPTY,
})  # fmt: skip
PARAMETERS: Final = list_of(
    obj(
        {
            **of(STRING, "globalName name"),
            **of(SCALAR, "default description value"),
            "enum": list_of(SCALAR),
            "valueFrom": VALUE_FROM,
        }
    )
)
ARGUMENTS: Final = obj({"artifacts": ARTIFACTS, "parameters": PARAMETERS})
INPUTS: Final = ARGUMENTS
OUTPUTS: Final = obj({"artifacts": ARTIFACTS, "exitCode": STRING, "parameters": PARAMETERS, "result": STRING})

TEMPLATE_REF: Final = obj({**of(STRING, "name template"), "clusterScope": BOOLEAN})
HOOKS: Final = map_of(obj({**of(STRING, "expression template"), "arguments": ARGUMENTS, "templateRef": TEMPLATE_REF}))
SEQUENCE: Final = obj({**of(INT_OR_STRING, "count end start"), "format": STRING})


def step_fields(inline: Schema) -> dict[str, Schema]:
    """What a step and a DAG task have in common."""
    return {
        **of(STRING, "name onExit template when withParam"),
        "arguments": ARGUMENTS,
        "continueOn": obj({**of(BOOLEAN, "error failed")}),
        "hooks": HOOKS,
        "inline": inline,
        "templateRef": TEMPLATE_REF,
        "withItems": list_of({**ANY, "nullable": True}),
        "withSequence": SEQUENCE,
    }


RETRY_STRATEGY: Final = obj({
    "affinity": obj({"nodeAntiAffinity": EMPTY}),
    "backoff": obj({**of(STRING, "cap duration maxDuration"), "factor": INT_OR_STRING}),
    "expression": STRING,
    "limit": INT_OR_STRING,
    "retryPolicy": STRING,
})  # fmt: skip

_MUTEX: Final = obj({**of(STRING, "name namespace"), "database": BOOLEAN})
_SEMAPHORE: Final = obj({
    "configMapKeyRef": upstream_schema("core.v1.ConfigMapKeySelector"),
    "database": obj({"key": STRING}),
    "namespace": STRING,
})  # fmt: skip
SYNCHRONIZATION: Final = obj({
    "mutex": _MUTEX,
    "mutexes": list_of(_MUTEX),
    "semaphore": _SEMAPHORE,
    "semaphores": list_of(_SEMAPHORE),
})  # fmt: skip
"""The singular spellings are those of v3.7."""

_CACHE: Final = obj({"configMap": obj({**of(STRING, "key name"), "optional": BOOLEAN})})
MEMOIZE: Final = obj({"cache": _CACHE, **of(STRING, "key maxAge")})

METRICS: Final = obj({
    "prometheus": list_of(
        obj({
            **of(STRING, "help name when"),
            "counter": obj({"value": STRING}),
            "gauge": obj({**of(STRING, "operation value"), "realtime": BOOLEAN}),
            "histogram": obj({"buckets": list_of(NUMBER), "value": STRING}),
            "labels": list_of(obj({**of(STRING, "key value")})),
        })
    )
})  # fmt: skip

EXECUTOR: Final = obj({"serviceAccountName": STRING})
DEPENDENCIES: Final = {"dependencies": STRINGS, "depends": STRING}
