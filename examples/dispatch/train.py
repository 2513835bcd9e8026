"""Trains a small neural network in plain Python on `data.csv` beside this file, and writes `model.json`."""

from __future__ import annotations

import csv
import json
import math
import random
from pathlib import Path

HERE = Path(__file__).parent
HIDDEN, EPOCHS, BATCH = 8, 30, 16


def main() -> None:
    rate = json.loads((HERE / "options.json").read_text())["rate"]
    with (HERE / "data.csv").open() as file:
        rows = [(float(x), float(y), int(moon)) for x, y, moon in csv.reader(file)]
    train, test = rows[: len(rows) * 4 // 5], rows[len(rows) * 4 // 5 :]
    dice = random.Random(1)
    first = [[dice.gauss(0, 1) for _ in range(3)] for _ in range(HIDDEN)]
    second = [dice.gauss(0, 1) for _ in range(HIDDEN + 1)]
    for epoch in range(1, EPOCHS + 1):
        dice.shuffle(train)
        loss = sum(step(train[i : i + BATCH], first, second, rate) for i in range(0, len(train), BATCH)) / len(train)
        print(f"epoch {epoch:2} of {EPOCHS}  loss {loss:.4f}", flush=True)
        report(epoch / EPOCHS, f"epoch {epoch} of {EPOCHS}", loss=loss)
    accuracy = sum((predict(x, y, first, second)[0] > 0.5) == moon for x, y, moon in test) / len(test)
    print(f"accuracy {accuracy:.3f} on {len(test)} rows it has never seen", flush=True)
    model = {"first": first, "second": second, "accuracy": accuracy}
    (HERE / "model.json").write_text(json.dumps(model))


def predict(x: float, y: float, first: list[list[float]], second: list[float]) -> tuple[float, list[float]]:
    hidden = [math.tanh(w[0] * x + w[1] * y + w[2]) for w in first]
    score = sum(w * h for w, h in zip(second, hidden, strict=False)) + second[-1]
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, score)))), hidden


def step(batch: list[tuple[float, float, int]], first: list[list[float]], second: list[float], rate: float) -> float:
    """One step of gradient descent; returns the loss of the batch before it."""
    loss = 0.0
    for x, y, moon in batch:
        chance, hidden = predict(x, y, first, second)
        loss -= math.log(max(1e-12, chance if moon else 1 - chance))
        error = (chance - moon) * rate / len(batch)
        for unit, h in enumerate(hidden):
            back = error * second[unit] * (1 - h * h)
            second[unit] -= error * h
            for position, value in enumerate((x, y, 1.0)):
                first[unit][position] -= back * value
        second[-1] -= error
    return loss


def report(progress: float, message: str, **metrics: float) -> None:
    """Progress is a line of JSON; any language can write it."""
    with (HERE / "local_reporter.txt").open("a") as file:
        file.write(json.dumps({"progress": progress, "message": message, "metrics": metrics}) + "\n")


if __name__ == "__main__":
    main()
