"""Who wrote what a team shares: `<state>/team-authors.json`, by the memory's name, as the last sync found it.

Authors come from commits and from this machine's own acts, never from the text of a memory: anybody may write any name
there. Whatever a commit claims is shown on one line, without control characters.

The file can be deleted and comes back with the next sync. It holds names of memories, so a purge takes them out.

What it does not do: prove that a commit's author is who it says, or sign anything.
"""

import json
import os
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memdir.frozen import dataclass
from memdir.gitroot import CONFIG_BYTES, find_git_dir, parse_config
from memdir.settings import Environment, read_settings
from memdir.small_files import read_small, write_private
from memdir.text import fold, one_line, replace_surrogates, shorten

FILE = "team-authors.json"
OWN = "default"  # the setting's value for "whoever git says I am"
_BYTES = 16_777_216  # tens of thousands of memories
_CHARS = 100  # of a name or an address: enough for any that is one
_SIGNATURE = re.compile(r"\s*(.*?)\s*<([^<>]*)>\s*")


@dataclass(frozen=True, slots=True)
class Author:
    """Who changed a memory last; `when` is the time the commit claims."""

    name: str
    email: str = ""
    when: datetime | None = None


def read_authors(state: Path) -> Mapping[str, Author]:
    """Name of the memory -> author; empty where there is no such file, or none that can be read."""
    data = read_small(state / FILE, _BYTES, follow=False).data
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    rows = table.items() if isinstance(table, dict) else ()
    return {name: author for name, row in rows if (author := _parse_row(row)) is not None}


def write_authors(state: Path, authors: Mapping[str, Author]) -> None:
    """Put these in the place of all that was known; raises DiskError."""
    rows = {
        replace_surrogates(name): {"name": at.name, "email": at.email, "when": at.when and at.when.isoformat()}
        for name, at in sorted((name, make_author(at.name, at.email, at.when)) for name, at in authors.items())
    }
    write_private(state / FILE, json.dumps(rows, indent=1).encode("ascii") + b"\n")


def drop_author(state: Path, name: str) -> None:
    """Take one memory out, for purge."""
    if not os.path.lexists(state / FILE):
        return
    known = read_authors(state)
    kept = {at: author for at, author in known.items() if fold(at) != fold(name)}
    if kept:
        write_authors(state, kept)
    else:  # nothing left, or nothing that can be read: who could say what it holds
        (state / FILE).unlink(missing_ok=True)


def make_author(name: str, email: str = "", when: datetime | None = None) -> Author:
    """An author from whatever a commit claims: each part one printable line, neither too long."""
    return Author(_clean(name) or "unknown", _clean(email), when)


def find_own_author(environment: Environment, root: Path | None) -> Author:
    """Who the person here is: by the setting `author`, else by git's config files, else by the login name."""
    given = read_settings(environment, root=None).text("author")
    if given != OWN:
        signature = _SIGNATURE.fullmatch(given)
        return make_author(signature[1], signature[2]) if signature else make_author(given)
    known: dict[str, str] = {}
    for path in _list_configs(environment, root):
        data = read_small(path, CONFIG_BYTES).data or b""
        known |= {key: value for key, value in parse_config(data.decode("utf-8", "replace"), "user") if value}
    return make_author(known.get("name") or _find_login(environment), known.get("email", ""))


def _list_configs(environment: Environment, root: Path | None) -> list[Path]:
    """Git's own order, the last word last. Files that one of them includes are not read."""
    git_dir = find_git_dir(root) if root is not None else None
    paths = [environment.config_file.parent.parent / "git" / "config", environment.home / ".gitconfig"]
    return [*paths, git_dir / "config"] if git_dir is not None else paths


def _find_login(environment: Environment) -> str:
    try:
        import pwd  # here, because Windows has no such module

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return environment.home.name


def _clean(text: str) -> str:
    return shorten(one_line(replace_surrogates(text)), _CHARS)


def _parse_row(row: object) -> Author | None:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    email, when = row.get("email"), row.get("when")
    try:
        at = datetime.fromisoformat(when) if isinstance(when, str) else None
    except ValueError:
        at = None
    return make_author(row["name"], email if isinstance(email, str) else "", at)
