"""The OpenAPI document, for whoever writes a client."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

router = APIRouter(tags=["document"])


@router.get("/openapi.json", include_in_schema=False)
async def openapi_document(request: Request) -> dict[str, Any]:
    document: dict[str, Any] = request.app.openapi()
    return document
