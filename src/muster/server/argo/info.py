"""About the server and its caller."""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from muster import __version__
from muster.kube.rbac import SERVICE_ACCOUNT_PREFIX
from muster.server.argo.requests import Request
from muster.server.kubernetes.request import ApiResponse

ARGO_VERSION = "v4.0.7"
"""The version of Argo whose API this is."""


async def info(request: Request) -> ApiResponse:
    modals = {"feedback": False, "firstTimeUser": False, "newVersion": False}
    return request.answer({"managedNamespace": "", "links": [], "columns": [], "modals": modals, "navColor": ""})


async def version(request: Request) -> ApiResponse:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return request.answer({
        "version": f"{ARGO_VERSION}+muster.{__version__}",
        "buildDate": "1970-01-01T00:00:00Z",
        "gitCommit": "",
        "gitTag": ARGO_VERSION,
        "gitTreeState": "clean",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"linux/{machine}",
    })  # fmt: skip


def metrics(text: Callable[[datetime], str]) -> Callable[[Request], Awaitable[ApiResponse]]:
    """The Prometheus metrics of workflows."""

    async def told(request: Request) -> ApiResponse:
        request.api.require_path("/metrics")
        return ApiResponse(text(datetime.now(UTC)).encode(), media="text/plain; version=0.0.4; charset=utf-8")

    return told


async def userinfo(request: Request) -> ApiResponse:
    user = request.api.user
    told: dict[str, object] = {"subject": user.name, "name": user.name, "groups": sorted(user.groups)}
    if user.name.startswith(SERVICE_ACCOUNT_PREFIX):
        namespace, _, name = user.name[len(SERVICE_ACCOUNT_PREFIX) :].partition(":")
        told |= {
            "serviceAccountName": name,
            "serviceAccountNamespace": namespace,
            "issuer": "kubernetes/serviceaccount",
        }
    return request.answer(told)


async def collect_event(request: Request) -> ApiResponse:
    """Accepts usage events of Argo's web UI and ignores them."""
    await request.body()
    return request.answer({})
