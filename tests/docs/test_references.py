"""What the pages refer to is there: other pages, headings, files, functions, decisions."""

import pkgutil
import re
from pathlib import Path

import pytest

from tests.docs.pages import FENCE, PAGES, ROOT

SOURCES = ROOT / "src" / "fairlead"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
LONGEST_README = 130
LAYERS = "model|core|files|services|controllers|adapters|server|sdk|cli"

LINKS = [
    (page, target)
    for page in PAGES
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8")))
]
NAMED = [
    (page, word)
    for page in PAGES
    for word in sorted(set(re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text("utf-8")))))
]
FILES = [(page, word) for page, word in NAMED if re.fullmatch(r"[\w./-]+(\.py|/)", word) and not word.startswith("/")]
# Pages for users name files and fields that look like modules.
FUNCTIONS = [
    (page, word)
    for page, word in NAMED
    if page.parent.name != "docs" and re.fullmatch(rf"({LAYERS})(\.\w+)+", word) and not word.endswith(".py")
]


def _short(value: Path | str) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else value


@pytest.mark.parametrize(("page", "target"), LINKS, ids=_short)
def test_a_link_leads_somewhere(page: Path, target: str) -> None:
    if target.startswith("https://"):
        return
    file, _, heading = target.partition("#")
    there = (page.parent / file).resolve() if file else page
    assert there.exists(), f"{page.name}: {target}"
    assert not heading or heading in _headings(there), f"{page.name}: {target}"


@pytest.mark.parametrize(("page", "word"), FILES, ids=_short)
def test_a_file_that_is_named_is_there(page: Path, word: str) -> None:
    places = [ROOT / word, SOURCES / word, page.parent / word, *ROOT.glob(f"examples/*/{word}")]
    assert any(place.exists() for place in places), f"{page.name}: {word}"


@pytest.mark.parametrize(("page", "word"), FUNCTIONS, ids=_short)
def test_a_function_that_is_named_is_there(page: Path, word: str) -> None:
    assert pkgutil.resolve_name(f"fairlead.{word}")  # which imports as much of it as are modules


def test_the_architecture_names_every_folder_of_the_code() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = [folder.parent.name for folder in SOURCES.rglob("__init__.py") if folder.parent != SOURCES]
    assert [name for name in folders if f"{name}/" not in page] == []


def test_decisions_are_numbered_without_gaps() -> None:
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_a_decision_has_its_three_parts_and_is_short(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.startswith(f"# {int(page.name[:4])}. ")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text.splitlines()) <= 30


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= LONGEST_README


def _headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made of them when the page is shown."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
