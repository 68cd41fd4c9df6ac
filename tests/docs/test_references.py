"""References in the pages exist: links, headings, files, functions, decisions."""

import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.architecture.test_repository import PACKAGE_HOSTS
from tests.docs.pages import FENCE, PAGES, ROOT

SOURCES = ROOT / "src" / "fairlead"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
LONGEST_README, LONGEST_DECISION = 130, 30
LAYERS = (
    "model|resolution|planning|manifests|scheduling|lifecycle|files|services|controllers|adapters|server|sdk|cli"
    "|source_code|hosting|run_files|run_tokens|ports"
)

# Everything in the parentheses, including spaces, which a link must not contain.
LINKS = [
    (page, target) for page in PAGES for target in re.findall(r"\]\(([^)]*)\)", FENCE.sub("", page.read_text("utf-8")))
]
URLS = [(page, target) for page, target in LINKS if re.match(r"\w+:|//", target)]
CODE_SPANS = [
    (page, span)
    for page in PAGES
    for span in sorted(set(re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text("utf-8")))))
]
FILES = [
    (page, span) for page, span in CODE_SPANS if re.fullmatch(r"[\w./-]+(\.py|/)", span) and not span.startswith("/")
]
# Pages for users and administrators mention files and fields that look like modules.
FUNCTIONS = [
    (page, span)
    for page, span in CODE_SPANS
    if page.parent.name not in ("docs", "users", "admins", "reference")
    and re.fullmatch(rf"({LAYERS})(\.\w+)+", span)
    and not span.endswith(".py")
]


def test_every_link_has_an_existing_target() -> None:
    internal = [link for link in LINKS if link not in URLS]
    assert len(internal) > 100
    broken = [f"{_path_of(page)}: {target}" for page, target in internal if not _exists(page, target)]
    assert not broken, "\n".join(broken)


def test_every_url_is_well_formed_and_public() -> None:
    """No URL is requested, so this cannot tell whether the page at the other end exists."""
    problems = [f"{_path_of(page)}: {url}: {reason}" for page, url in URLS for reason in _problems_of_url(url)]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.org/a", "use https"),
        ("//example.org/a", "use https"),
        ("https:///a", "the host is missing, invalid or local"),
        ("https://127.0.0.1:8470/", "the host is missing, invalid or local"),
        ("https://localhost/", "the host is missing, invalid or local"),
        ("https://run.localhost/", "the host is missing, invalid or local"),
        ("https://exa_mple.org/", "the host is missing, invalid or local"),
        (f"https://www.{PACKAGE_HOSTS[0]}/simple", "a package registry"),
        ("https://example.org/a b", "escape spaces and characters that are not ASCII"),
    ],
)
def test_bad_urls_are_detected(url: str, reason: str) -> None:
    assert list(_problems_of_url(url)) == [reason]


def test_every_file_that_a_page_names_exists() -> None:
    assert len(FILES) > 50
    missing = [f"{_path_of(page)}: {span}" for page, span in FILES if not _finds_file(page, span)]
    assert not missing, "\n".join(missing)


def test_every_function_that_a_page_names_exists() -> None:
    assert len(FUNCTIONS) > 10
    missing = [f"{_path_of(page)}: {span}" for page, span in FUNCTIONS if not _resolves(f"fairlead.{span}")]
    assert not missing, "\n".join(missing)


def test_the_architecture_names_every_folder_of_the_code() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    folders = [folder.parent.name for folder in SOURCES.rglob("__init__.py") if folder.parent != SOURCES]
    assert [name for name in folders if f"{name}/" not in page] == []


def test_the_architecture_lists_every_module() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    tree = page.partition("\n### Modules\n")[2].partition("```\n")[2].partition("```")[0]
    listed, folder = [], ""
    for name in re.findall(r"^ *\S+", tree, re.MULTILINE):
        folder = name if name.endswith("/") else folder
        listed += [] if name.endswith("/") else [f"{folder}{name.strip()}"]
    files = [str(file.relative_to(SOURCES)) for file in SOURCES.glob("*/**/*.py") if file.name != "__init__.py"]
    assert sorted(listed) == sorted(file for file in files if "/migrations/" not in file)


def test_no_term_is_defined_twice() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    terms = (ROOT / "ARCHITECTURE.md").read_text("utf-8").partition("\n## Terms\n")[2].partition("\n## ")[0]
    defined = re.findall(r"^\| ([^|`-][^|]*?) \|", f"{glossary}\n{terms}", re.MULTILINE)
    assert len(defined) > 60
    assert [term for term, count in Counter(defined).items() if count > 1 and term != "term"] == []


def test_decisions_are_numbered_without_gaps() -> None:
    assert DECISIONS
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_every_decision_has_its_three_parts_and_is_short() -> None:
    problems = [f"{page.name}: {reason}" for page in DECISIONS for reason in _problems_of_decision(page)]
    assert not problems, "\n".join(problems)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= LONGEST_README


def _path_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _exists(page: Path, target: str) -> bool:
    file, _, heading = target.partition("#")
    path = (page.parent / file).resolve() if file else page
    return path.exists() and (not heading or heading in _headings(path))


def _problems_of_url(url: str) -> Iterator[str]:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "https":
        yield "use https"
    if not re.fullmatch(r"([a-z0-9-]+\.)+[a-z]{2,}", host) or host.endswith(".localhost"):
        yield "the host is missing, invalid or local"
    if any(host == registry or host.endswith(f".{registry}") for registry in PACKAGE_HOSTS):
        yield "a package registry"
    if not re.fullmatch(r"[!-~]+", url):
        yield "escape spaces and characters that are not ASCII"


def _finds_file(page: Path, span: str) -> bool:
    folders = [ROOT, SOURCES, page.parent, *ROOT.glob("examples/*/")]
    return any((folder / span).exists() for folder in folders)


def _resolves(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def _problems_of_decision(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    if not text.startswith(f"# {int(page.name[:4])}. "):
        yield "the title does not begin with its number"
    if re.findall(r"^## (.+)$", text, re.MULTILINE) != ["Context", "Decision", "Consequence"]:
        yield "the headings are not Context, Decision and Consequence"
    if len(text.splitlines()) > LONGEST_DECISION:
        yield f"longer than {LONGEST_DECISION} lines"


def _headings(page: Path) -> set[str]:
    """The anchors that the headings of a page get when it is rendered."""
    text = FENCE.sub("", page.read_text("utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
        for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }
