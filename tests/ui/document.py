"""The OpenAPI document for the web UI's types. As a program: updates ui/openapi.json."""

import json
from typing import cast

from fairlead.server.application import create_application
from fairlead.services.registry import Services
from tests.architecture.modules import ROOT

FILE = ROOT / "ui" / "openapi.json"


def render() -> str:
    """The current server's OpenAPI document. Generating it needs no services."""
    app = create_application(cast(Services, None), check_ready=lambda: None, make_id=str)
    return json.dumps(app.openapi(), indent=1) + "\n"


def main() -> None:
    """Update the file and print whether it changed."""
    text = render()
    changed = text != FILE.read_text("utf-8")
    FILE.write_text(text, "utf-8")
    print(f"ui/openapi.json: {'updated' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
