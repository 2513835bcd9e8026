"""Questions about access that are asked by creating an object: who am I, what may I, whose token is this?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from muster.embedded.identity.identity import Identity
from muster.embedded.identity.rbac import Action
from muster.embedded.identity.service_accounts import AUDIENCE
from muster.embedded.identity.users import User
from muster.kube.errors import BadRequest, Unauthorized
from muster.kube.objects import Object, timestamp


async def review(identity: Identity, user: User, plural: str, namespace: str, body: Object) -> Object:
    """The review with its status filled in. It is not stored."""
    spec = body.get("spec") or {}
    match plural:
        case "selfsubjectreviews":
            return {**body, "metadata": {"creationTimestamp": timestamp()}, "status": {"userInfo": _info(user)}}
        case "selfsubjectaccessreviews":
            return {**body, "status": _verdict(identity, user, action_in(spec))}
        case "subjectaccessreviews" | "localsubjectaccessreviews":
            other = User(str(spec.get("user") or ""), frozenset(str(g) for g in spec.get("groups") or ()))
            if not other.name and not other.groups:
                raise BadRequest("spec.user or spec.groups is required: whose access is to be reviewed")
            return {**body, "status": _verdict(identity, other, action_in(spec, namespace))}
        case "selfsubjectrulesreviews":
            return {**body, "status": _rules(identity, user, str(spec.get("namespace") or ""))}
        case "tokenreviews":
            return {**body, "spec": {}, "status": await _token(identity, spec)}
    raise BadRequest(f'"{plural}" cannot be reviewed')


def action_in(spec: Mapping[str, Any], namespace: str = "") -> Action:
    """The action that an access review asks about."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(resource) == bool(path):
        raise BadRequest("exactly one of spec.resourceAttributes and spec.nonResourceAttributes is needed")
    if path:
        return Action(str(path.get("verb") or ""), path=str(path.get("path") or "/"))
    asked: Mapping[str, Any] = resource or {}
    if namespace and asked.get("namespace") != namespace:
        raise BadRequest(f'spec.resourceAttributes.namespace must be "{namespace}", as in the URL')
    return Action(
        *(str(asked.get(field) or "") for field in ("verb", "group", "resource", "subresource", "namespace", "name"))
    )


def _verdict(identity: Identity, user: User, action: Action) -> dict[str, Any]:
    allowed = identity.may(user, action)
    if allowed:
        return {"allowed": True, "reason": "member of system:masters" if user.is_master else "a role allows it"}
    return {"allowed": False, "reason": f'no role lets "{user.name}" {action}'}


def _rules(identity: Identity, user: User, namespace: str) -> dict[str, Any]:
    if user.is_master:
        resources: Sequence[Mapping[str, Any]] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        paths: Sequence[Mapping[str, Any]] = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
    else:
        rules = [rule for grant in identity.grants(user) if grant.namespace in ("", namespace) for rule in grant.rules]
        resources = [rule for rule in rules if rule.get("resources")]
        paths = [rule for rule in rules if rule.get("nonResourceURLs")]
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


async def _token(identity: Identity, spec: Mapping[str, Any]) -> dict[str, Any]:
    audiences = [str(a) for a in spec.get("audiences") or ()] or [AUDIENCE]
    try:
        user = await identity.authenticate(str(spec.get("token") or ""), audiences)
    except Unauthorized as error:
        return {"authenticated": False, "error": error.message}
    return {"authenticated": True, "user": _info(user), "audiences": audiences}


def _info(user: User) -> dict[str, Any]:
    info: dict[str, Any] = {"username": user.name, "groups": sorted(user.groups)}
    if user.uid:
        info["uid"] = user.uid
    return info
