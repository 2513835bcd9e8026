from __future__ import annotations

from muster.training.children import PATIENCE, Expectations


def test_waits_until_all_is_seen_and_not_for_ever() -> None:
    now = 100.0
    expectations: Expectations[str] = Expectations(lambda: now)
    assert expectations.patience("job") == 0
    expectations.expect("job", "a")
    now += 1
    expectations.expect("job", "b")
    assert expectations.patience("job") == PATIENCE
    expectations.seen("job", "a")
    expectations.seen("job", "unheard of")
    expectations.seen("other", "b")
    assert expectations.patience("job") == PATIENCE
    expectations.seen("job", "b")
    assert expectations.patience("job") == 0

    expectations.expect("job", "c")
    now += PATIENCE - 1
    assert expectations.patience("job") == 1
    now += 1
    assert expectations.patience("job") == 0
    expectations.expect("job", "d")
    expectations.forget("job")
    assert expectations.patience("job") == 0
