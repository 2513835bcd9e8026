"""Is it up?"""

from __future__ import annotations

from fastapi import APIRouter

from muster import __version__
from muster.server.platform.rest import Answer
from muster.server.platform.services import Here

router = APIRouter(tags=["health"])
open_router = APIRouter(tags=["health"])


class Health(Answer):
    status: str
    version: str


@open_router.get("/health")
async def health(here: Here) -> Health:
    """Answers when requests are answered, the database included."""
    await here.database.read(lambda connection: connection.exec_driver_sql("SELECT 1").scalar_one())
    return Health(status="ok", version=__version__)
