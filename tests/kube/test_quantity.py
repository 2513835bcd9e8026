from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube.quantity import (
    Quantity,
    QuantityError,
    ResourceList,
    canonical_quantity,
    format_quantity,
    max_resources,
    milli_value,
    missing_resources,
    parse_quantity,
    resources_fit,
    subtract_resources,
    sum_resources,
    whole_value,
)

NANO = Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", Fraction(0)),
        ("1", Fraction(1)),
        ("007", Fraction(7)),
        ("+5", Fraction(5)),
        ("-5", Fraction(-5)),
        ("1.5", Fraction(3, 2)),
        ("1.", Fraction(1)),
        (".5", Fraction(1, 2)),
        ("-.5k", Fraction(-500)),
        ("1n", NANO),
        ("1u", 1000 * NANO),
        ("100m", Fraction(1, 10)),
        ("2k", Fraction(2000)),
        ("2M", Fraction(2 * 10**6)),
        ("2G", Fraction(2 * 10**9)),
        ("2T", Fraction(2 * 10**12)),
        ("2P", Fraction(2 * 10**15)),
        ("2E", Fraction(2 * 10**18)),
        ("1Ki", Fraction(1024)),
        ("1Mi", Fraction(2**20)),
        ("1.5Gi", Fraction(3 * 2**29)),
        ("1Ti", Fraction(2**40)),
        ("1Pi", Fraction(2**50)),
        ("1Ei", Fraction(2**60)),
        ("1e3", Fraction(1000)),
        ("12E2", Fraction(1200)),
        ("5e-3", Fraction(5, 1000)),
        ("1E+6", Fraction(10**6)),
        (4, Fraction(4)),
        (0.5, Fraction(1, 2)),
        (1e22, Fraction(10**22)),
        ("0.1", Fraction(1, 10)),  # not 0.1000000000000000055
        ("18446744073709551616", Fraction(2**64)),
    ],
)
def test_the_value_is_exact(text: Quantity, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1n", NANO),
        ("-0.1n", -NANO),
        ("1.0000000001", 1 + NANO),
        ("8Ei", Fraction(2**63 - 1)),
        ("-9000Ei", Fraction(-(2**63 - 1))),
        ("0.00000000001Ki", 11 * NANO),
    ],
)
def test_limits_are_those_of_kubernetes(text: str, value: Fraction) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "such as 500m"),
        (".", "such as 500m"),
        ("lots", "such as 500m"),
        ("--1", "such as 500m"),
        ("１", "such as 500m"),
        ("1 Gi", 'write "1Gi"'),
        ("1Gi ", 'write "1Gi"'),
        ("1e", 'unknown suffix "e"'),
        ("1e99999", 'unknown suffix "e99999"'),
        ("1ki", 'did you mean "1Ki"?'),
        ("64GB", 'did you mean "64G"?'),
        ("1.5GiB", 'did you mean "1.5Gi"?'),
        ("8K", 'did you mean "8k"?'),
        ("1.2.3", 'unknown suffix ".3"'),
        ("9" * 65, "too long"),
        (float("nan"), "not a quantity"),
        (float("inf"), "not a quantity"),
    ],
)
def test_what_is_no_quantity_is_explained(text: Quantity, hint: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1000m", "1"),
        ("1.5", "1500m"),
        ("0.5", "500m"),
        (0.5, "500m"),
        ("1.2345", "1234500u"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000000", "1M"),
        ("1000E", "1e21"),
        ("-2000", "-2k"),
        ("1024", "1024"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000Ki", "1000Ki"),
        ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"),
        ("1023Mi", "1023Mi"),
        ("0.5Mi", "512Ki"),
        ("1.0001Ki", "1024102400u"),
        ("1024Ei", str(2**63 - 1)),
        ("1e3", "1e3"),
        ("12E2", "1200"),
        ("1e4", "10e3"),
        ("5e-1", "500e-3"),
    ],
)
def test_the_canonical_form_is_what_kubernetes_prints(text: Quantity, printed: str) -> None:
    assert canonical_quantity(text) == printed


@pytest.mark.parametrize(
    ("value", "like", "printed"),
    [
        (Fraction(2**31), "1Gi", "2Gi"),
        (Fraction(2**31), "Ki", "2Gi"),
        (Fraction(2**31), "1", "2147483648"),
        (Fraction(2**64), "1Ei", "18446744073709551616"),  # 16Ei would be read back as less
        (Fraction(3000), "", "3k"),
        (Fraction(3000), "1e1", "3e3"),
        (Fraction(3000), "E", "3k"),
    ],
)
def test_a_number_is_written_in_the_manner_of_another(value: Fraction, like: str, printed: str) -> None:
    assert format_quantity(value, like) == printed


@pytest.mark.parametrize(
    ("text", "in_milli", "in_whole"),
    [
        ("100m", 100, 1),
        ("1.5", 1500, 2),
        ("1u", 1, 1),
        ("-1500m", -1500, -2),
        ("0", 0, 0),
        ("2Gi", 2**31 * 1000, 2**31),
        (2, 2000, 2),
    ],
)
def test_counting_rounds_up(text: Quantity, in_milli: int, in_whole: int) -> None:
    assert (milli_value(text), whole_value(text)) == (in_milli, in_whole)


def test_sums_keep_the_manner_of_the_first_that_counts() -> None:
    lists: list[ResourceList] = [
        {"cpu": "0", "memory": "1Gi"},
        {"cpu": "500m"},
        {"cpu": "0.7", "memory": "512Mi", "nvidia.com/gpu": 1},
    ]
    assert sum_resources(lists) == {"cpu": "1200m", "memory": "1536Mi", "nvidia.com/gpu": "1"}
    assert sum_resources([{"memory": "0"}, {"memory": "1Gi"}]) == {"memory": "1Gi"}
    assert sum_resources([]) == {}


def test_differences_may_be_negative() -> None:
    assert subtract_resources({"cpu": "2", "memory": "1Gi"}, {"cpu": "500m", "nvidia.com/gpu": "1"}) == {
        "cpu": "1500m",
        "memory": "1Gi",
        "nvidia.com/gpu": "-1",
    }


def test_the_largest_of_each() -> None:
    assert max_resources([{"cpu": "1", "memory": "1G"}, {"cpu": "1500m"}, {"memory": "1Gi"}]) == {
        "cpu": "1500m",
        "memory": "1Gi",
    }


@pytest.mark.parametrize(
    ("requests", "available", "short_of"),
    [
        ({}, {}, []),
        ({"cpu": "1"}, {"cpu": "1000m"}, []),
        ({"cpu": "1001m"}, {"cpu": "1"}, ["cpu"]),
        ({"nvidia.com/gpu": "0"}, {}, []),
        ({"cpu": "0"}, {"cpu": "-1"}, []),
        ({"nvidia.com/gpu": "1", "cpu": "9"}, {"cpu": "4"}, ["cpu", "nvidia.com/gpu"]),
    ],
)
def test_what_is_lacking(requests: dict[str, str], available: dict[str, str], short_of: list[str]) -> None:
    assert missing_resources(requests, available) == short_of
    assert resources_fit(requests, available) is (not short_of)


suffixes = st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3"])
numbers = st.one_of(
    st.integers(-(10**15), 10**15).map(str), st.decimals(-1000, 1000, places=6).map(lambda d: format(d, "f"))
)
quantities = st.tuples(numbers, suffixes).map("".join)


@given(quantities)
def test_the_canonical_form_has_the_same_value_and_is_stable(text: str) -> None:
    printed = canonical_quantity(text)
    assert parse_quantity(printed) == parse_quantity(text)
    assert canonical_quantity(printed) == printed


@given(st.lists(quantities, max_size=6))
def test_a_sum_is_the_sum_of_the_values(texts: list[str]) -> None:
    total = sum_resources({"x": text} for text in texts)
    assert parse_quantity(total.get("x", "0")) == sum(map(parse_quantity, texts))


@given(quantities, quantities)
def test_subtracting_undoes_adding(a: str, b: str) -> None:
    back = subtract_resources(sum_resources([{"x": a}, {"x": b}]), {"x": b})
    assert parse_quantity(back["x"]) == parse_quantity(a)
