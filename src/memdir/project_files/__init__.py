"""The instruction files around a session (the CLAUDE.md family): which are loaded, in which order, and which are not.

From the lowest to the highest; a later file is read as the more particular word:

    managed    CLAUDE.md in the machine's managed folder
    user       CLAUDE.md and rules/**/*.md in Claude Code's own folder
    project    from / down to the working directory, in each folder: CLAUDE.md, .claude/CLAUDE.md,
               .claude/rules/**/*.md, and the person's CLAUDE.local.md
    (the memory's index comes last and is no file of this package)

The rooms: blocks, comments, includes, globs, rules, secrecy and kinds are pure; ground finds the folders and what is
excluded, reading opens one file, loading puts a load together, loaded holds the records and renders them, asking puts
what waits for a person into the inbox.

Instruction files come with a clone, so everything here is untrusted: it is bounded, it is judged by where links really
lead, and it is only ever read. What a text says is not judged: whoever loads it decides what to believe.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from memdir.paths import Places
from memdir.project_files.asking import ask, find_approved
from memdir.project_files.globs import match_any
from memdir.project_files.ground import Ground, find_ground, find_nested, read_excludes
from memdir.project_files.loaded import (
    Layer,
    Loaded,
    LoadedFile,
    PendingRule,
    Reason,
    Refusal,
    join_blocks,
    render_block,
    render_files,
)
from memdir.project_files.loading import Approved, Load
from memdir.project_files.reading import is_below
from memdir.settings import Environment

__all__ = [
    "DISABLED",
    "Approved",
    "Layer",
    "Loaded",
    "LoadedFile",
    "PendingRule",
    "Reason",
    "Refusal",
    "approve_none",
    "ask",
    "find_approved",
    "join_blocks",
    "load_for_reads",
    "load_project_files",
    "render_block",
    "render_files",
]

DISABLED = "CLAUDE_CODE_DISABLE_CLAUDE_MDS"


def approve_none(_: Path) -> bool:
    """The answer where nobody can be asked."""
    return False


def load_project_files(
    environment: Environment, places: Places, cwd: Path, *, approved: Approved = approve_none
) -> Loaded:
    """Everything a session starts with. `approved` is asked, by real path, about files outside the project."""
    if environment.disable_claude_mds:
        return Loaded(disabled=DISABLED)
    ground = find_ground(environment, cwd, places.root.path)
    load = Load(ground, read_excludes(environment, ground), approved)
    why = "it lies in the machine's managed folder"
    load.add_file(os.path.join(ground.managed, "CLAUDE.md"), Layer.MANAGED, why)
    why = "it lies in the person's own folder of Claude Code"
    load.add_file(os.path.join(ground.claude_home, "CLAUDE.md"), Layer.USER, why)
    load.add_rules(os.path.join(ground.claude_home, "rules"), Layer.USER_RULE, ground.top, why)
    for folder in ground.list_folders():
        why = f"it lies in {'the working directory' if folder == ground.cwd else folder}"
        _add_folder(load, ground, folder, why)
    return load.finish()


def load_for_reads(
    environment: Environment,
    places: Places,
    cwd: Path,
    files: Sequence[Path],
    loaded: Loaded,
    *,
    approved: Approved = approve_none,
) -> Loaded:
    """What reading these files adds: rules whose `paths:` match, and the files of folders on the way to them."""
    if loaded.disabled:
        return Loaded(disabled=loaded.disabled)
    ground = find_ground(environment, cwd, places.root.path)
    seen = [file.real for file in loaded.files]
    load = Load(ground, read_excludes(environment, ground), approved, seen=seen)
    paths = [_find_place(ground.cwd, file) for file in files]
    _add_matching(load, loaded.pending, paths)
    known = len(load.finish().pending)
    for folder in find_nested(ground, paths):
        _add_folder(load, ground, folder, f"a file below {folder} was read")
    _add_matching(load, load.finish().pending[known:], paths)
    return load.finish()


def _add_folder(load: Load, ground: Ground, folder: str, why: str) -> None:
    """The files of one folder; around a nested worktree only those that the worktree has no copy of."""
    above = ground.is_above(folder)
    shared = [os.path.join(folder, name) for name in ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules")]
    if ground.is_copied(folder):
        for path in filter(os.path.lexists, shared):
            load.refuse(path, Reason.WORKTREE, why)
    else:
        for path in shared[:2]:
            load.add_file(path, Layer.ABOVE if above else Layer.PROJECT, why)
        load.add_rules(shared[2], Layer.ABOVE if above else Layer.RULE, folder, why)
    load.add_file(os.path.join(folder, "CLAUDE.local.md"), Layer.LOCAL, why)


def _add_matching(load: Load, rules: Sequence[PendingRule], paths: Sequence[str]) -> None:
    for rule in rules:
        for path in paths:
            if is_below(path, rule.base) and (glob := match_any(rule.globs, os.path.relpath(path, rule.base))):
                load.add_pending(rule, f"{path} was read, and `{glob}` matches it")
                break


def _find_place(cwd: str, file: Path) -> str:
    """A file's path with the links of its folders followed, as the ground's own paths are."""
    path = os.path.join(cwd, file)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
