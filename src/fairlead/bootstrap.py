"""Runs a Python function in any container that has Python: unpacks its code, calls it, keeps what it returns.

Standard library only, for Python 3.8 and later: it runs in images that know nothing of Fairlead.
Beside it lie call.json (what to call) and code.tar.gz (the code).
"""

import hashlib
import importlib
import json
import os
import runpy
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict  # noqa: UP035

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("FAIRLEAD_HOME", "/fairlead")

Call = Dict[str, Any]  # noqa: UP006


def main() -> None:
    with open(os.path.join(HERE, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    folder = unpack(os.path.join(HERE, "code.tar.gz"), call["digest"])
    os.chdir(folder)
    sys.path.insert(0, folder)
    if call["action"] == "serve":
        serve(call)
    elif call["handler"]:
        keep(find(call)(**call["inputs"]))
    else:
        sys.argv[0] = call["source"]
        runpy.run_path(call["source"], run_name="__main__")


def unpack(archive: str, digest: str) -> str:
    """Unpack the code, after making sure that it is the code that was submitted."""
    with open(archive, "rb") as file:
        found = "sha256:" + hashlib.sha256(file.read()).hexdigest()
    if found != digest:
        sys.exit(f"the code is not what was submitted: expected {digest}, found {found}")
    folder = os.path.join(HOME, "code")
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, filter="data")
        else:
            packed.extractall(folder)
    return folder


def find(call: Call) -> Callable[..., Any]:
    """The handler: a function of the source file, or module:function."""
    module, _, name = call["handler"].rpartition(":")
    module = module or os.path.splitext(call["source"] or "main.py")[0].replace("/", ".")
    loaded = importlib.import_module(module)
    if not callable(getattr(loaded, name, None)):
        sys.exit(f"there is no function {name!r} in module {module!r}")
    handler: Callable[..., Any] = getattr(loaded, name)
    return handler


def keep(result: Any) -> None:
    """Write down what the function returned."""
    try:
        text = json.dumps(result)
    except (TypeError, ValueError) as error:
        sys.exit(f"the function returned something that is not JSON: {error}")
    with open(os.path.join(HOME, "result.json"), "w", encoding="utf-8") as file:
        file.write(text)


def serve(call: Call) -> None:
    """Answer each POST of a JSON object by calling the handler with it; call init() once before."""
    handler = find(call)
    init = getattr(sys.modules[handler.__module__], "init", None)
    if callable(init):
        init(**call["inputs"])

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, {"status": "ready"})

        def do_POST(self) -> None:
            try:
                inputs = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
                if not isinstance(inputs, dict):
                    raise ValueError("a JSON object is expected")
            except ValueError as error:
                self.answer(400, {"error": str(error)})
                return
            try:
                self.answer(200, handler(**inputs))
            except Exception as error:
                self.log_error("%r", error)
                self.answer(500, {"error": f"{type(error).__name__}: {error}"})

        def answer(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    ThreadingHTTPServer(("0.0.0.0", call["port"]), Requests).serve_forever()


if __name__ == "__main__":
    main()
