"""Memories of other tools, projects and machines, brought into this store.

    source --sources--> pile --readers--> candidates --planning--> steps --applying--> one act, and the inbox

One small reader a format: `claude_code` (memory directories), `own` (memdir's JSON lines), `instruction_files`
(AGENTS.md, GEMINI.md), `codex`, `mcp_memory`, `mem0`, `chatgpt`. `piles` reads folders and archives without trusting
them, `made` words what is no memory file yet, `facts` tells facts from instructions, `matching` knows what is there.

Nothing is written before `apply_import`; no tool's own files are ever changed.
"""

from memdir.importing.applying import apply_import
from memdir.importing.planning import plan_import
from memdir.importing.records import Candidate, Fate, Format, Found, Imported, ImportPlan, Step
from memdir.importing.sources import Ground, read_sources

__all__ = [
    "Candidate",
    "Fate",
    "Format",
    "Found",
    "Ground",
    "ImportPlan",
    "Imported",
    "Step",
    "apply_import",
    "plan_import",
    "read_sources",
]
