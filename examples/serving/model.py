"""A model that answers requests: the half-moons of the training example, as a formula."""

import math

WEIGHTS: dict[str, float] = {}


def init(sharpness: float = 4.0) -> None:
    """Load what every answer needs, once."""
    WEIGHTS["sharpness"] = sharpness


def predict(x: float, y: float) -> dict[str, float]:
    """The probability that a point belongs to the upper moon."""
    height = y - 0.25 + 0.5 * math.cos(math.pi * x)
    return {"upper": round(1 / (1 + math.exp(-WEIGHTS["sharpness"] * height)), 3)}
