from __future__ import annotations

from muster.training.children import TIMEOUT, Expectations


def test_waits_until_all_is_seen_and_not_for_ever() -> None:
    now = 100.0
    expectations: Expectations[str] = Expectations(lambda: now)
    assert expectations.seconds_left("job") == 0
    expectations.expect("job", "a")
    now += 1
    expectations.expect("job", "b")
    assert expectations.seconds_left("job") == TIMEOUT
    expectations.observe("job", "a")
    expectations.observe("job", "unheard of")
    expectations.observe("other", "b")
    assert expectations.seconds_left("job") == TIMEOUT
    expectations.observe("job", "b")
    assert expectations.seconds_left("job") == 0

    expectations.expect("job", "c")
    now += TIMEOUT - 1
    assert expectations.seconds_left("job") == 1
    now += 1
    assert expectations.seconds_left("job") == 0
    expectations.expect("job", "d")
    expectations.forget("job")
    assert expectations.seconds_left("job") == 0
