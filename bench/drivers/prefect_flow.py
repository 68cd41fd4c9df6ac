"""The trivial function as a Prefect flow, served when executed as a program. Runs in Prefect's environment."""

from prefect import flow  # type: ignore[import-not-found]


@flow(name="tiny")  # type: ignore[untyped-decorator]
def tiny() -> int:
    """Do almost nothing."""
    return 1 + 1


if __name__ == "__main__":
    # Prefect's default limit is 5; without a limit, `serve` would start the processes of all runs at once.
    tiny.serve(name="tiny", limit=5, pause_on_shutdown=False)
