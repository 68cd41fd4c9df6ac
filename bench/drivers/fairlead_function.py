"""The function that benchmark runs execute."""


def main() -> int:
    """Do almost nothing."""
    return 1 + 1
