from __future__ import annotations

import pytest

from muster.workflows.lang.environment import missing, references, roots


@pytest.mark.parametrize(
    ("expression", "needed"),
    [
        ("1 + 1", []),
        ("item", ["item"]),
        ("item.requiredKey", ["item", "item.requiredKey"]),
        ("tasks['a-b'].outputs.result", ["tasks", "tasks.a-b", "tasks.a-b.outputs", "tasks.a-b.outputs.result"]),
        ("item.optionalKey ?? 'fallback'", ["item"]),
        ("item['optionalKey'] ?? ''", ["item"]),
        ("item?.optionalKey", ["item"]),
        ("item.a?.b", ["item"]),
        ("item.requiredKey + (item.optionalKey ?? 'x')", ["item", "item.requiredKey"]),
        ("tasks.a.outputs.result ?? 'default'", ["tasks"]),
        ("sprig.int(retries)", ["sprig", "sprig.int", "retries"]),
        ("upper(name)", ["name"]),
        ("filter(items, .name == other)", ["items", "other"]),
        ("let a = x; a.b + y", ["x", "y"]),
        ("items[i].name", ["items", "i"]),
    ],
)
def test_what_an_expression_needs(expression: str, needed: list[str]) -> None:
    assert list(references(expression)) == needed


def test_what_is_missing() -> None:
    env = {"workflow": {"status": None}, "item": "x"}
    names = ("workflow", "workflow.status", "workflow.name", "item", "item.key", "tasks", "tasks.a")
    assert missing(names, env) == ["workflow.name", "item.key", "tasks", "tasks.a"]


def test_what_of_a_scope_can_matter() -> None:
    assert roots("a.b + c") is not None
    assert {"a", "c", "duration"} <= (roots("a.b + c") or set())
    assert roots("$env['x']") is None
