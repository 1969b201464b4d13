"""`memdir rule`: add, try, list, switch off and override rules that agents are reminded of when they act."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from memdir.errors import FormatError, SettingsError
from memdir.extraction.find import compose_memory
from memdir.format.rules import find_rules
from memdir.format.when import PATTERN_KEYS, describe_when, dump_when
from memdir.frozen import replace
from memdir.interfaces.cli import (
    CliContext,
    Row,
    Styled,
    TableColumn,
    app,
    choose_store,
    choose_stores,
    describe_memory,
    fill,
)
from memdir.interfaces.cli.app import name_argument, scope_option
from memdir.operations.find import find_memory
from memdir.operations.turn import refresh_index
from memdir.operations.write import NameTakenError, WriteContext, save, update
from memdir.recall.triggers import Action, list_triggers, match_triggers
from memdir.records import Enforce, Kind, Scope, When, count_outcomes
from memdir.store.sessions import add_override

_RULES = (
    TableColumn("NAME", "cyan", "name", is_cut=True),
    TableColumn(
        "WHEN", "", lambda row: ", ".join(filter(None, ("always" * row["always"], *_list_patterns(row)))), is_cut=True
    ),
    TableColumn("", "yellow", lambda row: row["enforce"] or ""),
    TableColumn("SHOWN", "dim", "fired"),
    TableColumn("FOLLOWED", "dim", "followed"),
    TableColumn("DESCRIPTION", "", "description", is_cut=True),
)
_OWN = (Scope.PRIVATE.value, Scope.USER.value)  # `memdir rule` cannot save to memory shared with others
_LONG = re.compile(r"(?<!\S)--([a-z])[a-z]+(?:-[a-z]+)*(?!\S)")
_FORCE = re.compile(r"(?<!\S)(?:--force|-f)(?!\S)")
# Words that are rarely the beginning of a rule, and likely a command that there is not.
_OTHER_WORDS = ("on", "of", "try", "show", "remove", "delete", "enable", "disable")


class RuleGroup(app.VerbGroup):
    """A group that treats unknown subcommands as the text of a rule, and lists the rules without arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] in _OTHER_WORDS and not ctx.resilient_parsing:
            ctx.fail(
                f"unknown command {args[0]!r}; `memdir undo` switches a rule on again, and quotes make it one text"
            )
        is_verb = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        if not ctx.resilient_parsing and not is_verb:
            args = ["list", *args] if not args or args == ["--json"] else ["add", *args]
        return super().parse_args(ctx, args)


@click.group("rule", short_help="Save a rule that agents are reminded of when they act.", cls=RuleGroup)
def rule_verb() -> None:
    """Save a rule that agents are reminded of when they act: `memdir rule TEXT --command REGEX`; `memdir rule` lists them.

    A rule is a memory of type feedback. With --always, every conversation has it from its start. With --path, --command or
    --content it is shown at every matching action; with --ask or --deny the agent's program then asks you, or refuses, with
    the rule as the reason. That is a reminder and no security boundary: `memdir pause` and a late hook let everything pass.
    """


@rule_verb.command(
    "add",
    examples=(
        "memdir rule add 'never force-push' --command 'push.*(--force|\\s-f\\b)' --ask",
        "memdir rule add --command 'push.*--force' --try 'git push --force origin main'",
    ),
)
@click.argument("words", metavar="[TEXT]", nargs=-1)
@app.when_options("")
@click.option("--always", is_flag=True, default=None, help="A standing rule: conversations have it from their start.")
@click.option("--ask", "enforce", flag_value="ask", help="Let the agent's program ask you before a matching action.")
@click.option("--deny", "enforce", flag_value="deny", help="Let the agent's program refuse a matching action.")
@click.option("--try", "tries", metavar="COMMAND", multiple=True, help="Show what matches, save nothing.")
@click.option("--why", help="Why it is so.")
@click.option("--name", help="The file's name without .md; default: made from the text.")
@click.option("--scope", type=click.Choice(_OWN), help="For you in this project (the default) or in all projects.")
def _add(
    call: CliContext,
    words: tuple[str, ...],
    always: bool | None,
    enforce: str | None,
    tries: tuple[str, ...],
    why: str | None,
    name: str | None,
    scope: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Save a rule; `memdir rule TEXT` does the same. `--try COMMAND` shows what it matches before it is saved.

    --try tests the command, other spellings of it and what surrounds it; also a path or a text. Without --always and
    patterns a rule is a standing rule.
    """
    when = app.read_when_options(options, always=always, enforce=enforce) or When(always=True)
    if enforce is None and (when.commands or when.content):
        when = replace(when, enforce=Enforce.REMIND)
    if tries:
        _show_tries(call, when, tries, as_json=as_json)
        return
    if not words:
        raise click.UsageError("a rule needs its text, or --try COMMAND")
    project = call.open_to_write()
    draft = compose_memory(" ".join(words), now=project.now().astimezone(), kind=Kind.FEEDBACK, secrets=True)
    body = f"{draft.body.rstrip()}\n\n**Why:** {why}\n" if why else draft.body
    draft = replace(draft, name=name and name.removesuffix(".md"), body=body, when=when)
    store = choose_store(project, scope)
    try:
        result = save(store, draft, WriteContext(call.origin(), project.now(), keeps_secrets=True))
    except NameTakenError as error:
        error.hint = f"choose another --name, or `memdir edit {error.name}` changes it"
        raise
    assert result.memory is not None
    header = result.memory.header
    refresh_index(project.stores)  # The rule holds at the next action, also in the middle of a turn.
    row = describe_memory(store, header) | {"action": result.action.value, "change": result.change}
    row |= {"when": dump_when(header.when)}
    call.answer(row, "saved ", Styled(header.name, "cyan"), f" ({describe_when(header.when)})", as_json=as_json)


@rule_verb.command("list", examples=("memdir rule list", "memdir rule list --json"))
def _list(call: CliContext, as_json: bool) -> None:
    """List the standing rules, then memories with patterns, and how often each was shown.

    In a pipe: name, when, `remind`, `ask`, `deny` or nothing, times shown at an action, times followed, description, separated by tabs.
    """
    project = call.open()
    headers = [header for store in project.stores for header in store.scan()]
    rules = find_rules(headers)
    others = [header for header in headers if header.when.has_patterns and header not in rules]
    rows = []
    for header in (*rules, *others):
        store = next(store for store in project.stores if store.may_hold(header.scope))
        outcomes = count_outcomes(store.recalls(header.name))
        counts = fill("fired followed overridden", outcomes)
        facts = fill("name scope title description", header)
        rows.append(facts | dump_when(header.when) | {"always": header in rules} | counts)
    call.show_rows(_RULES, rows, as_json=as_json, empty="no rules yet; `memdir rule TEXT` saves one")


@rule_verb.command("off", examples=("memdir rule off never-force-push",))
@name_argument()
@scope_option
def _off(call: CliContext, name: str, scope: str | None, as_json: bool) -> None:
    """Switch a rule off. The memory stays and can be recalled; `memdir undo` switches the rule on again."""
    project = call.open_to_write()
    store, header = find_memory(choose_stores(project, scope), name, scope=scope)
    result = update(store, header.name, {"when": When(always=False)}, WriteContext(call.origin(), project.now()))
    refresh_index(project.stores)
    row = {"name": header.name, "scope": header.scope.value, "action": result.action.value, "change": result.change}
    undo = f"; `memdir undo {result.change}` switches it on" if result.change else ""
    call.answer(row, "off: ", Styled(header.name, "cyan"), undo, as_json=as_json)


@rule_verb.command("override", examples=("memdir rule override never-force-push",))
@name_argument()
@click.option("--session", metavar="ID", default="", help="Only in this conversation; default: in any.")
@scope_option
def _override(call: CliContext, name: str, session: str, scope: str | None, as_json: bool) -> None:
    """Let one action pass, within a day, that a rule would ask about or refuse."""
    project = call.open_to_write()
    store, header = find_memory(choose_stores(project, scope), name, scope=scope)
    if header.when.enforce is None:
        hint = f"`memdir edit {header.name} --enforce ask` makes it ask"
        raise SettingsError(f"{header.name} neither asks nor refuses", key="enforce", hint=hint)
    add_override(store.state, header.name, session, now=project.now())
    row = {"name": header.name, "scope": header.scope.value, "session": session or None}
    call.answer(row, "the next match of ", Styled(header.name, "cyan"), " passes once", as_json=as_json)


def list_variants(command: str) -> Iterator[str]:
    """Yield a command and equivalents: short options, options last, other forms of `--force`, after `cd ..`."""
    yield command
    if short := _LONG.sub(lambda option: f"-{option[1]}", command):
        yield short
    words = command.split()
    yield " ".join([*(word for word in words if word[0] != "-"), *(word for word in words if word[0] == "-")])
    if _FORCE.search(command):
        yield from (_FORCE.sub(form, command) for form in ("--force", "-f", "--force-with-lease"))
    yield f"cd .. && {command}"


def _show_tries(call: CliContext, when: When, tries: Sequence[str], *, as_json: bool) -> None:
    if not when.has_patterns:
        raise FormatError("nothing to try", field="when", hint="add --command, --path or --content")
    triggers, rows = list_triggers(when, ""), list[Row]()
    for text in dict.fromkeys(variant for given in tries for variant in list_variants(given)):
        matches = match_triggers(triggers, Action((text.removeprefix("./"),), text, text, is_write=True))
        rows.append({"text": text, "matches": bool(matches), "patterns": [match.pattern for match in matches]})
    columns = (
        TableColumn("", "green", lambda row: "matches" if row["matches"] else "-"),
        TableColumn("TEXT", "", "text"),
        TableColumn("PATTERN", "dim", lambda row: "  ".join(row["patterns"])),
    )
    call.show_rows(columns, rows, as_json=as_json)


def _list_patterns(row: Row) -> list[str]:
    return [f"{key.removesuffix('s')} {pattern}" for key in PATTERN_KEYS for pattern in row[key]]
