"""The plugin folder of Claude Code: manifest, hooks, MCP server, commands and a skill, from the same table.

`plugin/` in the repository is this with the program's bare name; `python -m memdir.installing.plugin plugin` makes it.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from memdir import __version__
from memdir.hosts.rows import CLAUDE_CODE
from memdir.installing.command import NAME, SHARED, Program, split_words
from memdir.installing.entries import make_group
from memdir.prompts import render_prompt

PLUGIN_FOLDER = "claude-plugin"
_COMMANDS = ("remember", "recall", "dream", "doctor")


def make_plugin(program: Program) -> Mapping[str, str]:
    """Every file of the folder, by its path in it."""
    command, arguments = split_words((*program.words, "mcp"))
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": "A memory that survives the conversation: plain Markdown files, recalled when they matter.",
        "author": {"name": "the memdir authors"},
        "license": "Apache-2.0",
        "keywords": ["memory", "markdown", "recall"],
    }
    hooks = {hook.name: [make_group(CLAUDE_CODE, hook, program)] for hook in CLAUDE_CODE.hooks}
    servers = {NAME: {"command": command, "args": arguments}}
    words = " ".join(program.words)
    texts = {f"commands/{name}.md": render_prompt(f"plugin/{name}", memdir=words) for name in _COMMANDS}
    return {
        ".claude-plugin/plugin.json": _render(manifest),
        "hooks/hooks.json": _render({"description": "memdir: recall, learning and guard", "hooks": hooks}),
        ".mcp.json": _render({"mcpServers": servers}),
        **{path: text + "\n" for path, text in texts.items()},
        "skills/memory/SKILL.md": render_prompt("plugin/skill", memdir=words) + "\n",
    }


def write_plugin(folder: Path, program: Program) -> list[Path]:
    """Write the folder anew; answers the files."""
    written = []
    for path, text in make_plugin(program).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        written.append(target)
    return written


def remove_plugin(folder: Path) -> bool:
    """Take the files out that we have put there, and the folders that are empty then; says whether there were any."""
    found = [folder / path for path in make_plugin(SHARED) if (folder / path).is_file()]
    for path in found:
        path.unlink()
    above = {parent for path in found for parent in path.parents if parent.is_relative_to(folder)}
    for inner in sorted(above, reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
    return bool(found)


def _render(table: Mapping[str, object]) -> str:
    return json.dumps(table, indent=2) + "\n"


if __name__ == "__main__":
    write_plugin(Path(sys.argv[1]), SHARED)
