"""Runs a Python function in any container that has Python: unpacks its code, calls it, keeps what it returns.

Standard library only, for Python 3.8 and later: it runs in images that know nothing of Fairlead.
Beside it lie call.json (what to call) and code.tar.gz (the code). In its home it leaves result.json (what the function
returned, or which file of the output has it) or error.json (why it failed). In a pod handover.py lies there too, which
fetches code that is not there and hands over what was left; where a function is served answering.py, which listens.
Imports stand where they are needed: all of them at the top would cost every start 60 ms.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # as in typing, whose import takes 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("FAIRLEAD_HOME") or "/fairlead"
OUTPUT = os.path.abspath(os.environ.get("FAIRLEAD_OUTPUT") or os.path.join(HOME, "output"))
SOCKET = os.environ.get("FAIRLEAD_SOCKET")  # where to listen, on a machine whose ports others could call
PATH = list(sys.path)
LOADED: dict[str, Any] = {}  # of Python's own modules
LARGEST_VALUE = 256 * 1024
LARGEST_TRACEBACK = 64 * 1024
MAX_MESSAGE_BYTES = 8 * 1024
LONGEST_HOME = 16  # with which the address of a kernel's socket is short enough
LIBRARY = os.path.dirname(os.__file__)
LEADING_HERE = (__file__, "<frozen ", os.path.join(LIBRARY, "runpy.py"), os.path.join(LIBRARY, "asyncio", ""))


class Failure(Exception):
    """What the author of a function is told in a sentence, without a traceback."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main() -> None:
    try:
        act()
    except SystemExit as ended:
        if ended.code is not None and not isinstance(ended.code, int):
            write_error("SystemExit", str(ended.code), "")
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        report(error)


def act() -> None:
    """Do what call.json says."""
    with open(os.path.join(HERE, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    folder = os.path.join(HOME, "code")
    for needed in (folder, OUTPUT):
        os.makedirs(needed, exist_ok=True)
    for left in ("result.json", "error.json"):  # by a container that is started again
        if os.path.exists(os.path.join(HOME, left)):
            os.remove(os.path.join(HOME, left))
    os.environ["FAIRLEAD_OUTPUT"] = OUTPUT
    archive = os.path.join(HERE, "code.tar.gz")
    if os.path.exists(os.path.join(HERE, "sidecar.py")):
        archive = enter_pod(call, archive)
    os.chdir(folder)
    if call["source"]:
        unpack(archive, call["digest"], folder)
    source = os.path.join(folder, call["source"] or "")
    sys.path.insert(0, source if os.path.isdir(source) else os.path.dirname(source))
    if call["command"]:
        execute(call["command"] + sys.argv[1:])
    elif call["action"] == "workspace":
        work(call["port"])
    elif not call["source"]:
        raise Failure("SourceMissing", "the function has no source: there is nothing to run")
    elif call["action"] == "serve":
        serve(call)
    elif call["handler"] or source.endswith(".pkl"):
        keep(invoke(find(call)[1], call["inputs"]))
    else:
        sys.argv[0] = source
        standard("runpy").run_path(source, run_name="__main__")


def enter_pod(call: dict[str, Any], archive: str) -> str:
    """Go on as a process of its own, where another one sees to the code and to what this one leaves; the archive."""
    archive, trouble = standard("sidecar").enter(call, archive, HOME, OUTPUT)
    del sys.modules["sidecar"]  # the code may have a file of that name
    if trouble:
        raise Failure("CodeUnavailable", trouble)
    return archive


def unpack(archive: str, digest: str, folder: str) -> None:
    """Unpack the code, after making sure that it is the code that was submitted."""
    try:  # hashlib loads OpenSSL, which takes 5 ms
        sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:
        from hashlib import sha256
    from zlib import decompress

    with open(archive, "rb") as file:
        packed = file.read()
    found = "sha256:" + sha256(packed).hexdigest()
    if found != digest:
        raise Failure("CodeChanged", f"the code is not what was submitted: expected {digest}, found {found}")
    if not unpack_plain(decompress(packed, 31), folder):
        import tarfile

        with tarfile.open(archive) as opened:
            if hasattr(tarfile, "data_filter"):
                opened.extractall(folder, filter="data")
            else:
                opened.extractall(folder)


def unpack_plain(data: bytes, folder: str) -> bool:
    """Unpack plain files; False, and nothing is written, where only tarfile can (long names, links): it takes 10 ms."""
    files, at = [], 0
    while data[at : at + 1].strip(b"\0"):
        name, kind, size = data[at : at + 100].rstrip(b"\0").decode(), data[at + 156], int(data[at + 124 : at + 135], 8)
        if kind != ord("0") or data[at + 345] or name.startswith("/") or ".." in name:
            return False
        files.append((os.path.join(folder, name), int(data[at + 100 : at + 107], 8), at + 512, size))
        at += 512 + (size + 511) // 512 * 512
    for parent in {os.path.dirname(path) for path, *_ in files}:
        os.makedirs(parent, exist_ok=True)
    for path, mode, start, size in files:
        with open(path, "wb") as file:
            file.write(data[start : start + size])
        if mode & 0o100:
            os.chmod(path, 0o755)
    return True


def execute(command: list[str]) -> None:
    """Become another program, in the folder of the code."""
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise Failure("CommandMissing", f"cannot run {command[0]!r}: {error.strerror}") from None


def work(port: int) -> None:
    """Become a notebook server, which shows all that the run sees, and begins in the folder of the code."""
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        missing = "JupyterLab is not in this image: use an image that has it"
        if SOCKET:
            missing = f"JupyterLab is not installed for {sys.executable}: install it there (pip install jupyterlab)"
        raise Failure("CommandMissing", f"{missing}, or say the function's command")
    options = ["--no-browser", "--ServerApp.root_dir=/", f"--ServerApp.preferred_dir={os.getcwd()}"]
    if SOCKET:
        # Nobody else can get to the socket, and whoever comes through the server was asked there who they are.
        options += [f"--ServerApp.sock={os.path.relpath(SOCKET)}", "--ServerApp.sock_mode=0600"]
        options += ["--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.allow_remote_access=True"]
        if len(HOME) <= LONGEST_HOME:  # what kernels tell on ports, everybody on this machine can listen to
            options.append("--KernelManager.transport=ipc")
    else:
        options += ["--ip=0.0.0.0", f"--port={port}"]
    if os.getuid() == 0:
        options.append("--allow-root")
    execute([sys.executable, "-m", "jupyterlab", *options, *sys.argv[1:]])


def standard(name: str) -> Any:
    """A module of the standard library, also where the code has a file of that name."""
    if name not in LOADED:
        kept, sys.path = sys.path, PATH
        try:
            LOADED[name] = __import__(name)
        finally:
            sys.path = kept
    return LOADED[name]


def find(call: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    """The handler and the module it is in: a function of the source file, module:function, or a pickled one."""
    if call["source"].endswith(".pkl"):
        return None, unpickle(call["source"])
    module, _, name = call["handler"].rpartition(":")
    if module and module + ".py" != os.path.basename(call["source"]):
        __import__(module)
        loaded = sys.modules[module]
    else:
        loaded = load(call["source"])
    handler = getattr(loaded, name, None)
    if not callable(handler):
        mine = [key for key, value in vars(loaded).items() if callable(value) and not key.startswith("_")]
        close = standard("difflib").get_close_matches(name, mine, 3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        hint = hint or (f"; it has {', '.join(map(repr, mine[:5]))}" if mine else "")
        raise Failure("HandlerMissing", f"there is no function {name!r} in {module or call['source']!r}{hint}")
    return loaded, handler


def load(source: str) -> Any:
    """A source file as a module, also where it is called as one of Python's own."""
    from importlib.machinery import ModuleSpec, SourceFileLoader

    name, ending = os.path.splitext(os.path.basename(source))
    if ending != ".py":
        raise Failure("HandlerMissing", f"{source!r} is no Python file: say the handler as module:function")
    if name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
        name += "_"
    path = os.path.abspath(source)
    loader = SourceFileLoader(name, path)
    module: Any = type(sys)(name)
    module.__file__, module.__loader__, module.__spec__ = path, loader, ModuleSpec(name, loader, origin=path)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def unpickle(source: str) -> Any:
    """A function that was pickled. Its bytecode is of one Python, which a file beside it names; no other can run it."""
    here = "{}.{}".format(*sys.version_info)
    with open(os.path.join(os.path.dirname(source), ".python-version"), encoding="ascii") as file:
        python = file.read().strip()
    if python != here:
        suggestion = f"use an image with Python {python}, or a source file"
        raise Failure("PythonMismatch", f"pickled with Python {python}, and this is {here}: {suggestion}")
    with open(source, "rb") as file:
        return standard("pickle").load(file)


def invoke(handler: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """What a handler returns, also an asynchronous one."""
    try:
        result = handler(**inputs)
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next is None:  # raised by the call, not inside the function
            refuse_inputs(handler, inputs, error)
        raise
    return standard("asyncio").run(result) if hasattr(type(result), "cr_await") else result


def refuse_inputs(handler: Callable[..., Any], inputs: dict[str, Any], error: TypeError) -> None:
    """Say what the function takes, if that is what is wrong."""
    try:
        signature = standard("inspect").signature(handler)
    except ValueError:  # some functions of C do not say
        return
    try:
        signature.bind(**inputs)
    except TypeError:
        asked = f"{getattr(handler, '__name__', 'function')}{signature}"
        message = f"the inputs do not match the function: {error}; its signature is {asked}"
        raise Failure("InputsMismatch", message) from None


def keep(result: Any) -> None:
    """Write down what the function returned: small JSON itself, anything larger as a file of the output."""
    if isinstance(result, (bytes, bytearray, memoryview)):
        kept = keep_file("result.bin", "bytes", memoryview(result))
    else:
        data = encode(result)
        small = b'{"kind": "json", "value": %b}' % data if len(data) <= LARGEST_VALUE else None
        kept = small or keep_file("result.json", "json", memoryview(data))
    write(os.path.join(HOME, "result.json"), kept)


def keep_file(name: str, kind: str, data: memoryview) -> bytes:
    """Write a file of the output; what to say of it."""
    write(os.path.join(OUTPUT, name), data if data.c_contiguous else data.tobytes())
    return json.dumps({"kind": "file", "path": name, "type": kind, "size": data.nbytes}).encode()


def encode(value: Any) -> bytes:
    """A result as JSON."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except RecursionError:
        odd = "result is nested too deeply"
    except (TypeError, ValueError) as error:
        odd = locate(value, "result", ()) or str(error)
    suggestion = "return JSON, bytes, or write files to $FAIRLEAD_OUTPUT"
    raise Failure("ResultNotJSON", f"the function returned something that is not JSON: {odd}; {suggestion}")


def locate(value: Any, path: str, above: tuple[int, ...]) -> str:
    """What in a value is not JSON, and where; nothing where all is."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if id(value) in above:
        return f"{path} contains itself"
    if isinstance(value, float):
        return "" if value - value == 0 else f"{path} is {value}"
    if value is not None and not isinstance(value, (int, str, dict, list, tuple)):
        return f"{path} is {name_type(value)}"
    for key, item in inside:
        if key is not None and not isinstance(key, (str, int, float)):
            return f"{path} has a key that is {name_type(key)}"
        place = f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
        found = locate(item, place, (*above, id(value)))
        if found:
            return found
    return ""


def name_type(value: Any) -> str:
    """The type of a value, with its article."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def write(path: str, data: bytes | memoryview) -> None:
    """Write a file that is there as a whole or not at all."""
    with open(path + ".tmp", "wb") as file:
        file.write(data)
    os.replace(path + ".tmp", path)


def report(error: BaseException) -> NoReturn:
    """Tell of a failure as Python does, less the frames that lead to the function; write it down; end."""
    if isinstance(error, Failure):
        sys.stderr.write(f"{error}\n")
        write_error(error.kind, str(error), "")
        sys.exit(1)
    lines = list_trace(error)
    sys.excepthook(type(error), error, error.__traceback__)
    write_error(type(error).__name__, tell(error, lines), "".join(lines))
    sys.exit(1)


def list_trace(error: BaseException) -> list[str]:
    """The lines of a traceback, from here on less the frames that lead to the function."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename.startswith(LEADING_HERE):
        frames = frames.tb_next
    lines: list[str] = standard("traceback").format_exception(type(error), error.with_traceback(frames), frames)
    return lines


def tell(error: BaseException, lines: list[str]) -> str:
    """What an error says; where it cannot, what Python says of it."""
    try:
        return str(error)
    except Exception:
        return lines[-1].strip()


def write_error(kind: str, message: str, trace: str) -> None:
    """Write down why the function failed: the beginning of what was said, the end of how it came to that."""
    message, tail = message[:MAX_MESSAGE_BYTES], trace.encode(errors="replace")[-LARGEST_TRACEBACK:]
    told = {"type": kind, "message": message, "traceback": tail.decode(errors="ignore")}
    try:
        write(os.path.join(HOME, "error.json"), json.dumps(told, ensure_ascii=False).encode(errors="replace"))
    except OSError as error:
        sys.stderr.write(f"cannot write error.json: {error}\n")


def serve(call: dict[str, Any]) -> None:
    """Answer each POST of a JSON object by calling the handler with it; call init() once before."""
    function_server = standard("function_server")
    del sys.modules["function_server"]
    for name in ("asyncio", "inspect", "traceback"):  # or calls that come at once would change sys.path at once
        standard(name)
    module, handler = find(call)
    init = getattr(module, "init", None)
    if callable(init):
        invoke(init, call["inputs"])
    elif call["inputs"]:
        message = "inputs are for init(), and there is no such function beside the handler"
        raise Failure("InputsMismatch", message)
    function_server.listen(lambda inputs: respond(handler, inputs), call["port"], SOCKET)


def respond(handler: Callable[..., Any], inputs: dict[str, Any]) -> tuple[int, bytes]:
    """The status and body of an answer. Whatever a call does, it does not end the others."""
    try:
        return 200, encode(invoke(handler, inputs))
    except Failure as failure:
        sys.stderr.write(f"{failure}\n")
        status, told = 400 if failure.kind == "InputsMismatch" else 500, f"{failure.kind}: {failure}"
    except BaseException as error:
        lines = list_trace(error)
        sys.stderr.write("".join(lines))
        status, told = 500, f"{type(error).__name__}: {tell(error, lines)}"
    return status, json.dumps({"error": told[:MAX_MESSAGE_BYTES]}).encode(errors="replace")


if __name__ == "__main__":
    main()
