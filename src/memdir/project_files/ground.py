"""The ground on which instruction files are looked for: the folders on the way, which of them count, what is excluded.

Everything here is found once for a load, from the working directory and the settings files; no instruction file is
opened.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from memdir.claude_settings import read_claude_settings
from memdir.frozen import dataclass
from memdir.gitroot import find_root, is_tracked
from memdir.project_files.globs import expand_braces, match_any
from memdir.project_files.loaded import Layer
from memdir.project_files.reading import is_below
from memdir.settings import Environment

EXCLUDES_KEY = "claudeMdExcludes"
_LOCAL = ".claude/settings.local.json"


@dataclass(frozen=True, slots=True)
class Ground:
    """Paths without links. `free` are the folders in which the project's files may include what they like.

    `outer` is the work tree of the repository around a worktree that is nested in it; empty elsewhere.
    """

    cwd: str
    top: str
    outer: str
    free: tuple[str, ...]
    home: str
    managed: str
    claude_home: str

    def list_folders(self) -> tuple[str, ...]:
        """From the root of the file system to the working directory."""
        return (*(str(folder) for folder in reversed(Path(self.cwd).parents)), self.cwd)

    def is_above(self, folder: str) -> bool:
        """Whether a folder is outside the project, on the way to it."""
        return not is_below(folder, self.top) and not (self.outer and is_below(folder, self.outer))

    def is_copied(self, folder: str) -> bool:
        """Whether what is checked in there is a second copy of what the worktree itself has."""
        return bool(self.outer) and is_below(folder, self.outer) and not is_below(folder, self.top)


@dataclass(frozen=True, slots=True)
class Excludes:
    """Patterns for whole paths. Those that came with a clone do not reach the person's own files."""

    own: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()

    def has(self, layer: Layer, *paths: str) -> bool:
        if layer is Layer.MANAGED:
            return False
        committed = () if layer in (Layer.USER, Layer.USER_RULE) else self.committed
        return any(match_any((*self.own, *committed), path) for path in paths)


def find_ground(environment: Environment, cwd: Path, root: Path) -> Ground:
    """`root` is the project's, as its memory is keyed by."""
    here = os.path.realpath(cwd)
    top = str(find_root(cwd, worktree="own").path)
    main = str(find_root(cwd).path)
    home = os.path.realpath(environment.home)
    # A home kept in git is nobody's project: else whatever lies below it could include all the rest.
    free = tuple(dict.fromkeys(folder for folder in (top, str(root)) if not is_below(home, folder))) or (here,)
    return Ground(
        cwd=here,
        top=top,
        # A bare repository has no work tree, so nothing around its worktrees is checked in.
        outer=main if main != top and is_below(top, main) and os.path.lexists(os.path.join(main, ".git")) else "",
        free=free,
        home=str(environment.home),
        managed=os.path.realpath(environment.managed_dir),
        claude_home=os.path.realpath(environment.claude_home),
    )


def read_excludes(environment: Environment, ground: Ground) -> Excludes:
    """`claudeMdExcludes` of all four settings files together; what is no list of texts counts for nothing."""
    top = Path(ground.top)
    claude = read_claude_settings(environment, top)
    local = tuple(_list_patterns(claude.local.get(EXCLUDES_KEY), ground.home))
    is_committed = bool(local) and is_tracked(top, _LOCAL)
    own = [*_list_patterns(claude.policy.get(EXCLUDES_KEY), ground.home), *(() if is_committed else local)]
    own += _list_patterns(claude.user.get(EXCLUDES_KEY), ground.home)
    committed = [*_list_patterns(claude.project.get(EXCLUDES_KEY), ground.home), *(local if is_committed else ())]
    return Excludes(expand_braces(own), expand_braces(committed))


def _list_patterns(value: object, home: str) -> Iterator[str]:
    """Only patterns for whole paths, as Claude Code compares them."""
    for pattern in value if isinstance(value, list) else ():
        if isinstance(pattern, str) and pattern.startswith(("/", "**", "~/")):
            yield f"{home}/{pattern[2:]}" if pattern.startswith("~/") else pattern


def find_nested(ground: Ground, files: Iterable[str]) -> tuple[str, ...]:
    """The folders below the working directory on the way to these files, outermost first, each once."""
    found: dict[str, None] = {}
    for file in files:
        parents = [str(parent) for parent in reversed(Path(file).parents)]
        found.update(dict.fromkeys(at for at in parents if at != ground.cwd and is_below(at, ground.cwd)))
    return tuple(sorted(found))
