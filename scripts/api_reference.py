"""Prints docs/api.md: the public names of `memdir`, from their signatures and docstrings.

python scripts/api_reference.py > docs/api.md
"""

import inspect
import re
import sys
from enum import Enum

import memdir

HEAD = """# API

The public names of `import memdir`, from their docstrings. [library.md](library.md) shows how they work together. Methods that begin with an
underscore, and modules that are not named here, may change.
"""


def render_signature(name: str, value: object) -> str:
    try:
        text = str(inspect.signature(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return name
    text = re.sub(r"<(\w+)\.(\w+): '([^']*)'>", r"'\3'", text)  # an enumeration's value as people write it
    text = re.sub(r"<(?:function|object|class)[^>]*>", "…", text)
    text = re.sub(r"\b(?:memdir|collections\.abc|pathlib)\.(?:\w+\.)*(\w+)", r"\1", text)  # names without their modules
    return name + re.sub(r"Origin\([^()]*(?:\([^()]*\))?[^()]*\)", "Origin()", text)


def render_doc(value: object) -> str:
    return inspect.getdoc(value) or ""


def render_class(name: str, value: type) -> list[str]:
    if issubclass(value, Enum):
        return [f"### {name}", "", render_doc(value), "", "Values: " + ", ".join(f'`"{at.value}"`' for at in value), ""]
    shown = name if issubclass(value, BaseException) else render_signature(name, value)
    lines = [
        f"### {name}",
        "",
        "```python",
        f"class {shown}",
        "```",
        "",
        render_doc(value) or "See the tree of errors.",
        "",
    ]
    if issubclass(value, BaseException):
        return lines[:2] + lines[6:]
    for key in sorted(at for at in dir(value) if not at.startswith("_")):
        method = inspect.getattr_static(value, key)
        if inspect.isfunction(method) and method.__doc__:
            lines += [f"- **`{render_signature(key, method)}`**: {' '.join(render_doc(method).split())}"]
    return [*lines, ""]


def render_reference() -> str:
    names = {name: getattr(memdir, name) for name in memdir.__all__}
    functions = {name: value for name, value in names.items() if not inspect.isclass(value)}
    errors = {name: at for name, at in names.items() if inspect.isclass(at) and issubclass(at, BaseException)}
    classes = {name: at for name, at in names.items() if inspect.isclass(at) and name not in errors}
    lines = [HEAD, "## Functions", ""]
    for name, value in functions.items():
        lines += [
            f"### {name}",
            "",
            "```python",
            render_signature(f"memdir.{name}", value),
            "```",
            "",
            render_doc(value),
            "",
        ]
    lines += ["## Classes", ""]
    for name, value in classes.items():
        lines += render_class(name, value)
    lines += ["## Errors", "", "```text", inspect.getdoc(sys.modules["memdir.errors"]) or "", "```", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(render_reference())
