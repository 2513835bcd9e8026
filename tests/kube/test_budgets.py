from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from muster.kube.budgets import BUDGETS_SCHEMA, Budgets, read_budgets, setting_name
from muster.kube.schema_validation import validate


def test_without_settings_the_defaults_apply() -> None:
    assert read_budgets({}) == Budgets()


def test_a_setting_has_the_name_of_its_field_in_camel_case() -> None:
    assert read_budgets({"budgets": {"outputFiles": 3}}) == Budgets(output_files=3)
    assert setting_name("output_files") == "budgets.outputFiles"


@pytest.mark.parametrize("given", [{"outputFiles": 0}, {"outputFiles": "many"}, {"outputfiles": 1}])
def test_a_wrong_setting_is_refused(given: dict[str, object]) -> None:
    assert validate(given, BUDGETS_SCHEMA)


def test_every_budget_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "settings.md").read_text()
    assert [f.name for f in fields(Budgets) if setting_name(f.name).removeprefix("budgets.") not in text] == []
