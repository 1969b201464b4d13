"""What a project's manifests name: scripts of package.json, targets of Makefiles, entry points, dependencies.

Read forgivingly: a manifest that cannot be parsed names nothing. Nothing is run to know more.
"""

import json
import re
import tomllib
from collections.abc import Iterator

from memdir.frozen import dataclass, field
from memdir.verify.project import Project
from memdir.verify.words import read_entry

_TARGET = re.compile(
    r"^@?([A-Za-z0-9_./%-]+(?:[ \t]+[A-Za-z0-9_./%-]+)*)(?:[ \t]+[^:=\n]*)?[ \t]*::?(?!=)", re.MULTILINE
)
_PHONY = re.compile(r"^\.PHONY[ \t]*:[ \t]*(.+)$", re.MULTILINE)
_PACKAGE = re.compile(r"@?[A-Za-z0-9][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)*")
_DEPENDING = re.compile(
    r"(?:^|/)(?:package\.json|pyproject\.toml|setup\.(?:py|cfg)|requirements[^/]*\.(?:txt|in)|constraints[^/]*\.txt|Pipfile|"
    r"environment\.ya?ml|Cargo\.toml|go\.mod|Gemfile|[^/]+\.gemspec|composer\.json|pom\.xml|build\.gradle(?:\.kts)?|"
    r"pubspec\.yaml|mix\.exs|Package\.swift|deno\.jsonc?|[^/]+\.csproj)\Z"
)
_MAKEFILE = re.compile(r"(?:^|/)(?:GNUm|M|m)akefile\Z|\.mk\Z")
_JUSTFILE = re.compile(r"(?:^|/)\.?[Jj]ustfile\Z")
_SCRIPT_TABLES = (
    ("project", "scripts"),
    ("project", "gui-scripts"),
    ("tool", "poetry", "scripts"),
    ("tool", "pdm", "scripts"),
    ("tool", "poe", "tasks"),
)
_MANIFESTS = 400  # read at most; the largest monorepos have as many packages


@dataclass(frozen=True, slots=True)
class Manifests:
    """`scripts` by `tool:name` (npm:build, make:test, script:memdir) to the file; `packages` folded, to the file."""

    scripts: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)


def is_manifest(path: str) -> bool:
    return bool(_DEPENDING.search(path) or _MAKEFILE.search(path) or _JUSTFILE.search(path))


def fold_package(name: str) -> str:
    return name.lower().replace("_", "-")


def read_manifests(project: Project) -> Manifests:
    scripts: dict[str, str] = {}
    packages: dict[str, str] = {}
    paths = sorted((path for path in project.entries if is_manifest(path)), key=lambda path: (path.count("/"), path))
    for path in paths[:_MANIFESTS]:
        text = (read_entry(project.root, project.entries[path]) or b"").decode("utf-8", "replace")
        for script in _read_scripts(path, text):
            scripts.setdefault(script, path)
        if _DEPENDING.search(path):
            for match in _PACKAGE.finditer(text):
                packages.setdefault(fold_package(match[0]), path)
    return Manifests(scripts, packages)


def _read_scripts(path: str, text: str) -> Iterator[str]:
    if _MAKEFILE.search(path) or _JUSTFILE.search(path):
        tool = "just" if _JUSTFILE.search(path) else "make"
        for match in _TARGET.finditer(text):
            yield from (f"{tool}:{name}" for name in match[1].split())
        for match in _PHONY.finditer(text):
            yield from (f"{tool}:{name}" for name in match[1].split())
    elif path.endswith("package.json"):
        yield from (f"npm:{name}" for name in _table(_parse_json(text), "scripts"))
        yield from (f"script:{name}" for name in _table(_parse_json(text), "bin"))
    elif path.endswith("pyproject.toml"):
        found = _parse_toml(text)
        for keys in _SCRIPT_TABLES:
            yield from (f"script:{name}" for name in _table(found, *keys))


def _table(found: object, *keys: str) -> dict[str, object]:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parse_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
