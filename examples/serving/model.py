"""A model that is served over HTTP: a formula for the two half-moons of the training example."""

import math

WEIGHTS: dict[str, float] = {}


def init(sharpness: float = 4.0) -> None:
    """Load the model once, before the first request."""
    WEIGHTS["sharpness"] = sharpness


def predict(x: float, y: float) -> dict[str, float]:
    """The probability that a point belongs to the upper moon."""
    height = y - 0.25 + 0.5 * math.cos(math.pi * x)
    return {"upper": round(1 / (1 + math.exp(-WEIGHTS["sharpness"] * height)), 3)}
