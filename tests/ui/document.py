"""The OpenAPI document that the types of the web page are made from. As a program: writes it anew."""

import json
from typing import cast

from fairlead.server.applications import create_application
from fairlead.server.request_context import Services
from tests.architecture.modules import ROOT

FILE = ROOT / "ui" / "openapi.json"


def render() -> str:
    """The document of the server as it is, as text. To describe itself, an application needs no services."""
    app = create_application(cast(Services, None), check_ready=lambda: None, make_id=str)
    return json.dumps(app.openapi(), indent=1) + "\n"


def main() -> None:
    """Say whether it changed."""
    text = render()
    changed = text != FILE.read_text("utf-8")
    FILE.write_text(text, "utf-8")
    print(f"ui/openapi.json{': written anew' if changed else ' is as it was'}")


if __name__ == "__main__":
    main()
