"""Styles are imported per component to ship only those in use. None of them may be missing."""

import re

from tests.architecture.modules import ROOT

UI = ROOT / "ui"
IMPORTED = re.compile(r'import \{([^}]*)\} from "@mantine/core"')
STYLED = re.compile(r"@mantine/core/styles/([\w-]+)\.css")


def test_every_component_in_use_has_its_styles() -> None:
    available = {file.stem for file in (UI / "node_modules/@mantine/core/styles").glob("*.css")}
    shipped = set(STYLED.findall((UI / "src/mantine.css").read_text("utf-8")))
    used = {
        name
        for file in (UI / "src").rglob("*.tsx")
        for names in IMPORTED.findall(file.read_text("utf-8"))
        for name in re.findall(r"\w+", names)
    }
    assert used & available, "no components found, the paths of this test may be outdated"
    assert sorted(used & available - shipped) == []
