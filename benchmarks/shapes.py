"""The DAGs that workflow engines are compared by: (name, names of those it waits for) for every task.

Standard library only: the peers' programs, which run in environments of their own, read it, too.
"""

from __future__ import annotations

WIDTH = 100


def tasks(shape: str, count: int) -> list[tuple[str, list[str]]]:
    names = [f"t{number}" for number in range(count)]
    if shape == "fan-out":
        return [(name, []) for name in names]
    if shape == "chain":
        return [(name, names[number - 1 : number] if number else []) for number, name in enumerate(names)]
    if shape == "layers":
        return [(name, _above(names, number)) for number, name in enumerate(names)]
    raise ValueError(f"no such shape: {shape}")


def _above(names: list[str], number: int) -> list[str]:
    """Two tasks of the layer above."""
    layer, column = divmod(number, WIDTH)
    if not layer:
        return []
    above = (layer - 1) * WIDTH
    return sorted({names[above + column], names[above + (column + 1) % WIDTH]})
