"""Rates are the difference of two measurements."""

from __future__ import annotations

import itertools

from muster.embedded.node.machine import Usage, UsageMeter
from muster.kube.metrics_api import WHOLE_NODE


async def test_rates_of_pods_and_of_the_machine() -> None:
    seconds = itertools.count(10.0, 1.0)
    meter = UsageMeter(lambda: {"pod": Usage(next(seconds), 4096)})
    rates, window = await meter.rates()
    assert rates["pod"].cores == 1.0 / window
    assert rates["pod"].memory == 4096
    assert rates[WHOLE_NODE].memory > 0


async def test_a_pod_that_started_in_between_is_measured_since_its_start() -> None:
    looks = iter([{}, {"new": Usage(0.25, 1)}])
    rates, window = await UsageMeter(lambda: next(looks)).rates()
    assert rates["new"].cores == 0.25 / window
