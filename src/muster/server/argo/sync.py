"""Limits of semaphores, which are entries of ConfigMaps, for `argo sync`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.kube.builtin import CONFIG_MAP
from muster.kube.errors import AlreadyExists, BadRequest, NotFound, is_count
from muster.kube.objects import Object
from muster.server.argo.requests import Request, Unimplemented
from muster.server.kubernetes.request import ApiResponse

_CONFIG_MAP_TYPES = ("", "CONFIGMAP", "0")


async def create(request: Request) -> ApiResponse:
    name, key, limit = _parse_body(await request.body(), "")
    try:
        found = await request.api.get(CONFIG_MAP, name, request.namespace)
    except NotFound:
        await request.api.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": request.namespace},
                "data": {key: str(limit)},
            },
            CONFIG_MAP,
        )
        return _limit_response(request, name, key, limit)
    if key in (found.get("data") or {}):
        raise AlreadyExists(f'the ConfigMap "{name}" has a limit "{key}" already; update it instead')
    await _store_limit(request, found, {key: str(limit)})
    return _limit_response(request, name, key, limit)


async def get(request: Request) -> ApiResponse:
    name, key = _parse_query(request)
    _, text = await _current_limit(request, name, key)
    if not is_count(text.strip()):
        raise BadRequest(f'the limit "{key}" of the ConfigMap "{name}" is "{text}", which is no number')
    return _limit_response(request, name, key, int(text))


async def update(request: Request) -> ApiResponse:
    name, key, limit = _parse_body(await request.body(), request.names["key"])
    await _store_limit(request, (await _current_limit(request, name, key))[0], {key: str(limit)})
    return _limit_response(request, name, key, limit)


async def delete(request: Request) -> ApiResponse:
    name, key = _parse_query(request)
    await _store_limit(request, (await _current_limit(request, name, key))[0], {key: None})
    return request.answer({})


async def _current_limit(request: Request, name: str, key: str) -> tuple[Object, str]:
    found = await request.api.get(CONFIG_MAP, name, request.namespace)
    data = found.get("data") or {}
    if key not in data:
        raise NotFound(f'the ConfigMap "{name}" has no limit "{key}"')
    return found, str(data[key])


async def _store_limit(request: Request, config_map: Object, change: Mapping[str, str | None]) -> None:
    """By an update, as Argo Server does: its role does not grant patches of ConfigMaps."""
    data = {**(config_map.get("data") or {}), **change}
    kept = {key: value for key, value in data.items() if value is not None}
    await request.api.update({**config_map, "data": kept}, CONFIG_MAP)


def _parse_query(request: Request) -> tuple[str, str]:
    _require_config_map(request.option("type"))
    name = request.option("cmName")
    if not name:
        raise BadRequest("cmName is missing: the ConfigMap in which the limit is")
    return name, request.names["key"]


def _parse_body(body: dict[str, Any], key: str) -> tuple[str, str, int]:
    _require_config_map(str(body.get("type") or ""))
    name, key = str(body.get("cmName") or ""), key or str(body.get("key") or "")
    limit = body.get("limit")
    if not name or not key:
        raise BadRequest("cmName and key are needed: the ConfigMap, and the entry in it")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit <= 0:
        raise BadRequest(f'limit is "{limit}"; it must be a number greater than 0')
    return name, key, limit


def _require_config_map(kind: str) -> None:
    if kind.upper() not in _CONFIG_MAP_TYPES:
        raise Unimplemented("limits are kept in ConfigMaps here, not in a database: use --type configmap")


def _limit_response(request: Request, name: str, key: str, limit: int) -> ApiResponse:
    """Without a type: ConfigMap is the zero value, which Go omits."""
    return request.answer({"cmName": name, "namespace": request.namespace, "key": key, "limit": limit})
