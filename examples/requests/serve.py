"""A model behind HTTP: each POST of a JSON object becomes a call of `predict`."""

LINE = {"a": 1.0, "b": 0.0}


def init(a: float, b: float) -> None:
    """Load the model, once, with the inputs of the run."""
    LINE.update(a=a, b=b)


def predict(x: float) -> dict[str, float]:
    """Answer one call."""
    return {"y": LINE["a"] * x + LINE["b"]}
