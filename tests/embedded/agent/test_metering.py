"""Rates are the difference of two looks."""

from __future__ import annotations

import itertools

from muster.embedded.agent.machine import Usage
from muster.embedded.agent.metering import Meter
from muster.kube.metrics import MACHINE


async def test_measures_between_two_looks_and_the_machine_along_with_the_pods() -> None:
    seconds = itertools.count(10.0, 1.0)
    meter = Meter(lambda: {"pod": Usage(next(seconds), 4096)})
    rates, window = await meter.rates()
    assert rates["pod"].cores == 1.0 / window
    assert rates["pod"].memory == 4096
    assert rates[MACHINE].memory > 0


async def test_a_pod_that_began_in_between_counts_from_its_beginning() -> None:
    looks = iter([{}, {"new": Usage(0.25, 1)}])
    rates, window = await Meter(lambda: next(looks)).rates()
    assert rates["new"].cores == 0.25 / window
