"""A model served over HTTP: each POST of a JSON object calls `predict`."""

LINE = {"a": 1.0, "b": 0.0}


def init(a: float, b: float) -> None:
    """Load the model once, with the inputs of the run."""
    LINE.update(a=a, b=b)


def predict(x: float) -> dict[str, float]:
    """Answer one request."""
    return {"y": LINE["a"] * x + LINE["b"]}
