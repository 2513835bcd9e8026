"""`muster openapi`: the platform's API in the form that generators of clients read."""

from __future__ import annotations

import json

from muster.cli.output import say


def openapi() -> None:
    """Print the OpenAPI document of the platform's API."""
    from muster.server.platform.app import openapi_document

    say(json.dumps(openapi_document(), indent=2, ensure_ascii=False, sort_keys=True))
