"""`python -m tests.docs.update`: update the command output and example files in the documentation."""

from pathlib import Path

from tests.docs.pages import FENCE, PAGES, ROOT, blocks_of
from tests.docs.servers import render


def main() -> None:
    """Rewrite every page whose blocks are outdated."""
    for page in PAGES:
        old = page.read_text("utf-8")
        new = update(page)
        if new != old:
            page.write_text(new, "utf-8")
            print(f"{page.relative_to(ROOT)}: updated")


def update(page: Path) -> str:
    """The page with the expected content of every block."""
    blocks = blocks_of(page)
    return FENCE.sub(lambda match: f"```{match['info']}\n{render(next(blocks))}```", page.read_text("utf-8"))


if __name__ == "__main__":
    main()
