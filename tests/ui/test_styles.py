"""The styles of components come one by one, so that only those in use are shipped: none may be forgotten."""

import re

from tests.architecture.modules import ROOT

UI = ROOT / "ui"
IMPORTED = re.compile(r'import \{([^}]*)\} from "@mantine/core"')
STYLED = re.compile(r"@mantine/core/styles/([\w-]+)\.css")


def test_every_component_in_use_has_its_styles() -> None:
    offered = {file.stem for file in (UI / "node_modules/@mantine/core/styles").glob("*.css")}
    shipped = set(STYLED.findall((UI / "src/mantine.css").read_text("utf-8")))
    used = {
        name
        for file in (UI / "src").rglob("*.tsx")
        for names in IMPORTED.findall(file.read_text("utf-8"))
        for name in re.findall(r"\w+", names)
    }
    assert used & offered, "no component is found: is this test looking in the right place?"
    assert sorted(used & offered - shipped) == []
