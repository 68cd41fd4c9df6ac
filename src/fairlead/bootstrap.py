"""Runs a Python function in any container that has Python: unpacks its code, calls it, keeps what it returns.

Standard library only, for Python 3.8 and later: it runs in images that know nothing of Fairlead.
Beside it lie call.json (what to call) and code.tar.gz (the code).
"""

import hashlib
import importlib
import importlib.util
import json
import os
import runpy
import sys
import tarfile
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, List, Tuple  # noqa: UP035

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("FAIRLEAD_HOME", "/fairlead")

Call = Dict[str, Any]  # noqa: UP006


def main() -> None:
    with open(os.path.join(HERE, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    folder = os.path.join(HOME, "code")
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    if call["source"]:
        unpack(os.path.join(HERE, "code.tar.gz"), call["digest"], folder)
    source = os.path.join(folder, call["source"] or "")
    sys.path.insert(0, source if os.path.isdir(source) else os.path.dirname(source))
    if call["command"]:
        execute(call["command"] + sys.argv[1:])
    elif call["action"] == "workspace":
        work(call)
    elif not call["source"]:
        sys.exit("the function has no source: there is nothing to run")
    elif call["action"] == "serve":
        serve(call)
    elif call["handler"]:
        _, handler = find(call)
        keep(handler(**call["inputs"]))
    else:
        sys.argv[0] = source
        runpy.run_path(source, run_name="__main__")


def unpack(archive: str, digest: str, folder: str) -> None:
    """Unpack the code, after making sure that it is the code that was submitted."""
    with open(archive, "rb") as file:
        found = "sha256:" + hashlib.sha256(file.read()).hexdigest()
    if found != digest:
        sys.exit(f"the code is not what was submitted: expected {digest}, found {found}")
    with tarfile.open(archive) as packed:
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, filter="data")
        else:
            packed.extractall(folder)


def execute(command: List[str]) -> None:  # noqa: UP006
    """Become another program, in the folder of the code."""
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]!r}: {error.strerror}")


def work(call: Call) -> None:
    """Become a notebook server, in the folder of the code."""
    if importlib.util.find_spec("jupyterlab") is None:
        sys.exit("JupyterLab is not in this image: use an image that has it, or say the function's command")
    port = f"--port={call['port']}"
    execute([sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=0.0.0.0", port] + sys.argv[1:])  # noqa: RUF005


def find(call: Call) -> Tuple[Any, Callable[..., Any]]:  # noqa: UP006
    """The handler and where it was looked for: a function of the source file, or module:function."""
    module, _, name = call["handler"].rpartition(":")
    loaded = importlib.import_module(module) if module else load(call["source"])
    handler: Any = getattr(loaded, name, None)
    if not callable(handler):
        sys.exit(f"there is no function {name!r} in {module or call['source']!r}")
    return loaded, handler


def load(source: str) -> Any:
    """A source file as a module, also where it is called as one of Python's own."""
    name = os.path.splitext(os.path.basename(source))[0]
    name = name + "_" if name in sys.modules else name
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(source))
    if spec is None or spec.loader is None:
        sys.exit(f"{source!r} is no Python file: say the handler as module:function")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def keep(result: Any) -> None:
    """Write down what the function returned."""
    try:
        text = json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        sys.exit(f"the function returned something that is not JSON: {error}")
    with open(os.path.join(HOME, "result.json"), "w", encoding="utf-8") as file:
        file.write(text)


def serve(call: Call) -> None:
    """Answer each POST of a JSON object by calling the handler with it; call init() once before."""
    module, handler = find(call)
    init = getattr(module, "init", None)
    if callable(init):
        init(**call["inputs"])
    elif call["inputs"]:
        sys.exit("inputs are for init(), and there is no such function beside the handler")

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(200, {"status": "ready"})

        def do_POST(self) -> None:
            try:
                length = int(self.headers.get("Content-Length") or 0)
                if length < 0:
                    raise ValueError("a length is not negative")
                inputs = json.loads(self.rfile.read(length) or b"{}")
                if not isinstance(inputs, dict):
                    raise ValueError("a JSON object is expected")
            except ValueError as error:
                self.answer(400, {"error": str(error)})
                return
            try:
                status, result = 200, json.dumps(handler(**inputs), allow_nan=False)
            except Exception as error:
                traceback.print_exc()
                status, result = 500, json.dumps({"error": f"{type(error).__name__}: {error}"})
            self.write(status, result)

        def answer(self, status: int, value: Any) -> None:
            self.write(status, json.dumps(value))

        def write(self, status: int, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    ThreadingHTTPServer(("0.0.0.0", call["port"]), Requests).serve_forever()


if __name__ == "__main__":
    main()
