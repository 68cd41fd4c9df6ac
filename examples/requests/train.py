"""A training run in pure Python: fits y = a * x + b by gradient descent."""


def main(epochs: int = 100, rate: float = 0.1) -> dict[str, float]:
    """Train the model and return the line."""
    points = [(x / 10, 3 * x / 10 + 1) for x in range(20)]
    a = b = 0.0
    for epoch in range(epochs):
        errors = [(x, a * x + b - y) for x, y in points]
        a -= rate * 2 * sum(error * x for x, error in errors) / len(points)
        b -= rate * 2 * sum(error for _, error in errors) / len(points)
        if epoch % 10 == 0:
            print(f"epoch {epoch}: loss {sum(error**2 for _, error in errors) / len(points):.4f}")
    return {"a": round(a, 3), "b": round(b, 3)}
