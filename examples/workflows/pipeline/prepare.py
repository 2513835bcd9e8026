"""Generates the data: two interleaved half circles that no straight line separates."""

import sys
from pathlib import Path

import numpy as np

folder, rows = Path(sys.argv[1]), int(sys.argv[2])


def moons(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, rows)
    angle = random.uniform(0, np.pi, rows)
    x = np.where(label == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(label == 0, np.sin(angle), 0.5 - np.sin(angle))
    return np.stack([x, y], axis=1) + random.normal(0, 0.15, (rows, 2)), label


for name, seed, count in (("train", 1, rows), ("test", 0, rows // 2)):
    features, labels = moons(seed, count)
    np.savez(folder / f"{name}.npz", features=features, labels=labels)
    print(f"{name}: {count} rows, {labels.mean():.0%} of them in the second moon")
Path("/tmp/rows").write_text(str(rows))
