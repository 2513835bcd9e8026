"""Valid SKUs, and how many of them an amount of resources is."""

from __future__ import annotations

from typing import Any

import pytest

from muster.kube.quantity import multiply_resources
from muster.platform.resources.resources import count_skus, read_sku, selector_faults, sku_faults

SKU = {"nvidia.com/gpu": "1", "cpu": "10", "memory": "80G"}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"gpu": 1, "cpu": "10", "memory": "80G"}, SKU),
        ({"gpu": 0, "cpu": "500m", "memory": "1.5Gi"}, {"cpu": "500m", "memory": "1.5Gi"}),
        ({"amd.com/gpu": 2}, {"amd.com/gpu": "2"}),
    ],
)
def test_amounts_by_resource(given: dict[str, Any], read: dict[str, str]) -> None:
    assert sku_faults(given) == []
    assert read_sku(given) == read


@pytest.mark.parametrize(
    ("given", "field", "told"),
    [
        ({}, "sku", "is empty"),
        ({"gpu": 0, "cpu": "0"}, "sku", "is empty"),
        ({"cpu": "ten"}, "sku.cpu", "ten"),
        ({"memory": "-1G"}, "sku.memory", "less than 0"),
        ({"gpu": "500m"}, "sku.gpu", "not a whole number"),
        ({"gpu": 1, "nvidia.com/gpu": 1}, "sku.nvidia.com/gpu", "each at most once"),
        ({"a b": 1}, "sku.a b", "full name of a resource"),
    ],
)
def test_invalid_skus(given: dict[str, Any], field: str, told: str) -> None:
    (fault,) = sku_faults(given)
    assert fault.field == field
    assert told in fault.message


def test_multiples_of_a_sku_are_exact() -> None:
    assert multiply_resources({"cpu": "100m", "memory": "1.5Gi"}, 3) == {"cpu": "300m", "memory": "4608Mi"}
    assert multiply_resources(SKU, 0)["cpu"] == "0"


@pytest.mark.parametrize(
    ("amounts", "count"),
    [
        ({}, 0),
        ({"cpu": "20", "memory": "160G", "nvidia.com/gpu": "2"}, 2),
        ({"cpu": "11"}, 2),
        ({"memory": "1"}, 1),
        ({"pods": "5"}, 0),
    ],
)
def test_how_many_skus_cover_an_amount(amounts: dict[str, str], count: int) -> None:
    assert count_skus(amounts, SKU) == count


def test_selectors_are_labels() -> None:
    assert selector_faults({"pool": "rtx2080", "example.com/zone": ""}) == []
    assert [fault.field for fault in selector_faults({"a b": "c", "d": "e f"})] == [
        "node_selector.a b",
        "node_selector.d",
    ]
