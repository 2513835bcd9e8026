"""The rule of every route of the platform's API: who may use it.

The server does not start if a route has no rule here, or a rule has no route. A rule is checked before the route runs:
the token must have the scope that the rule needs, and there must be something that the user may do this to. Whether
they may do it to this run, module or team, the function behind the route checks with the same rule
(platform/permissions.py).

`python -m muster.server.platform.route_rules > docs/routes.md` writes the table for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from muster.platform.errors import ForbiddenProblem
from muster.platform.permissions import RULES, may_at_all, relation_names
from muster.platform.records.common import Kind
from muster.server.platform.security import identify


class RouteRule(NamedTuple):
    kind: Kind | None
    """None for a route without a rule of the permissions table."""
    action: str
    why: str = ""
    """For a route without such a rule: why it needs none."""
    other_action: str = ""
    """Some requests of the route need the rule of this action instead."""

    @property
    def is_public(self) -> bool:
        return self.kind is None and self.action == "public"

    @property
    def actions(self) -> tuple[str, ...]:
        return (self.action, self.other_action) if self.other_action else (self.action,)


def rule(kind: Kind, action: str, other_action: str = "") -> RouteRule:
    """Raises KeyError for a rule that permissions.py does not have."""
    found = RouteRule(kind, action, "", other_action)
    for each in found.actions:
        RULES[kind, each]
    return found


def public(why: str) -> RouteRule:
    """For clients that are not logged in."""
    return RouteRule(None, "public", why)


def own(why: str) -> RouteRule:
    """For all users, and only about themselves."""
    return RouteRule(None, "own", why)


_ANY_TEXT: Final = "it reads nothing but what the client sends, and what all users see"

ROUTE_RULES: Final[Mapping[str, RouteRule]] = {
    "GET /runs/all": rule("run", "view"),
    "GET /runs/all/events": rule("run", "view"),
    "GET /runs": rule("run", "view"),
    "GET /runs/states": rule("run", "view"),
    "GET /runs/tags": rule("run", "view"),
    "POST /runs": rule("run", "create"),
    "GET /runs/events": rule("run", "view"),
    "GET /runs/{run}": rule("run", "view"),
    "PATCH /runs/{run}": rule("run", "edit"),
    "POST /runs/{run}/copy": rule("run", "copy"),
    "POST /runs/{run}/stop": rule("run", "stop"),
    "POST /runs/{run}/retry": rule("run", "retry"),
    "DELETE /runs/{run}": rule("run", "delete"),
    "GET /runs/{run}/graph": rule("run", "view"),
    "GET /runs/{run}/events": rule("run", "view"),
    "GET /runs/{run}/nodes/{node}": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/pods": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/usage": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/events": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/outputs/{output}": rule("run", "inspect"),
    "GET /runs/{run}/metrics": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/metrics": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/log": rule("run", "inspect"),
    "GET /runs/{run}/nodes/{node}/log/events": rule("run", "inspect"),
    "GET /workflows": rule("workflow", "view"),
    "POST /workflows": rule("workflow", "create"),
    "GET /workflows/{workflow}": rule("workflow", "view"),
    "PATCH /workflows/{workflow}": rule("workflow", "edit"),
    "POST /workflows/{workflow}/archive": rule("workflow", "archive"),
    "POST /workflows/{workflow}/restore": rule("workflow", "archive"),
    "DELETE /workflows/{workflow}": rule("workflow", "delete"),
    "GET /workflows/{workflow}/versions": rule("version", "view"),
    "POST /workflows/{workflow}/versions": rule("version", "create"),
    "GET /workflows/{workflow}/versions/{version}": rule("version", "view"),
    "GET /versions/{version}": rule("version", "view"),
    "GET /workflows/{workflow}/versions/{version}/manifest": rule("version", "view"),
    "GET /workflows/{workflow}/versions/{version}/graph": rule("version", "view"),
    "GET /workflows/{workflow}/versions/{version}/diff": rule("version", "view"),
    "POST /workflows/{workflow}/versions/{version}/copy": rule("version", "copy"),
    "POST /workflows/{workflow}/versions/{version}/archive": rule("version", "archive"),
    "POST /workflows/{workflow}/versions/{version}/restore": rule("version", "archive"),
    "GET /jobs": rule("job", "view"),
    "GET /jobs/kinds": own(_ANY_TEXT),
    "POST /jobs/validate": rule("job", "create"),
    "POST /jobs": rule("job", "create"),
    "GET /jobs/events": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}/yaml": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}/usage": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}/happenings": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}/events": rule("job", "view"),
    "POST /jobs/{namespace}/{kind}/{name}/suspend": rule("job", "suspend"),
    "POST /jobs/{namespace}/{kind}/{name}/resume": rule("job", "resume"),
    "DELETE /jobs/{namespace}/{kind}/{name}": rule("job", "delete"),
    "GET /jobs/{namespace}/{kind}/{name}/metrics": rule("job", "view"),
    "GET /metrics": rule("run", "inspect"),
    "GET /jobs/{namespace}/{kind}/{name}/pods/{pod}/log": rule("job", "view"),
    "GET /jobs/{namespace}/{kind}/{name}/pods/{pod}/log/events": rule("job", "view"),
    "GET /dispatch/adapters": rule("dispatch job", "create"),
    "GET /dispatch/jobs": rule("dispatch job", "view"),
    "POST /dispatch/jobs": rule("dispatch job", "create"),
    "GET /dispatch/jobs/events": rule("dispatch job", "view"),
    "GET /dispatch/jobs/{job}": rule("dispatch job", "view"),
    "GET /dispatch/jobs/{job}/events": rule("dispatch job", "view"),
    "PATCH /dispatch/jobs/{job}": rule("dispatch job", "edit"),
    "POST /dispatch/jobs/{job}/cancel": rule("dispatch job", "cancel"),
    "POST /dispatch/jobs/{job}/restart": rule("dispatch job", "restart"),
    "POST /dispatch/jobs/{job}/resolve": rule("dispatch job", "resolve"),
    "DELETE /dispatch/jobs/{job}": rule("dispatch job", "delete"),
    "GET /dispatch/jobs/{job}/log": rule("dispatch job", "view"),
    "GET /dispatch/jobs/{job}/log/events": rule("dispatch job", "view"),
    "POST /workspaces/{uid}/open": rule("workspace", "open"),
    "GET /workspaces/images": rule("workspace", "create"),
    "GET /notebooks": rule("workspace", "view"),
    "POST /notebooks": rule("workspace", "create"),
    "GET /notebooks/{namespace}/{name}": rule("workspace", "view"),
    "PATCH /notebooks/{namespace}/{name}": rule("workspace", "edit"),
    "DELETE /notebooks/{namespace}/{name}": rule("workspace", "delete"),
    "POST /notebooks/{namespace}/{name}/start": rule("workspace", "start"),
    "POST /notebooks/{namespace}/{name}/stop": rule("workspace", "stop"),
    "POST /notebooks/{namespace}/{name}/restart": rule("workspace", "start"),
    "GET /notebooks/{namespace}/{name}/events": rule("workspace", "view"),
    "GET /notebooks/{namespace}/{name}/happenings": rule("workspace", "view"),
    "GET /notebooks/{namespace}/{name}/log": rule("workspace", "view"),
    "GET /notebooks/{namespace}/{name}/log/events": rule("workspace", "view"),
    "GET /tensorboards": rule("workspace", "view"),
    "POST /tensorboards": rule("workspace", "create"),
    "GET /tensorboards/{namespace}/{name}": rule("workspace", "view"),
    "PATCH /tensorboards/{namespace}/{name}": rule("workspace", "edit"),
    "DELETE /tensorboards/{namespace}/{name}": rule("workspace", "delete"),
    "POST /tensorboards/{namespace}/{name}/start": rule("workspace", "start"),
    "POST /tensorboards/{namespace}/{name}/stop": rule("workspace", "stop"),
    "POST /tensorboards/{namespace}/{name}/restart": rule("workspace", "start"),
    "GET /tensorboards/{namespace}/{name}/events": rule("workspace", "view"),
    "GET /tensorboards/{namespace}/{name}/happenings": rule("workspace", "view"),
    "GET /tensorboards/{namespace}/{name}/log": rule("workspace", "view"),
    "GET /tensorboards/{namespace}/{name}/log/events": rule("workspace", "view"),
    "GET /argo-workflows/{namespace}/{name}": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/yaml": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/graph": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/events": rule("argo workflow", "view"),
    "POST /argo-workflows/{namespace}/{name}/stop": rule("argo workflow", "stop"),
    "POST /argo-workflows/{namespace}/{name}/suspend": rule("argo workflow", "suspend"),
    "POST /argo-workflows/{namespace}/{name}/resume": rule("argo workflow", "resume"),
    "POST /argo-workflows/{namespace}/{name}/retry": rule("argo workflow", "retry"),
    "POST /argo-workflows/{namespace}/{name}/resubmit": rule("argo workflow", "copy"),
    "DELETE /argo-workflows/{namespace}/{name}": rule("argo workflow", "delete"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/pods": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/usage": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/happenings": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/log": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/log/events": rule("argo workflow", "view"),
    "GET /argo-workflows/{namespace}/{name}/nodes/{node}/outputs/{output}": rule("argo workflow", "view"),
    "GET /schedules": rule("schedule", "view"),
    "POST /schedules": rule("schedule", "create"),
    "GET /schedules/times": own(_ANY_TEXT),
    "GET /schedules/{namespace}/{name}": rule("schedule", "view"),
    "GET /schedules/{namespace}/{name}/yaml": rule("schedule", "view"),
    "POST /schedules/{namespace}/{name}/pause": rule("schedule", "edit"),
    "POST /schedules/{namespace}/{name}/resume": rule("schedule", "edit"),
    "POST /schedules/{namespace}/{name}/run": rule("schedule", "run"),
    "DELETE /schedules/{namespace}/{name}": rule("schedule", "delete"),
    "GET /modules": rule("module", "view"),
    "POST /modules": rule("module", "create"),
    "GET /modules/{module}": rule("module", "view"),
    "PATCH /modules/{module}": rule("module", "edit"),
    "POST /modules/{module}/build": rule("module", "edit"),
    "DELETE /modules/{module}": rule("module", "delete"),
    "GET /modules/{module}/versions": rule("module", "view"),
    "GET /modules/{module}/versions/{version}": rule("module", "view"),
    "GET /modules/{module}/versions/{version}/source": rule("module", "inspect"),
    "GET /modules/{module}/versions/{version}/source/file": rule("module", "inspect"),
    "GET /modules/{module}/versions/{version}/log": rule("module", "inspect"),
    "GET /modules/{module}/versions/{version}/log/events": rule("module", "inspect"),
    "POST /modules/{module}/versions/{version}/review": rule("module", "ask review"),
    "POST /modules/{module}/versions/{version}/stop": rule("module", "edit"),
    "POST /modules/{module}/versions/{version}/retry": rule("module", "edit"),
    "POST /modules/{module}/versions/{version}/deprecate": rule("module", "deprecate"),
    "POST /modules/{module}/versions/{version}/restore": rule("module", "deprecate"),
    "GET /reviews": rule("review", "view"),
    "GET /reviews/{review}": rule("review", "view"),
    "POST /reviews/{review}/approve": rule("review", "decide"),
    "POST /reviews/{review}/reject": rule("review", "decide"),
    "POST /reviews/{review}/withdraw": rule("review", "withdraw"),
    "GET /session": own("it describes the user of the request"),
    "DELETE /session": own("it ends the session of the request"),
    "GET /sessions": rule("user", "inspect"),
    "DELETE /sessions/{session_id}": own("a session of another user is not found"),
    "POST /password": own("it needs a session and the old password"),
    "GET /users": rule("user", "view"),
    "POST /users": rule("user", "create"),
    "GET /users/{user_id}": rule("user", "view"),
    "PATCH /users/{user_id}": rule("user", "edit"),
    "POST /users/{user_id}/link": rule("user", "reset password"),
    "GET /teams": rule("team", "view"),
    "POST /teams": rule("team", "create"),
    "GET /teams/{team_id}": rule("team", "view"),
    "PATCH /teams/{team_id}": rule("team", "edit"),
    "DELETE /teams/{team_id}": rule("team", "delete"),
    "GET /teams/{team_id}/members": rule("team", "view"),
    "PUT /teams/{team_id}/members/{user_id}": rule("team", "set members"),
    "DELETE /teams/{team_id}/members/{user_id}": rule("team", "set members", "leave"),
    "GET /tokens": rule("token", "view"),
    "POST /tokens": rule("token", "create"),
    "DELETE /tokens/{token_id}": rule("token", "revoke"),
    "GET /audit": rule("audit", "view"),
    "GET /graphs/schema": own(_ANY_TEXT),
    "POST /graphs/check": rule("workflow", "view"),
    "POST /graphs/import": rule("workflow", "view"),
    "GET /categories": rule("category", "view"),
    "POST /categories": rule("category", "create"),
    "GET /categories/{category}": rule("category", "view"),
    "PATCH /categories/{category}": rule("category", "edit"),
    "DELETE /categories/{category}": rule("category", "delete"),
    "GET /clusters": rule("virtual cluster", "view"),
    "POST /clusters": rule("virtual cluster", "create"),
    "GET /clusters/{cluster}": rule("virtual cluster", "view"),
    "PATCH /clusters/{cluster}": rule("virtual cluster", "edit"),
    "DELETE /clusters/{cluster}": rule("virtual cluster", "delete"),
    "GET /clusters/{cluster}/usage": rule("virtual cluster", "view"),
    "GET /storage": rule("storage root", "view"),
    "POST /storage": rule("storage root", "create"),
    "GET /storage/{root}": rule("storage root", "view"),
    "PATCH /storage/{root}": rule("storage root", "edit"),
    "DELETE /storage/{root}": rule("storage root", "delete"),
    "GET /volumes": rule("volume", "view"),
    "POST /volumes": rule("volume", "create"),
    "GET /volumes/{namespace}/{name}": rule("volume", "view"),
    "DELETE /volumes/{namespace}/{name}": rule("volume", "delete"),
    "GET /volumes/{namespace}/{name}/usage": rule("volume", "view"),
    "GET /volumes/{namespace}/{name}/files": rule("volume", "view"),
    "GET /volumes/{namespace}/{name}/files/content": rule("volume", "view"),
    "GET /volumes/{namespace}/{name}/files/archive": rule("volume", "view"),
    "PUT /volumes/{namespace}/{name}/files/content": rule("volume", "write"),
    "POST /volumes/{namespace}/{name}/files/rename": rule("volume", "write"),
    "DELETE /volumes/{namespace}/{name}/files": rule("volume", "write"),
    "POST /volumes/{namespace}/{name}/folders": rule("volume", "write"),
    "GET /webhooks": rule("webhook", "view"),
    "POST /webhooks": rule("webhook", "create"),
    "GET /webhooks/{webhook}": rule("webhook", "view"),
    "PATCH /webhooks/{webhook}": rule("webhook", "edit"),
    "DELETE /webhooks/{webhook}": rule("webhook", "delete"),
    "POST /webhooks/{webhook}/test": rule("webhook", "edit"),
    "GET /webhooks/{webhook}/deliveries": rule("webhook", "view"),
    "POST /webhooks/{webhook}/deliveries/{delivery}/redeliver": rule("webhook", "edit"),
    "GET /nodes": rule("node", "view"),
    "GET /nodes/{node}": rule("node", "view"),
    "GET /queues": rule("queue", "view"),
    "GET /pod-groups": rule("queue", "view"),
    "GET /openapi.json": own(_ANY_TEXT),
    "GET /health": public("it says that the server responds, and its version"),
    "GET /login-options": public("the login page shows them"),
    "POST /session": public("it checks the password; attempts are limited"),
    "POST /link": public("it needs the secret of the link; attempts are limited"),
    "POST /link/use": public("it needs the secret of the link; attempts are limited"),
    "POST /dispatch/jobs/{job}/progress": public("it needs the token that the program of this job has"),
    "GET /openid/login": public("it redirects to the provider"),
    "GET /openid/callback": public("it needs an answer of the provider that belongs to this browser's attempt"),
}

WEBSOCKET_RULES: Final[Mapping[str, RouteRule]] = {
    "WEBSOCKET /pods/{namespace}/{pod}/terminal": rule("pod", "exec"),
}
"""A browser must send the Origin of the platform (server/platform/terminals.py)."""

COOKER_RULES: Final[Mapping[str, RouteRule]] = {
    "GET /api/health": public("it says that the server responds, and its version"),
    "POST /api/login/account": public("it checks the password or the token; attempts are limited"),
    "POST /api/login/outLogin": own("it revokes the token of the request, if a login made it"),
    "GET /api/currentUser": own("it describes the user of the request"),
    "POST /api/jobs/create": rule("dispatch job", "create"),
    "POST /api/jobs": rule("dispatch job", "view"),
    "GET /api/jobs": rule("dispatch job", "view"),
    "GET /api/jobs/{job}": rule("dispatch job", "view"),
    "DELETE /api/jobs/{job}": rule("dispatch job", "delete"),
    "POST /api/jobs/{job}/stop": rule("dispatch job", "cancel"),
    "GET /api/jobs/{job}/events": rule("dispatch job", "view"),
    "GET /api/jobs/{job}/pods/{pod}/logs": rule("dispatch job", "view"),
    "GET /api/jobs/{job}/pods/{pod}/webterminal": rule("dispatch job", "view"),
    "GET /api/jobs/{job}/webterminal": rule("dispatch job", "view"),
    "GET /api/resources/pools": rule("queue", "view"),
    "GET /api/resources/pools/{pool}": rule("queue", "view"),
    "GET /api/resources/queues": rule("queue", "view"),
    "GET /api/resources/queues/{queue}": rule("queue", "view"),
    "GET /api/apps": own(_ANY_TEXT),
    "GET /api/apps/{app}": own(_ANY_TEXT),
}
"""The routes of MLP Cooker's API, with their whole paths (server/cooker/app.py). They take tokens only, no sessions."""


PIPELINES_RULES: Final[Mapping[str, RouteRule]] = {
    "GET healthz": public("it says that the server responds; kfp.Client asks before anything else"),
    "GET experiments": rule("experiment", "view"),
    "POST experiments": rule("experiment", "create"),
    "GET experiments/{experiment_id}": rule("experiment", "view"),
    "DELETE experiments/{experiment_id}": rule("experiment", "delete"),
    "POST experiments/{experiment_id}:archive": rule("experiment", "archive"),
    "POST experiments/{experiment_id}:unarchive": rule("experiment", "archive"),
    "GET pipelines": rule("pipeline", "view"),
    "POST pipelines": rule("pipeline", "create"),
    "POST pipelines/create": rule("pipeline", "create"),
    "POST pipelines/upload": rule("pipeline", "create"),
    "POST pipelines/upload_version": rule("pipeline", "edit"),
    "GET pipelines/names/{name}": rule("pipeline", "view"),
    "GET pipelines/{pipeline_id}": rule("pipeline", "view"),
    "PATCH pipelines/{pipeline_id}": rule("pipeline", "edit"),
    "DELETE pipelines/{pipeline_id}": rule("pipeline", "delete"),
    "GET pipelines/{pipeline_id}/versions": rule("pipeline", "view"),
    "POST pipelines/{pipeline_id}/versions": rule("pipeline", "edit"),
    "GET pipelines/{pipeline_id}/versions/{version_id}": rule("pipeline", "view"),
    "PATCH pipelines/{pipeline_id}/versions/{version_id}": rule("pipeline", "edit"),
    "DELETE pipelines/{pipeline_id}/versions/{version_id}": rule("pipeline", "edit"),
    "GET runs": rule("pipeline run", "view"),
    "POST runs": rule("pipeline run", "create"),
    "GET runs/{run_id}": rule("pipeline run", "view"),
    "DELETE runs/{run_id}": rule("pipeline run", "delete"),
    "POST runs/{run_id}:terminate": rule("pipeline run", "stop"),
    "POST runs/{run_id}:retry": rule("pipeline run", "retry"),
    "POST runs/{run_id}:archive": rule("pipeline run", "archive"),
    "POST runs/{run_id}:unarchive": rule("pipeline run", "archive"),
    "GET runs/{run_id}/nodes": rule("pipeline run", "view"),
    "GET runs/{run_id}/nodes/{node_id}": rule("pipeline run", "view"),
    "GET runs/{run_id}/nodes/{node_id}/log": rule("pipeline run", "view"),
    "GET runs/{run_id}/nodes/{node_id}/artifacts/{name}:read": rule("pipeline run", "view"),
    "GET runs/{run_id}/nodes/{node_id}/artifacts/{name}": rule("pipeline run", "view"),
    "GET artifacts": rule("pipeline run", "view"),
    "GET recurringruns": rule("recurring run", "view"),
    "POST recurringruns": rule("recurring run", "create"),
    "GET recurringruns/{recurring_run_id}": rule("recurring run", "view"),
    "DELETE recurringruns/{recurring_run_id}": rule("recurring run", "delete"),
    "POST recurringruns/{recurring_run_id}:enable": rule("recurring run", "edit"),
    "POST recurringruns/{recurring_run_id}:disable": rule("recurring run", "edit"),
}
"""The routes of Kubeflow Pipelines, below /apis/v2beta1 (server/pipelines/app.py)."""


class OtherRoutes(NamedTuple):
    paths: str
    rule: str


OTHER_ROUTES: Final = (
    OtherRoutes(
        "platform port: all paths outside of /api/ and /apis/v2beta1/",
        "public: files of the web UI, the same for everyone",
    ),
    OtherRoutes(
        "hosts and ports of workspaces: all paths, WebSockets",
        "open workspace: by the cookie of this workspace, which `POST /workspaces/{uid}/open` leads to, or by a "
        "token; checked with every request (docs/workspaces.md)",
    ),
    OtherRoutes(
        "monitoring port, which is for the cluster and not for users: /healthz, /readyz, /metrics",
        "public: whether the server works, and counts of requests; nothing about users or their work",
    ),
    OtherRoutes("API port: /healthz, /livez, /readyz", "public: `ok`; the reason of a failure needs a token"),
    OtherRoutes("API port: /version", "public: the version, as in Kubernetes"),
    OtherRoutes(
        "API port: /api, /apis, /openapi and below, /metrics, all objects and subresources, exec, port-forward",
        "a token of a service account or of the kubeconfig; RBAC decides by verb, resource, namespace and name",
    ),
    OtherRoutes(
        "API port: Argo's /api/v1/... and /artifacts...",
        "the same token; RBAC decides on the Workflows, templates, ConfigMaps and Pods that a route reads or writes",
    ),
)

_endpoints: dict[Callable[..., Any], RouteRule] = {}


def key_of(route: APIRoute) -> str:
    (method,) = route.methods or {"GET"}
    return f"{method} {route.path}"


def assign_rules(router: APIRouter, rules: Mapping[str, RouteRule], *, needs_identity: bool) -> None:
    """Finds the rule of every route. Raises ValueError for one without: then the server does not start."""
    for route in router.routes:
        if not isinstance(route, APIRoute):
            raise ValueError(f"{route} is not a route with a rule")
        found = rules.get(key_of(route))
        if found is None:
            raise ValueError(f'"{key_of(route)}" has no rule; add it to ROUTE_RULES in route_rules.py')
        if found.is_public == needs_identity:
            is_public = "public" if found.is_public else "not public"
            raise ValueError(f'"{key_of(route)}" is {is_public}, but its router is not among those')
        _endpoints[route.endpoint] = found


def check_complete(routers: Iterable[APIRouter]) -> None:
    """Raises ValueError for a rule without a route."""
    known = {key_of(route) for router in routers for route in router.routes if isinstance(route, APIRoute)}
    unused = ROUTE_RULES.keys() - known
    if unused:
        raise ValueError(f"there are rules without a route: {', '.join(sorted(unused))}")


async def check_route_rule(request: Request) -> None:
    """The dependency of every route. Raises Unauthenticated or Forbidden."""
    found = _endpoints.get(request.scope["route"].endpoint)
    if found is None:
        raise ForbiddenProblem.of("request.rule")
    if found.is_public:
        return
    actor = await identify(request)
    if found.kind is None:
        return
    decisions = [may_at_all(actor, found.kind, action) for action in found.actions]
    if not any(decisions):
        assert decisions[0].error is not None
        raise ForbiddenProblem.from_error(decisions[0].error)


_HEAD: Final = """# Every route, and who may use it

Made from the code by `python -m muster.server.platform.route_rules > docs/routes.md`; a test compares them. Paths of
the platform begin with `/api/v1`. A request needs a session or a token unless its rule is public. *Scope* is what a
token needs. The owner of a run, job, module, ... is the user who created it.
"""

_COOKER_HEAD: Final = """MLP Cooker's API ([cooker.md](cooker.md)) is at the Service `mlp-cooker-backend:5002`, at
`cooker.port`, and at these paths of the platform's port. It takes API tokens, but no sessions.
"""
_PIPELINES_HEAD: Final = """The API of Kubeflow Pipelines ([pipelines.md](pipelines.md)) is below `/apis/v2beta1` of the
platform's port. It takes API tokens and sessions.
"""
_COLUMNS: Final = "| method | path | rule | who | scope |"
_RULER: Final = "| --- | --- | --- | --- | --- |"


def _row(key: str, found: RouteRule) -> str:
    method, path = key.split(" ")
    if found.kind is None:
        who = "everyone" if found.is_public else "all users"
        return f"| {method} | `{path}` | {found.action}: {found.why} | {who} | |"
    rules = [RULES[found.kind, action] for action in found.actions]
    who = " or ".join(relation_names(each) for each in rules)
    return f"| {method} | `{path}` | {' or '.join(found.actions)} {found.kind} | {who} | {rules[0].scope} |"


def routes_document() -> str:
    """The table of all routes, as Markdown."""
    lines = [*_HEAD.splitlines(), "", _COLUMNS, _RULER]
    lines += [_row(key, found) for key, found in {**ROUTE_RULES, **WEBSOCKET_RULES}.items()]
    lines += ["", *_COOKER_HEAD.splitlines(), "", _COLUMNS, _RULER]
    lines += [_row(key, found) for key, found in COOKER_RULES.items()]
    lines += ["", *_PIPELINES_HEAD.splitlines(), "", _COLUMNS, _RULER]
    lines += [_row(key.replace(" ", " /"), found) for key, found in PIPELINES_RULES.items()]
    lines += ["", "| other routes | rule |", "| --- | --- |"]
    lines += [f"| {other.paths} | {other.rule} |" for other in OTHER_ROUTES]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(routes_document(), end="")
