"""The platform's API as an ASGI application.

Routes are in the modules of this package. Routes of ROUTERS need an identity; those of OPEN_ROUTERS are for callers
who are not logged in yet. `route_rules.py` lists the rule of each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cache, partial
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, FastAPI
from starlette.routing import BaseRoute

from muster import __version__
from muster.kube.errors import Unavailable, lacks_permission
from muster.platform.database.database import is_disconnected
from muster.platform.database.leases import LeaseLost
from muster.server.platform import (
    all_runs,
    argo_workflows,
    cluster,
    dispatch,
    jobs,
    logs,
    metrics,
    module_versions,
    modules,
    notebooks,
    resources,
    run_nodes,
    runs,
    schedules,
    sessions,
    tensorboards,
    users,
    volume_files,
    volumes,
    webhooks,
    workflows,
    workspaces,
)
from muster.server.platform.event_feed import follow_other_servers
from muster.server.platform.pages import add_pages
from muster.server.platform.problems import ProblemDocument, answer_problems
from muster.server.platform.response_cache import ResponseCache
from muster.server.platform.rest import ApiModel, only_known_parameters
from muster.server.platform.route_rules import ROUTE_RULES, RouteRule, assign_rules, check_complete, check_route_rule
from muster.server.platform.security import Security, Who, identify
from muster.server.platform.services import Here, Services
from muster.server.platform.terminals import add_terminals

log = logging.getLogger(__name__)

PREFIX = "/api/v1"
_AGAIN_SECONDS = 5.0

_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemDocument, "description": "The request was refused. The document says why."},
}

_about = APIRouter()
_health = APIRouter(tags=["health"])


class Health(ApiModel):
    status: str
    version: str


@_health.get("/health")
async def health(here: Here) -> Health:
    """Succeeds if requests are served and the database responds."""
    await here.database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one())
    return Health(status="ok", version=__version__)


@_about.get("/openapi.json", include_in_schema=False)
async def get_openapi(who: Who) -> dict[str, Any]:
    return openapi_document()


ROUTERS: tuple[APIRouter, ...] = (
    # Searched in this order: what is requested most comes first.
    all_runs.router,
    runs.router,
    run_nodes.router,
    logs.run_logs_router,
    workflows.workflows_router,
    workflows.versions_router,
    jobs.router,
    argo_workflows.router,
    schedules.router,
    modules.modules_router,
    module_versions.module_versions_router,
    module_versions.reviews_router,
    sessions.router,
    users.users_router,
    users.teams_router,
    users.tokens_router,
    users.audit_router,
    workflows.graphs_router,
    modules.categories_router,
    resources.router,
    volumes.router,
    volume_files.router,
    cluster.router,
    webhooks.router,
    dispatch.router,
    workspaces.router,
    notebooks.images_router,
    notebooks.router,
    tensorboards.router,
    logs.job_logs_router,
    metrics.router,
    _about,
)
OPEN_ROUTERS: tuple[APIRouter, ...] = (
    _health,
    sessions.open_router,
    sessions.openid_router,
    dispatch.open_router,
)


def platform_app(services: Services) -> FastAPI:
    """The application. `background_tasks` have to run beside it."""
    app = _create_app()
    app.state.services = services
    answer_problems(app)
    add_terminals(app)
    add_pages(app)
    app.add_middleware(ResponseCache, database=services.database)
    app.add_middleware(
        Security,
        https=services.url.startswith("https:"),
        trusted_proxies=services.settings.web.trusted_proxies,
        host=urlsplit(services.url).hostname or "",
        is_upload=volume_files.is_upload,
    )
    return app


BackgroundTask: TypeAlias = tuple[str, Callable[[], Coroutine[Any, Any, None]]]
"""A name for the log, and what runs until it is cancelled."""


def background_tasks(services: Services) -> list[BackgroundTask]:
    """What runs beside the application, in every server."""
    return [
        ("leases", services.leases.run),
        ("controllers", partial(services.leases.lead, "controllers", partial(keep_running, controllers(services)))),
        ("owners of namespaces", services.namespaces.follow),
        ("changes of other servers", partial(follow_other_servers, services.database, services.run_feed)),
        ("job watch", services.jobs.run),
        ("usage of Pods", services.pod_usage.run),
        ("workflow watch", services.argo_workflows.run),
        # Jobs of the dispatcher have leases of their own, so that servers share them.
        ("dispatcher", services.dispatch.run),
    ]


def controllers(services: Services) -> list[BackgroundTask]:
    """What only one of the servers on a database runs."""
    return [
        ("namespaces", services.namespaces.run),
        ("run controller", services.runs.run),
        ("module builds", services.builds.run),
        ("pipeline runs", services.pipeline_runs.run),
        ("recurring runs", services.recurring_runs.run),
        ("webhooks", services.webhooks.run),
        ("queues", partial(resources.keep_queues, services)),
        ("cluster usage", partial(cluster.keep_usage, services)),
        ("encryption of secrets", partial(_encrypt_secrets, services)),
    ]


async def keep_running(tasks: Iterable[BackgroundTask]) -> None:
    """Runs the tasks until it is cancelled. One that fails is started again; the others are not affected."""
    async with asyncio.TaskGroup() as group:
        for name, task in tasks:
            group.create_task(_keep_running(name, task), name=name)


async def _keep_running(name: str, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    while True:
        try:
            await task()
        except Exception as error:
            if _is_expected(error):
                log.warning("%s is restarted: %s", name, error)
            else:
                log.exception("%s failed and is restarted", name)
        await asyncio.sleep(_AGAIN_SECONDS)


def _is_expected(error: Exception) -> bool:
    """Whether the message says all there is to say: another server has taken over, the cluster or the database does
    not respond, or the server lacks a permission on the cluster."""
    if isinstance(error, ExceptionGroup):
        return all(_is_expected(each) for each in error.exceptions)
    return isinstance(error, (LeaseLost, Unavailable)) or lacks_permission(error) or is_disconnected(error)


async def _encrypt_secrets(services: Services) -> None:
    """Once: everything that is written later is encrypted with the current key."""
    await services.database.reseal()
    await asyncio.Event().wait()


def openapi_document() -> dict[str, Any]:
    """The OpenAPI document. It is the same for every server of a release."""
    return _create_app().openapi()


def include(
    app: FastAPI,
    router: APIRouter,
    *,
    needs_identity: bool = True,
    rules: Mapping[str, RouteRule] = ROUTE_RULES,
) -> None:
    """Identity and the rule of a route are checked here and nowhere else, so that no route can forget them. Raises
    ValueError if a route has no rule."""
    assign_rules(router, rules, needs_identity=needs_identity)
    checks = [*([Depends(identify)] if needs_identity else []), Depends(check_route_rule)]
    app.include_router(router, prefix=PREFIX, dependencies=[*checks, Depends(only_known_parameters)], responses=_ERRORS)


def _create_app() -> FastAPI:
    app = _empty_app()
    app.router.routes.extend(_api_routes())
    return app


@cache
def _api_routes() -> tuple[BaseRoute, ...]:
    """The routes of the API. All applications of a process share them, because FastAPI prepares a route when it first
    looks for one, and preparing all of them takes half a second."""
    app = _empty_app()
    for router in ROUTERS:
        include(app, router)
    for router in OPEN_ROUTERS:
        include(app, router, needs_identity=False)
    check_complete((*ROUTERS, *OPEN_ROUTERS))
    return tuple(app.router.routes)


def _empty_app() -> FastAPI:
    return FastAPI(
        title="Muster",
        version=__version__,
        description="Workflows with versions, modules, runs, resources and users.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
