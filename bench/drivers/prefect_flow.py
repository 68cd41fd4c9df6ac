"""The trivial function as a flow of Prefect and, as a program, what serves it. Runs in Prefect's environment."""

from prefect import flow  # type: ignore[import-not-found]


@flow(name="tiny")  # type: ignore[untyped-decorator]
def tiny() -> int:
    """What every run does."""
    return 1 + 1


if __name__ == "__main__":
    # 5 is what Prefect's runner allows by itself; `serve` would start the processes of all runs at once.
    tiny.serve(name="tiny", limit=5, pause_on_shutdown=False)
