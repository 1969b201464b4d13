"""The `when:` field of a file: the moments at which a memory is relevant, whatever the prompt says.

    when:
      always: true                        a standing rule, known from the start of a conversation; false: never one
      paths: ["src/**/*.sql"]             globs below the project's root; `**` stands for any number of folders
      commands: ["push\\\\b.*--force"]      regular expressions, searched in a shell command
      content: ["SELECT \\\\*"]             regular expressions, searched in text that is written to a file
      enforce: ask                        or deny, or remind; only a person may set it

Expressions are matched by RE2, which takes time proportional to the text whatever the expression is, so that a hostile one
cannot slow an action. Invalid parts are skipped on reading and refused on writing.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memdir.errors import FormatError
from memdir.frozen import replace
from memdir.limits import WHEN_CHARS, WHEN_ENTRIES
from memdir.records import Enforce, When

if TYPE_CHECKING:
    from memdir.format.fields import FieldValue

PATTERN_KEYS = ("paths", "commands", "content")
_EXPRESSION_BYTES = 131_072  # max size of a compiled expression, which also bounds the time to search a text
_HINT = "lookarounds and backreferences are not supported; `memdir rule --try` tests an expression"


def read_flag(node: object) -> bool:
    return str(node).strip().lower() in ("true", "yes", "on", "1")


def read_when(node: object) -> When:
    """Return the valid part of a `when:` field, given as parsed YAML or a JSON value. Never raises."""
    if not isinstance(node, Mapping):
        return When()
    lists = {key: _read_list(node.get(key)) for key in PATTERN_KEYS}
    room = WHEN_ENTRIES
    for key, patterns in lists.items():
        lists[key] = patterns[:room]
        room -= len(lists[key])
    enforce = str(node.get("enforce") or "").strip().lower()
    can_enforce = enforce in [choice.value for choice in Enforce] and (lists["commands"] or lists["content"])
    said = str(node.get("always")).strip().lower()
    always = read_flag(said) or (False if said in ("false", "no", "off", "0") else None)
    return When(always, **lists, enforce=Enforce(enforce) if can_enforce else None)


def render_when(when: When | None) -> "FieldValue":
    """Return the value to write in the frontmatter, or None to omit the field."""
    values: dict[str, str | tuple[str, ...]] = {}
    if when is not None and when.always is not None:
        values["always"] = str(when.always).lower()
    if when is not None:
        values |= {key: patterns for key in PATTERN_KEYS if (patterns := getattr(when, key))}
        values |= {"enforce": when.enforce.value} if when.enforce else {}
    return values or None


def dump_when(when: When) -> dict[str, object]:
    """Return all parts of the field as JSON values."""
    patterns = {key: list(getattr(when, key)) for key in PATTERN_KEYS}
    return {"always": when.always, **patterns, "enforce": when.enforce and when.enforce.value}


def describe_when(when: When) -> str:
    """Return the field in one line, or "" if it is empty."""
    parts = ["always"] if when.always else ["never at the start"] if when.always is False else []
    parts += [f"{key.removesuffix('s')} {pattern}" for key in PATTERN_KEYS for pattern in getattr(when, key)]
    return ", ".join([*parts, *([f"then {when.enforce.value}"] if when.enforce else [])])


def check_when(when: When) -> None:
    """Raise FormatError if there are too many entries, a pattern is invalid, or `enforce` has no pattern."""
    patterns = [(key, pattern) for key in PATTERN_KEYS for pattern in getattr(when, key)]
    if len(patterns) > WHEN_ENTRIES:
        message = f"too many entries in `when`: {len(patterns)}; the limit is {WHEN_ENTRIES}"
        raise FormatError(message, field="when", hint="keep only the most specific ones")
    for key, pattern in patterns:
        if not pattern.strip() or not pattern.isprintable() or len(pattern) > WHEN_CHARS:
            message = f"invalid entry in `when.{key}`: {pattern[:60]!r}"
            hint = f"use one line of at most {WHEN_CHARS} characters"
            raise FormatError(message, field="when", hint=hint)
        if key == "paths":
            _check_glob(pattern)
        else:
            check_expression(pattern)
    if when.enforce and not (when.commands or when.content):
        hint = "add the commands or the text that it applies to"
        raise FormatError("`enforce` needs `commands` or `content`", field="when", hint=hint)


def check_expression(pattern: str) -> None:
    """Raise FormatError if this is not a valid regular expression, or it matches every text."""
    if compile_expression(pattern).search(""):
        hint = "make it match specific commands or words"
        raise FormatError(f"the regular expression {pattern!r} matches every text", field="when", hint=hint)


def compile_expression(pattern: str, *, ignores_case: bool = False) -> Any:
    """Compile an expression with RE2, with so little memory that a large one is refused. Raises FormatError."""
    # Imported here: reading needs no expressions, and every prompt would load the library.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _EXPRESSION_BYTES
    options.case_sensitive = not ignores_case
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else str(error)
        raise FormatError(f"invalid regular expression {pattern!r}: {reason}", field="when", hint=_HINT) from None


def keep_valid(when: When) -> When | None:
    """Return the valid entries that a model may set, or None if there are none."""
    valid = {key: [one for one in getattr(when, key) if _is_valid(key, one)] for key in PATTERN_KEYS}
    kept = replace(read_when(valid), always=when.always or None)
    return kept if kept.always or kept.has_patterns else None


def _is_valid(key: str, pattern: str) -> bool:
    try:
        check_when(read_when({key: pattern}))
    except FormatError:
        return False
    return True


def keep_enforce(when: When, before: When) -> When:
    """Return `when` with `enforce` as it was before, because only the user may change it."""
    return replace(when, enforce=before.enforce if when.commands or when.content else None)


def _check_glob(pattern: str) -> None:
    if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern.strip("*/ "):
        hint = "use a path below the project, such as src/**/*.sql"
        raise FormatError(f"invalid glob {pattern!r} in `when.paths`", field="when", hint=hint)


def _read_list(node: object) -> tuple[str, ...]:
    items: Sequence[object] = node if isinstance(node, list | tuple) else [node]
    return tuple(
        item.strip()
        for item in items
        if isinstance(item, str) and item.strip() and item.isprintable() and len(item) <= WHEN_CHARS
    )
