"""Adapters that let other SDKs use memdir as their memory: one module and one package extra per SDK.

They make no decisions about memory. If its SDK is missing, importing an adapter raises an error that names the extra.
"""

import json
from typing import cast

from memdir.errors import FormatError, MemdirError, SettingsError, hint_extra
from memdir.files import disk_error
from memdir.format.frontmatter import check_description
from memdir.frozen import replace
from memdir.interfaces.tools import TOOLS, ToolSpec, call_tool, render_refusal
from memdir.models.agent import ToolResult
from memdir.records import Origin
from memdir.store.contract import Folder, StoreBase
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.text import as_table, find_forbidden, one_line, parse_json, shorten


def make_missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """Return the error to raise for a failed import, with the extra to install."""
    if (error.name or "").partition(".")[0] == "memdir":
        return error
    message = f"this adapter needs {error.name}, which is not installed: {hint_extra(extra)}"
    return ModuleNotFoundError(message, name=error.name)


class SdkTools:
    """The memory tools for a project and its settings, or for one store with default settings."""

    offers: tuple[ToolSpec, ...] = TOOLS

    def __init__(self, where: StoreBase | Project, *, by: str, session: str = "") -> None:
        if not isinstance(where, Project):
            if not isinstance(where, Folder):
                raise SettingsError("these tools need a store that keeps memories in files", key="store")
            # A separate project with default settings.
            project = open_project(where.root, environ={"HOME": str(where.state)}, directory=where.root)
            project.private.close()
            where = replace(project, private=cast(FileStore, where))
        self._project = where
        self._origin = Origin("agent", f"by {by}", session)

    def call(self, name: str, input: object) -> ToolResult:
        """Call a tool; `input` is a mapping of arguments or its JSON text."""
        if isinstance(input, str | bytes):
            input = parse_json(input or "{}")
        arguments = {str(key): value for key, value in as_table(input).items()}
        try:
            row = call_tool(self._project, name, arguments, origin=self._origin)
        except MemdirError as error:
            return ToolResult(render_refusal(error), refused=True)
        except OSError as error:
            return ToolResult(render_refusal(disk_error(error, error.filename or "")), refused=True)
        return ToolResult(json.dumps(row, ensure_ascii=False))


def describe_text(leaf: str, text: str) -> str:
    """Describe a text for recall by its beginning, preceded by the file name if the beginning alone is too vague."""
    begins = shorten(one_line(text[:2000]).lstrip("#-*> "), 140)
    named = f"What an agent wrote down in {leaf}"
    for line in (begins, f"{named}: {begins}") if begins else ():
        try:
            check_description(line)
        except FormatError:
            continue
        if not find_forbidden(line, lines=False):
            return line
    return named
