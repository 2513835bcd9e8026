"""One way in for the three kinds of patch that need only the object and its schema."""

from __future__ import annotations

from typing import Any

from muster.kube.cluster import PatchType
from muster.kube.errors import BadRequest, UnsupportedMediaType
from muster.kube.kinds import Schema
from muster.kube.objects import Object
from muster.kube.patches import json_patch, merge_patch
from muster.kube.strategic import strategic_merge


def patched(obj: Object, body: Any, type: PatchType, schema: Schema) -> Object:
    """A new object; parts the patch leaves alone may be shared with `obj`."""
    if type == "json":
        if not isinstance(body, list):
            raise BadRequest("a JSON patch is a list of operations; send an object as a merge patch")
        result = json_patch(obj, body)
    elif not isinstance(body, dict):
        raise BadRequest(f"a {type} patch is an object")
    elif type == "merge":
        result = merge_patch(obj, body)
    elif type == "strategic":
        result = strategic_merge(obj, body, schema)
    else:
        raise UnsupportedMediaType(f'"{type}" is not a type of patch: use merge, json, strategic or apply')
    if not isinstance(result, dict):
        raise BadRequest("the patch leaves nothing of the object")
    return result
