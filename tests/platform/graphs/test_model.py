from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.platform.graphs.model import Edge, Graph, Node, SortOrder, read
from tests.platform.graphs.samples import graph, node, seed_example

NAMES = "abcdef"
EDGES = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES + "x")), max_size=12)


def test_a_graph_knows_its_nodes_and_their_parents() -> None:
    found = read(graph(*map(node, "abc"), edges="a>c b>c a>c"))
    assert found.parents("c") == ["a", "b"]
    assert found.parents("a") == []
    assert found.node("b") == found.nodes[1]
    assert found.node("x") is None


def test_missing_fields_have_defaults() -> None:
    first = read(seed_example()).nodes[0]
    assert (first.kind, first.task.type, first.retries) == ("plain", "monitor", 0)
    assert [output.type for output in first.outputs] == ["text", "file", "file"]


@given(EDGES)
def test_nodes_are_ordered_by_edges(edges: list[tuple[str, str]]) -> None:
    order = SortOrder(Graph(nodes=tuple(Node(name) for name in NAMES), edges=tuple(Edge(a, b) for a, b in edges)))
    before = {name: {a for a, b in edges if b == name and a in NAMES} for name in NAMES}
    for _ in NAMES:
        before = {name: found.union(*(before[parent] for parent in found)) for name, found in before.items()}
    for second in NAMES:
        assert set(order.before(second)) == before[second] - {second}
        for first in NAMES:
            assert order.is_before(first, second) is (first in before[second] and first != second)
