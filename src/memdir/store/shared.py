"""What others will read, and what may not come into it: no secret, and nothing about a person.

Asked of the changes of every act, whatever way it came: save, edit, promote, approve, undo, restore, sync. It knows
no file; the changes are those that `plan` and `rewind` made.
"""

from memdir import frontmatter
from memdir.errors import FormatError, SecretError, SettingsError
from memdir.records import Header, Kind, Scope
from memdir.store.plan import TEAM_FOLDER, Planned, Rules, decode
from memdir.text import fold


def check_shared(changes: list[Planned], rules: Rules) -> list[Planned]:
    """The changes as they are; raises for a secret that would come into what a team shares, or for a `user` memory.

    A secret that was there already is no reason to refuse another change; the index and `doctor` must still be mended.
    """
    for planned in changes:
        if planned.after is not None and is_shared(planned.path, rules):
            name = planned.path.removesuffix(".md")
            _check_not_about_user(name, planned)
            _check_secrets(name, "", "its name", rules)
            _check_secrets(decode(planned.after), decode(planned.before or b""), planned.path, rules)
    return changes


def is_shared(path: str, rules: Rules) -> bool:
    """Whether others will read this file, or the memory of this name."""
    return rules.shared or rules.scope in (Scope.TEAM, Scope.PROJECT) or is_team(path)


def is_team(path: str) -> bool:
    """Whether a file, or a memory by its name, lies in the team's folder."""
    # Folded: where the file system knows no case, `Team/` is the same folder.
    folder, slash, _ = path.partition("/")
    return bool(slash and fold(folder) == TEAM_FOLDER)


def find_unfit(header: Header, rules: Rules) -> str:
    """Why no line of an index that others read may tell of a memory that lies there; empty where one may."""
    if not is_shared(header.file, rules):
        return ""
    if header.kind is Kind.USER:
        return "it is about a person"
    try:
        _check_secrets(f"{header.title} {header.description}", "", header.file, rules)
    except SecretError:
        return "its head holds a secret"
    except SettingsError:
        return "secrets cannot be looked for"
    return ""


def _check_not_about_user(name: str, planned: Planned) -> None:
    if planned.is_index or frontmatter.parse_fields(decode(planned.after or b"")).kind is not Kind.USER:
        return
    raise FormatError(
        f"{name} is about a person, and what others share may hold no user memory",
        field="type",
        hint="keep it private, or save what the team needs of it as feedback or project",
    )


def _check_secrets(text: str, before: str, place: str, rules: Rules) -> None:
    # Imported here: only what a team shares is searched, and recall has no time for it.
    from memdir.secrets import find_secrets, render_findings

    find = rules.find or find_secrets
    known = {before[at.start : at.end] for at in find(before)} if before else set()
    found = [at for at in find(text) if text[at.start : at.end] not in known]
    if found:
        said = render_findings(found, place=place)
        more = f" and {len(said) - 3} more" if len(said) > 3 else ""
        raise SecretError(
            f"team memory may not hold secrets: {', '.join(said[:3])}{more}",
            findings=said,
            hint="say where it is kept instead; docs/secrets.md tells how to allow what is none",
        )
