"""The demo corpus: the docstrings of the running Python's standard library.

Modules are read, not run: documents come from the source files through `ast`. Only the few
modules written in C that have no side effects and need no other library are imported, because
their docstrings are nowhere else.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import os
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from leafwise.exceptions import CorpusError

STDLIB = Path(sysconfig.get_path("stdlib"))

# The table of contents of the library reference (3.11 to 3.14): section -> modules. "|" marks
# where a compound name falls into words: "zip|file" is the module zipfile with the keywords
# zipfile, zip and file. Where the versions put a module in different sections, the newest counts.
# Left out: builtins, __main__, test and IDLE, and the modules that were removed in 3.12 and 3.13,
# so that the demo's tree is nearly the same on every Python.
SECTIONS: dict[str, str] = {
    "Text Processing Services": """string string.template|lib re diff|lib text|wrap unicode|data
        string|prep readline rl|completer""",
    "Binary Data Services": "struct codecs",
    "Data Types": """datetime zone|info calendar collections collections.abc heap|q bisect array
        weak|ref types copy p|print repr|lib enum graph|lib""",
    "Numeric and Mathematical Modules": "numbers math c|math decimal fractions random statistics",
    "Functional Programming Modules": "iter|tools func|tools operator",
    "File and Directory Access": """path|lib os.path stat file|cmp temp|file glob fn|match
        line|cache sh|util""",
    "Data Persistence": "pickle copy|reg shelve marshal dbm sqlite3",
    "Data Compression and Archiving": """compression compression.zstd zlib gzip bz2 lzma zip|file
        tar|file""",
    "File Formats": "csv config|parser toml|lib net|rc plist|lib",
    "Cryptographic Services": "hash|lib hmac secrets",
    "Generic Operating System Services": """os io time logging logging.config logging.handlers
        platform errno c|types""",
    "Command-Line Interface Libraries": """arg|parse opt|parse get|pass file|input curses
        curses.text|pad curses.ascii curses.panel cmd""",
    "Concurrent Execution": """threading multiprocessing multiprocessing.shared_memory
        concurrent.futures concurrent.interpreters sub|process sched queue context|vars _thread""",
    "Networking and Interprocess Communication": """async|io socket ssl select selectors signal
        m|map""",
    "Internet Data Handling": """email email.message email.parser email.generator email.policy
        email.errors email.header|registry email.content|manager email.mime email.header
        email.charset email.encoders email.utils email.iterators json mail|box mime|types base64
        bin|ascii quo|pri""",
    "Structured Markup Processing Tools": """html html.parser html.entities xml
        xml.etree.Element|Tree xml.dom xml.dom.mini|dom xml.dom.pull|dom xml.sax xml.sax.handler
        xml.sax.sax|utils xml.sax.xml|reader xml.parsers.expat""",
    "Internet Protocols and Support": """web|browser wsgi|ref urllib urllib.request urllib.response
        urllib.parse urllib.error urllib.robot|parser http http.client ftp|lib pop|lib imap|lib
        smtp|lib uuid socket|server http.server http.cookies http.cookie|jar xmlrpc.client
        xmlrpc.server ip|address""",
    "Multimedia Services": "wave color|sys",
    "Internationalization": "get|text locale",
    "Graphical User Interfaces with Tk": """tk|inter tkinter.color|chooser tkinter.font
        tkinter.message|box tkinter.scrolled|text tkinter.dnd tkinter.ttk turtle""",
    "Development Tools": "typing py|doc doc|test unit|test unittest.mock",
    "Debugging and Profiling": """bdb fault|handler pdb time|it trace trace|malloc profile c|Profile
        p|stats""",
    "Software Packaging and Distribution": "ensure|pip venv zip|app",
    "Python Runtime Services": """sys sys|config warnings data|classes context|lib abc at|exit
        trace|back __future__ gc inspect annotation|lib site""",
    "Custom Python Interpreters": "code code|op",
    "Importing Modules": """zip|import pkg|util module|finder run|py import|lib importlib.resources
        importlib.metadata""",
    "Python Language Services": """ast sym|table token keyword token|ize tab|nanny py|clbr
        py_compile compile|all dis pickle|tools""",
    "MS Windows Specific Services": "msvcrt win|reg win|sound",
    "Unix Specific Services": "sh|lex posix pwd grp term|ios tty pty fcntl resource sys|log",
    "Superseded Modules": "get|opt",
}

# Source files that hold what the reference describes under another name.
SOURCES = {
    "_collections_abc": "collections.abc",
    "_py_abc": "abc",
    "_py_warnings": "warnings",
    "_pydatetime": "datetime",
    "_pydecimal": "decimal",
    "_pyio": "io",
    "_strptime": "time",
    "_threading_local": "threading",
    "_weakrefset": "weakref",
    "genericpath": "os.path",
    "ntpath": "os.path",
    "opcode": "dis",
    "posixpath": "os.path",
}

# Modules in C to import, and what the reference calls them. All come with the interpreter itself
# and do nothing when imported (readline, for one, would touch the terminal).
COMPILED = {
    "_codecs": "codecs",
    "_contextvars": "contextvars",
    "_csv": "csv",
    "_functools": "functools",
    "_signal": "signal",
    "_socket": "socket",
    "_struct": "struct",
    "_thread": "_thread",
    "_tracemalloc": "tracemalloc",
    "array": "array",
    "atexit": "atexit",
    "binascii": "binascii",
    "cmath": "cmath",
    "faulthandler": "faulthandler",
    "fcntl": "fcntl",
    "gc": "gc",
    "grp": "grp",
    "itertools": "itertools",
    "marshal": "marshal",
    "math": "math",
    "mmap": "mmap",
    "msvcrt": "msvcrt",
    "nt": "os",
    "posix": "os",
    "pwd": "pwd",
    "pyexpat": "xml.parsers.expat",
    "resource": "resource",
    "select": "select",
    "sys": "sys",
    "syslog": "syslog",
    "termios": "termios",
    "time": "time",
    "unicodedata": "unicodedata",
    "winreg": "winreg",
    "winsound": "winsound",
    "zlib": "zlib",
}

MIN_WORDS = 8  # a shorter docstring ("Return the base class.") says too little about its module


def sections() -> dict[str, dict[str, tuple[str, ...]]]:
    """The reference's table of contents: section -> module -> the words of the module's name."""
    return {
        section: {
            entry.replace("|", ""): _words(entry.replace("|", ""), entry)
            for entry in entries.split()
        }
        for section, entries in SECTIONS.items()
    }


def section_words(section: str) -> tuple[str, ...]:
    """The words of a section's title."""
    return tuple(word for word in _words(section) if word not in ("and", "with"))


def docstrings(stdlib: Path = STDLIB) -> Iterator[tuple[str, str, str]]:
    """Yield (module of the reference, id, text) for each document, in a fixed order.

    A docstring that is short, or that its module has already had, is no document; nor is the
    second of two definitions of one name.
    """
    seen: set[tuple[str, str]] = set()
    for owner, name, text in _all_docstrings(stdlib):
        keys = {(owner, text), ("id", name)}
        if keys.isdisjoint(seen) and len(re.findall(r"[^\W\d_]{2,}", text)) >= MIN_WORDS:
            seen |= keys
            yield owner, name, text


def _all_docstrings(stdlib: Path) -> Iterator[tuple[str, str, str]]:
    modules = {module for section in sections().values() for module in section}
    files = list(_source_files(stdlib, {module.split(".")[0] for module in modules}))
    if not files:
        raise CorpusError(
            f"This Python has no standard library source files in {stdlib}. The demo corpus is "
            "made from them; use a Python that comes with its .py files."
        )
    for name, path in files:
        owner = SOURCES.get(name) or _owner(name, modules)
        if owner is not None:
            for qualname, text in _source_docstrings(path):
                yield owner, f"{name}:{qualname}", text.strip()
    for name, owner in COMPILED.items():
        for qualname, text in _compiled_docstrings(name):
            yield owner, f"{name}:{qualname}", text.strip()


def _words(*names: str) -> tuple[str, ...]:
    """The distinct words of some names, in order."""
    words = (word for name in names for word in re.split(r"[\W_]+", name.lower()))
    return tuple(dict.fromkeys(word for word in words if len(word) > 1))


def _owner(module: str, modules: set[str]) -> str | None:
    """The nearest package of a module that the reference lists: json for json.decoder."""
    while module not in modules:
        module, dot, _ = module.rpartition(".")
        if not dot:
            return None
    return module


def _source_files(stdlib: Path, top_level: set[str]) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, file) for the modules and packages of the reference, sorted."""
    for name in sorted(top_level | SOURCES.keys()):
        if (stdlib / f"{name}.py").is_file():
            yield name, stdlib / f"{name}.py"
        for folder, folders, files in os.walk(stdlib / name):
            folders[:] = sorted(f for f in folders if f not in ("__pycache__", "test", "tests"))
            package = ".".join(Path(folder).relative_to(stdlib).parts)
            for file in sorted(files):
                if file == "__init__.py":
                    yield package, Path(folder, file)
                elif file.endswith(".py") and file != "__main__.py":
                    yield f"{package}.{file.removesuffix('.py')}", Path(folder, file)


def _parse(path: Path) -> ast.Module:
    # A syntax tree is many objects at once and none is garbage: without the collector it takes
    # half the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_bytes())
    finally:
        if collecting:
            gc.enable()


def _source_docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (qualified name, docstring) for a file's module, public classes and functions."""
    tree = _parse(path)
    text = ast.get_docstring(tree)
    if text:
        yield "", text
    stack: list[tuple[str, ast.AST]] = [("", tree)]
    while stack:
        prefix, node = stack.pop()
        nested: list[tuple[str, ast.AST]] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                if child.name.startswith("_"):
                    continue
                text = ast.get_docstring(child)
                if text:
                    yield prefix + child.name, text
                if isinstance(child, ast.ClassDef):
                    nested.append((f"{prefix}{child.name}.", child))
            elif isinstance(child, ast.If | ast.Try | ast.ExceptHandler | ast.With):
                nested.append((prefix, child))  # definitions under a condition
        stack += reversed(nested)


def _compiled_docstrings(name: str) -> Iterator[tuple[str, str]]:
    """The same for a module in C; nothing where this platform lacks it."""
    try:
        module = importlib.import_module(name)
    except ImportError:
        return
    members: list[tuple[str, object]] = [("", module)]
    for name, value in sorted(vars(module).items()):
        if inspect.isbuiltin(value):
            members.append((name, value))
        elif inspect.isclass(value) and value.__module__ != "builtins":
            members.append((name, value))
            members += [
                (f"{name}.{key}", member)
                for key, member in sorted(vars(value).items())
                if inspect.ismethoddescriptor(member)
            ]
    for qualname, member in members:
        # Programs replace the hooks of sys with their own, so those are no fixed documents.
        public = not qualname.endswith("hook") and "._" not in f".{qualname}"
        if public and member.__doc__:
            yield qualname, inspect.cleandoc(member.__doc__)
