"""Mutated requests to the Kubernetes, Argo, platform and Kubeflow Pipelines APIs. `make fuzz` sends them for minutes,
`make test` for seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.fuzz import argo_requests, kubernetes_requests, pipeline_requests, platform_requests
from tests.fuzz.campaign import fuzzed_server, run_campaign
from tests.fuzz.mutation import FuzzRequest, Mutator

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 240)
SEED = int(os.environ.get("FUZZ_SEED") or 1)
MOST_GROWN_MB = 250
"""Of the server's resident memory, from the first to the last request."""


class Api(NamedTuple):
    new_request: Callable[[Random], FuzzRequest]
    queries: tuple[str, ...]
    server: str = "tests.fuzz.server"


_APIS = (
    pytest.param(Api(kubernetes_requests.new_request, kubernetes_requests.QUERIES), id="kubernetes"),
    pytest.param(Api(argo_requests.new_request, argo_requests.QUERIES), id="argo"),
    pytest.param(
        Api(platform_requests.new_request, platform_requests.QUERIES, "tests.fuzz.platform_server"), id="platform"
    ),
    pytest.param(
        Api(pipeline_requests.new_request, pipeline_requests.QUERIES, "tests.fuzz.platform_server"), id="pipelines"
    ),
)


@pytest.mark.parametrize("api", _APIS)
async def test_no_mutated_request_gets_a_500_for_three_seconds(api: Api, tmp_path: Path) -> None:
    await _check(api, tmp_path, 3.0, 1)


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize("api", _APIS)
async def test_no_mutated_request_gets_a_500(api: Api, tmp_path: Path) -> None:
    await _check(api, tmp_path, SECONDS, SEED)


async def _check(api: Api, home: Path, seconds: float, seed: int) -> None:
    async with fuzzed_server(home, api.server) as server:
        outcome = await run_campaign(server, api.new_request, Mutator(Random(seed), api.queries), seconds)
    print(f"{outcome.requests} requests, {dict(outcome.statuses)}, +{outcome.grown_mb:.0f} MB")
    print(f"the slowest took {outcome.slowest[0]:.2f} s: {outcome.slowest[1]}")
    assert not outcome.failures, outcome.explain()
    assert outcome.grown_mb < MOST_GROWN_MB
