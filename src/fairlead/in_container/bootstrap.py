"""Calls a Python function in a container: unpacks its code, calls it and saves its result.

Standard library only, for Python 3.8 and later: it runs in images that do not have Fairlead installed.
Next to it are call.json (what to call) and code.tar.gz (the code). It writes result.json (the result, or the name of an
output file that contains it) or error.json to its home. In a pod, sidecar.py is also next to it and downloads code
that is too large for a ConfigMap, and uploads results. For served functions, function_server.py is next to it.
Imports are inside functions: at the top, they would add 60 ms to every start.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # instead of importing typing, which takes 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

HERE = os.path.dirname(os.path.abspath(__file__))
HOME = os.environ.get("FAIRLEAD_HOME") or "/fairlead"
OUTPUT = os.path.abspath(os.environ.get("FAIRLEAD_OUTPUT") or os.path.join(HOME, "output"))
SOCKET = os.environ.get("FAIRLEAD_SOCKET")  # a private socket, because other users of the machine can reach its ports
# Excludes the folder with the function's code, whose files may have the names of standard modules.
ORIGINAL_PATH = list(sys.path)
LOADED: dict[str, Any] = {}  # modules of the standard library
# Even with JSON escapes, result.json and error.json stay below the 512 KiB that the server reads.
MAX_VALUE_BYTES = 256 * 1024
MAX_TRACEBACK_BYTES = 64 * 1024
MAX_MESSAGE_BYTES = 8 * 1024
MAX_HOME_LENGTH = 16  # up to this length, the socket paths of Jupyter kernels are short enough
LIBRARY = os.path.dirname(os.__file__)
BOOTSTRAP_FRAMES = (__file__, "<frozen ", os.path.join(LIBRARY, "runpy.py"), os.path.join(LIBRARY, "asyncio", ""))


class FunctionError(Exception):
    """A mistake in the function that is reported with a message and no traceback."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main() -> None:
    try:
        run_call()
    except SystemExit as exit_request:
        # Python prints the text of sys.exit("text") itself. The server reads only error.json.
        if exit_request.code is not None and not isinstance(exit_request.code, int):
            write_error("SystemExit", str(exit_request.code), "")
        raise
    except KeyboardInterrupt:
        # Python then kills itself with SIGINT, so the exit code is 130, as for any interrupted program.
        raise
    except BaseException as error:
        report_error(error)


def run_call() -> None:
    """Execute call.json."""
    with open(os.path.join(HERE, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    folder = os.path.join(HOME, "code")
    for path in (folder, OUTPUT):
        os.makedirs(path, exist_ok=True)
    for name in ("result.json", "error.json"):  # left over from before a container restart
        if os.path.exists(os.path.join(HOME, name)):
            os.remove(os.path.join(HOME, name))
    os.environ["FAIRLEAD_OUTPUT"] = OUTPUT
    archive = os.path.join(HERE, "code.tar.gz")
    # This must come before sys.path contains the function's code, because the sidecar process imports modules later.
    if os.path.exists(os.path.join(HERE, "sidecar.py")):
        archive = start_sidecar(call, archive)
    os.chdir(folder)
    if call["source"]:
        unpack(archive, call["digest"], folder)
    source = os.path.join(folder, call["source"] or "")
    sys.path.insert(0, source if os.path.isdir(source) else os.path.dirname(source))
    if call["command"]:
        execute(call["command"] + sys.argv[1:])
    elif call["action"] == "workspace":
        start_jupyterlab(call["port"])
    elif not call["source"]:
        raise FunctionError("SourceMissing", "the function has no source, so there is nothing to run")
    elif call["action"] == "serve":
        serve(call)
    elif call["handler"] or source.endswith(".pkl"):
        save_result(invoke(load_handler(call)[1], call["inputs"]))
    else:
        # run_path() also accepts a folder, and runs the __main__.py in it.
        sys.argv[0] = source
        import_standard("runpy").run_path(source, run_name="__main__")


def start_sidecar(call: dict[str, Any], archive: str) -> str:
    """Continue in a child process of the sidecar; return the path of the code archive."""
    archive, error = import_standard("sidecar").start(call, archive, HOME, OUTPUT)
    del sys.modules["sidecar"]  # the function's code may have a module with that name
    if error:
        raise FunctionError("CodeUnavailable", error)
    return archive


def unpack(archive: str, digest: str, folder: str) -> None:
    """Verify the code's digest and unpack it."""
    try:  # hashlib would load OpenSSL, which takes 5 ms
        sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:
        from hashlib import sha256
    from zlib import decompress

    with open(archive, "rb") as file:
        packed = file.read()
    actual = "sha256:" + sha256(packed).hexdigest()
    if actual != digest:
        raise FunctionError("CodeChanged", f"the code was changed: expected {digest}, found {actual}")
    # 31 window bits: the largest window (15), and 16 for the gzip format.
    if not unpack_plain(decompress(packed, 31), folder):
        import tarfile

        with tarfile.open(archive) as tar:
            # Older patch releases of Python have no filters. Paths outside the folder add no risk there: the code in
            # the archive can write to the same paths.
            if hasattr(tarfile, "data_filter"):
                tar.extractall(folder, filter="data")
            else:
                tar.extractall(folder)


def unpack_plain(data: bytes, folder: str) -> bool:
    """Unpack regular files without tarfile, which takes 10 ms to import.

    Returns False, and writes nothing, if the archive needs tarfile: long names or links.
    """
    files, at = [], 0
    # Offsets in a ustar header: name 0, mode 100, size 124, type 156, prefix of a long name 345.
    # Headers and contents are padded to 512 bytes.
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
    """Replace this process with another program, in the code folder."""
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise FunctionError("CommandMissing", f"cannot run {command[0]!r}: {error.strerror}") from None


def start_jupyterlab(port: int) -> None:
    """Replace this process with JupyterLab, with the whole file system visible, starting in the code folder."""
    from importlib.util import find_spec

    if find_spec("jupyterlab") is None:
        message = "JupyterLab is not installed in this image: use an image that contains it"
        if SOCKET:
            message = f"JupyterLab is not installed for {sys.executable}: install it with pip install jupyterlab"
        raise FunctionError("CommandMissing", f"{message}, or set the function's command")
    options = ["--no-browser", "--ServerApp.root_dir=/", f"--ServerApp.preferred_dir={os.getcwd()}"]
    if SOCKET:
        # Only the server can connect to the socket, and it has authenticated the user. The path is relative, because
        # Unix socket paths are limited to 107 bytes.
        options += [f"--ServerApp.sock={os.path.relpath(SOCKET)}", "--ServerApp.sock_mode=0600"]
        # Remote access: by default, Jupyter accepts only localhost and rejects the run's Host header.
        options += ["--IdentityProvider.token=", "--ServerApp.password=", "--ServerApp.allow_remote_access=True"]
        if len(HOME) <= MAX_HOME_LENGTH:  # any user of this machine could connect to the TCP ports of kernels
            options.append("--KernelManager.transport=ipc")
    else:
        options += ["--ip=0.0.0.0", f"--port={port}"]
    # Jupyter refuses to run as root by default. Here, policies have already decided whether the run may be root.
    if os.getuid() == 0:
        options.append("--allow-root")
    execute([sys.executable, "-m", "jupyterlab", *options, *sys.argv[1:]])


def import_standard(name: str) -> Any:
    """Import a standard library module, even if the function's code has a file with that name."""
    if name not in LOADED:
        path, sys.path = sys.path, ORIGINAL_PATH
        try:
            LOADED[name] = __import__(name)
        finally:
            sys.path = path
    return LOADED[name]


def load_handler(call: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
    """Return the handler and its module: a function in the source file, module:function, or a pickled function."""
    if call["source"].endswith(".pkl"):
        return None, unpickle(call["source"])
    module, _, name = call["handler"].rpartition(":")
    # The source file is loaded by its path: an import would find a standard module with the same name first.
    if module and module + ".py" != os.path.basename(call["source"]):
        __import__(module)
        loaded = sys.modules[module]  # __import__("a.b") returns a
    else:
        loaded = load_module(call["source"])
    handler = getattr(loaded, name, None)
    if not callable(handler):
        functions = [key for key, value in vars(loaded).items() if callable(value) and not key.startswith("_")]
        close = import_standard("difflib").get_close_matches(name, functions, 3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        hint = hint or (f"; it has {', '.join(map(repr, functions[:5]))}" if functions else "")
        raise FunctionError("HandlerMissing", f"no function {name!r} in {module or call['source']!r}{hint}")
    return loaded, handler


def load_module(source: str) -> Any:
    """Load a source file as a module, even if it has the name of a standard module."""
    from importlib.machinery import ModuleSpec, SourceFileLoader

    name, ending = os.path.splitext(os.path.basename(source))
    if ending != ".py":
        raise FunctionError("HandlerMissing", f"{source!r} is not a Python file: set the handler to module:function")
    # Other modules import the standard module under this name.
    if name in sys.modules or name in getattr(sys, "stdlib_module_names", ()):
        name += "_"
    path = os.path.abspath(source)
    loader = SourceFileLoader(name, path)
    module: Any = type(sys)(name)
    module.__file__, module.__loader__, module.__spec__ = path, loader, ModuleSpec(name, loader, origin=path)
    # pickle and the child processes of multiprocessing find the function under this name.
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def unpickle(source: str) -> Any:
    """Load a pickled function. Its bytecode needs the Python version that a file next to it specifies."""
    current = "{}.{}".format(*sys.version_info)
    with open(os.path.join(os.path.dirname(source), ".python-version"), encoding="ascii") as file:
        python = file.read().strip()
    if python != current:
        hint = f"use an image with Python {python}, or a source file"
        raise FunctionError("PythonMismatch", f"pickled with Python {python}, but this is Python {current}: {hint}")
    with open(source, "rb") as file:
        return import_standard("pickle").load(file)


def invoke(handler: Callable[..., Any], inputs: dict[str, Any]) -> Any:
    """Call a handler, which may be asynchronous."""
    try:
        result = handler(**inputs)
    except TypeError as error:
        if error.__traceback__ and error.__traceback__.tb_next is None:  # raised by the call, not inside the function
            check_inputs(handler, inputs, error)
        raise
    # Only coroutines have cr_await, so this check does not need to import inspect.
    return import_standard("asyncio").run(result) if hasattr(type(result), "cr_await") else result


def check_inputs(handler: Callable[..., Any], inputs: dict[str, Any], error: TypeError) -> None:
    """Raise an error that shows the signature if the inputs do not match it."""
    try:
        signature = import_standard("inspect").signature(handler)
    except ValueError:  # some functions written in C have no signature
        return
    try:
        signature.bind(**inputs)
    except TypeError:
        shown = f"{getattr(handler, '__name__', 'function')}{signature}"
        message = f"the inputs do not match the function: {error}; its signature is {shown}"
        raise FunctionError("InputsMismatch", message) from None


def save_result(result: Any) -> None:
    """Write result.json: with the result itself if it is small JSON, otherwise with the name of an output file."""
    if isinstance(result, (bytes, bytearray, memoryview)):
        content = save_output_file("result.bin", "bytes", memoryview(result))
    else:
        data = encode_json(result)
        small = b'{"kind": "json", "value": %b}' % data if len(data) <= MAX_VALUE_BYTES else None
        content = small or save_output_file("result.json", "json", memoryview(data))
    write(os.path.join(HOME, "result.json"), content)


def save_output_file(name: str, kind: str, data: memoryview) -> bytes:
    """Write an output file and return its description as JSON."""
    # Only contiguous memory can be written to a file, and a slice of an array may have gaps.
    write(os.path.join(OUTPUT, name), data if data.c_contiguous else data.tobytes())
    return json.dumps({"kind": "file", "path": name, "type": kind, "size": data.nbytes}).encode()


def encode_json(value: Any) -> bytes:
    """Encode a result as JSON. Raises `FunctionError` if that is not possible."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except RecursionError:
        problem = "result is nested too deeply"
    except (TypeError, ValueError) as error:
        problem = find_non_json(value, "result", ()) or str(error)
    hint = "return JSON or bytes, or write files to $FAIRLEAD_OUTPUT"
    raise FunctionError("ResultNotJSON", f"the function's result is not JSON: {problem}; {hint}")


def find_non_json(value: Any, path: str, parents: tuple[int, ...]) -> str:
    """Describe the first part of a value that is not valid JSON; empty if there is none."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
    if id(value) in parents:
        return f"{path} contains itself"
    if isinstance(value, float):
        # NaN and infinity minus themselves are NaN. math.isfinite() would need an import.
        return "" if value - value == 0 else f"{path} is {value}"
    if value is not None and not isinstance(value, (int, str, dict, list, tuple)):
        return f"{path} is {name_type(value)}"
    for key, item in items:
        if key is not None and not isinstance(key, (str, int, float)):
            return f"{path} has a key that is {name_type(key)}"
        item_path = f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"
        problem = find_non_json(item, item_path, (*parents, id(value)))
        if problem:
            return problem
    return ""


def name_type(value: Any) -> str:
    """Return the type of a value with an indefinite article."""
    name = type(value).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def write(path: str, data: bytes | memoryview) -> None:
    """Write a file atomically."""
    # A process that is killed while it writes must not leave an incomplete result behind.
    with open(path + ".tmp", "wb") as file:
        file.write(data)
    os.replace(path + ".tmp", path)


def report_error(error: BaseException) -> NoReturn:
    """Print a traceback without the bootstrap's frames, write error.json, and exit."""
    if isinstance(error, FunctionError):
        sys.stderr.write(f"{error}\n")
        write_error(error.kind, str(error), "")
        sys.exit(1)
    # This must come first, because it also removes the frames from the exception that the hook prints.
    lines = format_traceback(error)
    # The function may have installed a hook, for example to report errors.
    sys.excepthook(type(error), error, error.__traceback__)
    write_error(type(error).__name__, error_message(error, lines), "".join(lines))
    sys.exit(1)


def format_traceback(error: BaseException) -> list[str]:
    """Return the lines of a traceback without the bootstrap's frames."""
    frames = error.__traceback__
    while frames and frames.tb_frame.f_code.co_filename.startswith(BOOTSTRAP_FRAMES):
        frames = frames.tb_next
    lines: list[str] = import_standard("traceback").format_exception(type(error), error.with_traceback(frames), frames)
    return lines


def error_message(error: BaseException, lines: list[str]) -> str:
    """Return an error's message, or the last line of its traceback if str() fails."""
    try:
        return str(error)
    except Exception:
        return lines[-1].strip()


def write_error(kind: str, message: str, trace: str) -> None:
    """Write error.json, with the beginning of a long message and the end of a long traceback."""
    message, tail = message[:MAX_MESSAGE_BYTES], trace.encode(errors="replace")[-MAX_TRACEBACK_BYTES:]
    content = {"type": kind, "message": message, "traceback": tail.decode(errors="ignore")}
    try:
        write(os.path.join(HOME, "error.json"), json.dumps(content, ensure_ascii=False).encode(errors="replace"))
    except OSError as error:
        # The exit code and the log still show the function's error, which is more useful than this one.
        sys.stderr.write(f"cannot write error.json: {error}\n")


def serve(call: dict[str, Any]) -> None:
    """Serve the handler over HTTP: each POST of a JSON object calls it. Calls init() once before the server starts."""
    function_server = import_standard("function_server")
    del sys.modules["function_server"]
    for name in ("asyncio", "inspect", "traceback"):  # import now: import_standard() is not thread-safe
        import_standard(name)
    module, handler = load_handler(call)
    # A run is ready when its socket accepts connections, so init() must finish before the server listens.
    init = getattr(module, "init", None)
    if callable(init):
        invoke(init, call["inputs"])
    elif call["inputs"]:
        message = "inputs are passed to init(), but the handler's module has no such function"
        raise FunctionError("InputsMismatch", message)
    function_server.serve(lambda inputs: handle_request(handler, inputs), call["port"], SOCKET)


def handle_request(handler: Callable[..., Any], inputs: dict[str, Any]) -> tuple[int, bytes]:
    """Call the handler and return the status and body of the response. Errors never stop the server."""
    try:
        return 200, encode_json(invoke(handler, inputs))
    except FunctionError as error:
        sys.stderr.write(f"{error}\n")
        status, message = 400 if error.kind == "InputsMismatch" else 500, f"{error.kind}: {error}"
    except BaseException as error:
        # This includes SystemExit: one request must not end the server, and its client needs a response.
        lines = format_traceback(error)
        sys.stderr.write("".join(lines))
        status, message = 500, f"{type(error).__name__}: {error_message(error, lines)}"
    return status, json.dumps({"error": message[:MAX_MESSAGE_BYTES]}).encode(errors="replace")


if __name__ == "__main__":
    main()
