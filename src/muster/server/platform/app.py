"""The platform's API. An area of it is a module here with a `router`, named in ROUTERS.

    router = APIRouter(prefix="/runs", tags=["runs"])

    @router.get("")
    async def list_runs(here: Here, who: Who, paging: Paging) -> PageOf[RunAnswer]: ...

Nobody reaches a route of `router` without identity. `open_router`, if there is one, is for those who have none yet.
`async def background(platform)`, if there is one, runs for as long as the server does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

from muster import __version__
from muster.server.platform.pages import add_pages
from muster.server.platform.problems import ProblemDocument, answer_problems
from muster.server.platform.response_cache import ResponseCache
from muster.server.platform.rest import only_known_parameters
from muster.server.platform.security import Security, identify
from muster.server.platform.services import Services

PREFIX = "/api/v1"

ROUTERS = (
    "runs",
    "run_nodes",
    "run_logs",
    "workflows",
    "versions",
    "jobs",
    "modules",
    "module_versions",
    "reviews",
    "health",
    "sessions",
    "openid",
    "users",
    "teams",
    "tokens",
    "audit",
    "graphs",
    "categories",
    "resources",
    "cluster",
    "job_logs",
    "document",
)
"""Modules of this package, one a line. They are looked through in this order: what is asked for most comes first."""

_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ProblemDocument, "description": "It was refused; the document says why."},
}


def platform_app(platform: Services) -> FastAPI:
    """Serves it all. Its background work is for `backgrounds`."""
    app = _routed()
    app.state.platform = platform
    answer_problems(app)
    add_pages(app)
    app.add_middleware(ResponseCache, database=platform.database)
    app.add_middleware(Security, https=platform.url.startswith("https:"))
    return app


def openapi_document() -> dict[str, Any]:
    """The same for every server of this release."""
    return _routed().openapi()


def backgrounds() -> list[Callable[[Services], Coroutine[Any, Any, None]]]:
    """What is to run beside the app, each until it is cancelled."""
    return [module.background for module in _modules() if hasattr(module, "background")]


def include(app: FastAPI, router: APIRouter, *, anybody: bool = False) -> None:
    """Identity is asked for here, and nowhere else, so that no route can forget to."""
    checks = [Depends(only_known_parameters)] if anybody else [Depends(identify), Depends(only_known_parameters)]
    app.include_router(router, prefix=PREFIX, dependencies=checks, responses=_ERRORS)


def _routed() -> FastAPI:
    app = FastAPI(
        title="Muster",
        version=__version__,
        description="Workflows with versions, modules, runs, resources and users.",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    for module in _modules():
        include(app, module.router)
        if hasattr(module, "open_router"):
            include(app, module.open_router, anybody=True)
    return app


def _modules() -> list[ModuleType]:
    return [importlib.import_module(f"muster.server.platform.{name}") for name in ROUTERS]
