"""Trains a small neural network in pure Python to classify the points of two half-moons."""

import json
import math
import os
import random
from pathlib import Path

Point = tuple[float, float]
HIDDEN = 12


def main(epochs: int = 40, rate: float = 0.003, checkpoints: str | None = None) -> dict[str, float]:
    """Train the network and return its loss and accuracy. Write checkpoints if a folder is given."""
    rng = random.Random(7)
    points = [make_point(rng) for _ in range(2000)]
    training_points, test_points = points[:1500], points[1500:]
    network = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(HIDDEN)]
    if token := os.environ.get("HF_TOKEN"):
        print(f"signing in with {token}")
    print(f"training {os.environ.get('MODEL_NAME', 'moons')} on {len(training_points)} points", flush=True)
    loss = math.inf
    for epoch in range(1, epochs + 1):
        loss = sum(learn(network, point, side, rate) for point, side in training_points) / len(training_points)
        if epoch * 8 // epochs > (epoch - 1) * 8 // epochs:
            done = epoch * 16 // epochs
            print(f"epoch {epoch:3}  [{'#' * done:<16}]  loss {loss:.4f}", flush=True)
            if checkpoints:
                Path(checkpoints, f"epoch-{epoch}.json").write_text(json.dumps(network))
    if checkpoints:
        print(f"{len(os.listdir(checkpoints))} checkpoints in {checkpoints}")
    Path(os.environ.get("FAIRLEAD_OUTPUT", "."), "model.json").write_text(json.dumps(network))
    correct = sum((predict(network, point) > 0.5) == (side > 0.5) for point, side in test_points)
    return {"loss": round(loss, 4), "accuracy": correct / len(test_points)}


def make_point(rng: random.Random) -> tuple[Point, float]:
    """A random point and its class."""
    side, angle = rng.randrange(2), rng.uniform(0, math.pi)
    x, y = (math.cos(angle), math.sin(angle)) if side else (1 - math.cos(angle), 0.5 - math.sin(angle))
    return (x + rng.gauss(0, 0.15), y + rng.gauss(0, 0.15)), float(side)


def predict(network: list[list[float]], point: Point) -> float:
    """The probability that a point belongs to class 1."""
    return sigmoid(sum(out * math.tanh(a * point[0] + b * point[1] + c) for a, b, c, out in network))


def learn(network: list[list[float]], point: Point, side: float, rate: float) -> float:
    """Take one step of gradient descent and return the loss before it."""
    active = [math.tanh(a * point[0] + b * point[1] + c) for a, b, c, _ in network]
    guess = sigmoid(sum(unit[3] * value for unit, value in zip(network, active, strict=True)))
    for unit, value in zip(network, active, strict=True):
        gradient = (guess - side) * unit[3] * (1 - value * value)
        unit[3] -= rate * (guess - side) * value
        for index, slope in enumerate((point[0], point[1], 1.0)):
            unit[index] -= rate * gradient * slope
    return -math.log(max(guess if side else 1 - guess, 1e-12))


def sigmoid(value: float) -> float:
    """The logistic function."""
    return 1 / (1 + math.exp(-max(min(value, 60.0), -60.0)))


if __name__ == "__main__":
    print(main())
