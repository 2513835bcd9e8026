"""Mutated requests to the Kubernetes and Argo APIs. `make fuzz` runs them for minutes; `make test` for seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import argo_requests, kubernetes_requests
from tests.fuzz.campaign import fuzzed_server, run_campaign
from tests.fuzz.mutation import FuzzRequest, Mutator

SECONDS = float(os.environ.get("FUZZ_SECONDS") or 240)
SEED = int(os.environ.get("FUZZ_SEED") or 1)
MOST_GROWN_MB = 250
"""Of the server's resident memory, from the first to the last request."""

_APIS = (
    pytest.param(kubernetes_requests.new_request, kubernetes_requests.QUERIES, id="kubernetes"),
    pytest.param(argo_requests.new_request, argo_requests.QUERIES, id="argo"),
)


@pytest.mark.parametrize(("new_request", "queries"), _APIS)
async def test_no_mutated_request_gets_a_500_for_three_seconds(
    new_request: Callable[[Random], FuzzRequest], queries: tuple[str, ...], tmp_path: Path
) -> None:
    await _check(new_request, queries, tmp_path, 3.0, 1)


@pytest.mark.fuzz
@pytest.mark.timeout(SECONDS + 120)
@pytest.mark.parametrize(("new_request", "queries"), _APIS)
async def test_no_mutated_request_gets_a_500(
    new_request: Callable[[Random], FuzzRequest], queries: tuple[str, ...], tmp_path: Path
) -> None:
    await _check(new_request, queries, tmp_path, SECONDS, SEED)


async def _check(
    new_request: Callable[[Random], FuzzRequest], queries: tuple[str, ...], home: Path, seconds: float, seed: int
) -> None:
    async with fuzzed_server(home) as server:
        outcome = await run_campaign(server, new_request, Mutator(Random(seed), queries), seconds)
    print(f"{outcome.requests} requests, {dict(outcome.statuses)}, +{outcome.grown_mb:.0f} MB")
    print(f"the slowest took {outcome.slowest[0]:.2f} s: {outcome.slowest[1]}")
    assert not outcome.failures, outcome.explain()
    assert outcome.grown_mb < MOST_GROWN_MB
