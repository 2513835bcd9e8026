from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from muster.platform.database.ids import new_id


def test_ids_are_letters_and_digits_that_fit_everywhere() -> None:
    assert all(re.fullmatch(r"[0-9a-hjkmnp-tv-z]{26}", new_id()) for _ in range(100))


def test_later_ids_are_greater_and_none_comes_twice() -> None:
    ids = [new_id() for _ in range(5000)]
    assert ids == sorted(set(ids))


def test_threads_do_not_share_ids() -> None:
    with ThreadPoolExecutor(8) as pool:
        ids = [one for many in pool.map(lambda _: [new_id() for _ in range(500)], range(8)) for one in many]
    assert len(set(ids)) == len(ids)
