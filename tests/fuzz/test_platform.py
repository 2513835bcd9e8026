"""Generated requests to the platform's API, by its OpenAPI document: some fit it, some do not. `make fuzz` runs them
for minutes."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from muster.server.platform.app import openapi_document
from tests.fuzz.campaign import FuzzedServer, Outcome, fuzzed_server
from tests.fuzz.platform_requests import KNOWN

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 240)
SEED = int(os.environ.get("FUZZ_SEED") or 1)
MOST_GROWN_MB = 250
EXAMPLES = 20
"""Of each operation, before the next one has its turn."""
_ANSWER_SECONDS = 20.0


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("role", ["admin", "member"])
async def test_no_generated_request_gets_a_500(role: str, tmp_path: Path) -> None:
    async with fuzzed_server(tmp_path, "tests.fuzz.platform_server") as server:
        outcome = await asyncio.to_thread(_run, server, role)
    print(f"{outcome.requests} requests, {dict(outcome.statuses)}, +{outcome.grown_mb:.0f} MB")
    assert not outcome.failures, outcome.explain()
    assert outcome.grown_mb < MOST_GROWN_MB


def _run(server: FuzzedServer, role: str) -> Outcome:
    import schemathesis
    from schemathesis import GenerationMode

    outcome, before = Outcome(), server.resident_mb
    schema: Any = schemathesis.openapi.from_dict(openapi_document())
    operations = [found.ok() for found in schema.get_all_operations()]
    deadline, turn = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline:
        for operation in operations:
            if time.monotonic() >= deadline:
                break
            names = [parameter.name for parameter in operation.path_parameters]
            known = {name: KNOWN[name] for name in names} if turn % 4 < 2 and set(names) <= KNOWN.keys() else {}
            mode = GenerationMode.NEGATIVE if turn % 2 else GenerationMode.POSITIVE
            more: dict[str, Any] = {"path_parameters": known} if known else {}
            strategy = operation.as_strategy(generation_mode=mode, **more)
            _send_some(server, strategy, role, SEED * 1000 + turn, outcome, deadline)
        turn += 1
    if _send(server, "GET", "/api/v1/health", role) != 200:
        outcome.failures.append("the server does not answer at the end")
    outcome.grown_mb = server.resident_mb - before
    outcome.log = server.log
    return outcome


def _send_some(server: FuzzedServer, strategy: Any, role: str, number: int, outcome: Outcome, deadline: float) -> None:
    from hypothesis.errors import HypothesisException

    @seed(number)
    @settings(
        max_examples=EXAMPLES, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=strategy)
    def send(case: Any) -> None:
        if time.monotonic() >= deadline:
            return
        request = case.as_transport_kwargs(base_url=server.url)
        shown = f"{request['method']} {request['url']} {request.get('params')} {str(request.get('json'))[:500]}"
        try:
            status = _send(server, role=role, **request)
        except OSError as error:
            outcome.failures.append(f"{type(error).__name__}: {shown}")
            return
        outcome.requests += 1
        outcome.statuses[status] += 1
        if status == 500:
            outcome.failures.append(f"500: {shown}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            send()
        except HypothesisException:
            return  # nothing can be generated for this operation in this mode


def _send(
    server: FuzzedServer, method: str, url: str, role: str, headers: dict[str, str] | None = None, **more: Any
) -> int:
    import requests

    token = server.tokens[role == "member"]
    sent = {**{k: str(v) for k, v in (headers or {}).items()}, "Authorization": f"Bearer {token}"}
    address = url if url.startswith("http") else server.url + url
    # A stream of events never ends: its head is enough.
    with requests.request(
        method, address, headers=sent, timeout=_ANSWER_SECONDS, stream=True, allow_redirects=False, **more
    ) as response:
        return response.status_code
