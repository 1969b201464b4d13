"""The commands: a line that begins with a slash. A table says what each is called, takes, does, and who does it.

Most are verbs of the command line, run in this place and on this day; the others are about the conversation itself.
No rule of memory is made here.
"""

import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from memdir.conversation.project_files import load_project_files
from memdir.dream.compare import differ_in_value
from memdir.dream.duplicates import MemoryFacts, split_parts
from memdir.errors import FormatError, MemdirError, SettingsError
from memdir.extraction import ExtractReason, ExtractResult, find
from memdir.extraction.provenance import split_judged
from memdir.format import frontmatter
from memdir.format.age import days_old, render_age
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.interfaces.chat import ChatOptions, ChatTalk, RunVerb, handle
from memdir.interfaces.chat_terminal import Permissions, Screen, is_terminal
from memdir.language.requests import find_request_languages
from memdir.language.words import split_sentences as split_said
from memdir.project.settings import read_environment
from memdir.recall.pipeline import RecallResult, RecallSkip
from memdir.recall.terms import parse_terms
from memdir.records import Excerpt, Header, Kind, Memory, Message, Usage
from memdir.text import one_line, shorten

# --- shown ---
# What commands show of memory: what is loaded, what was spent; and an editor on a file.


def show_loaded(talk: ChatTalk, toggles: Sequence[str]) -> str:
    """The memories, instruction files and switches of this conversation."""
    opened = talk.opened
    switch = opened.places.switch
    lines = [] if switch.on else [f"Memory is off here ({switch.rule})."]
    for store in opened.stores:
        count = len(store.scan())
        lines.append(f"{store.scope.value:8} {count:4} {'memory' if count == 1 else 'memories'}  {store.root}")
    files = load_project_files(opened.environment, opened.places, talk.cwd).files
    lines += [f"file     {file.path}  ({file.what})" for file in files]
    states = [f"{key} {'on' if opened.settings.flag(key) else 'off'}" for key in toggles]
    private = "this conversation is private" if talk.session.is_private else ""
    return "\n".join([*lines, "switches " + ", ".join(states), *filter(None, [private])])


def show_cost(spent: Mapping[str, Usage]) -> str:
    """What models took, by purpose."""
    if not spent:
        return "No model was asked."
    return "\n".join(f"{purpose or 'other'}: {_render(usage)}" for purpose, usage in spent.items())


def open_in_editor(talk: ChatTalk, name: str) -> None:
    """A memory in the person's editor, checked when it comes back; the index as the plain file it is."""
    if name:
        talk.run_verb("edit", name)
        return
    _run_editor(talk, talk.opened.private.root / INDEX_FILE)


def _run_editor(talk: ChatTalk, path: Path) -> None:
    environment = talk.opened.environment
    try:
        words = shlex.split(environment.editor)
    except ValueError:
        words = []
    if not words:
        raise SettingsError("no editor is set", key="EDITOR", hint=f"set VISUAL or EDITOR; the index is {path}")
    if not path.is_file():
        raise SettingsError("there is no index yet", key=str(path), hint="it comes with the first memory")
    try:
        subprocess.run([*words, str(path)], env=dict(environment.inherited), check=False)
    except OSError as error:
        raise SettingsError(f"the editor {words[0]} cannot be started", key="EDITOR", hint="set EDITOR") from error


def _render(usage: Usage) -> str:
    cached = f", {usage.cached / usage.input:.0%} of it cached" if usage.input else ""
    dollars = "" if usage.dollars is None else f", ${usage.dollars:.4f}"
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out{dollars}"


# --- demo ---
# `memdir demo`: three days of a project in a temporary folder, played through the real chat in a few seconds.
#
# Nothing of the person's is read or written: home, project and memory lie in the folder, which goes when it is over.
# No
# model is asked.

# A line with # is told to the onlooker, one with + is done by another agent; any other is typed into the chat.
SCRIPT = """
# Day one. Somebody talks to an assistant that has a memory. No model, no server: rules and plain files.
/now 2026-03-02
I'm a data scientist, new to Rust.
Don't summarise at the end of your answers, I can read the diff.
We freeze all merges from Thursday, the mobile team cuts its release then.
Pipeline bugs are tracked in Linear.
# Each became a Markdown file with a line in MEMORY.md, and "Thursday" became a date.
# Day two, a new conversation: plans change.
/now 2026-03-03
/clear
No, we freeze all merges from Friday, the mobile team cuts its release a day later.
Pipeline bugs are tracked in Jira.
Remember that the staging database is reset every Sunday night.
forget what I said about the staging database
# The same memory was changed, one was forgotten; nothing is lost, /undo would bring it back.
# Day three, a week later, another conversation: questions in other words.
/now 2026-03-09
/clear
how should a reply end?
until when can I merge?
where do I file a defect of the pipeline?
when is staging emptied?
# The date is the corrected one, what is old says so, two that disagree say so, and what was forgotten is gone.
# Why did the right one come up? Score, its parts (words, meaning, age), the words that met, and who is told.
/recall --explain until when can I merge?
# Meanwhile another agent has written into the same folder: it said again what was known, and forgot the index.
+
# A dream tidies up between sessions. It is one step, says why, loses nothing, and one undo takes it back.
/dream
# The two trackers contradict each other: that is only proposed, and waits for a person's word.
/inbox
/undo
# All of it was played in a temporary folder that is gone now. `memdir chat` begins your own.
"""
_TWICE = """---
name: The user's background
description: The user is a data scientist, new to Rust
type: user
---

The user is a data scientist, new to Rust.
"""


def play(*, color: str, run_verb: RunVerb) -> int:
    """The whole of it; answers the exit code."""
    plain = not is_terminal(sys.stdout) or read_environment().no_color
    dressed = color == "always" or (color == "auto" and not plain)
    screen = Screen(color=dressed)
    with tempfile.TemporaryDirectory(prefix="memdir-demo-") as folder:
        home = Path(folder).resolve()
        project = home / "ingest"
        (project / ".git").mkdir(parents=True)
        variables = {"HOME": str(home), "PATH": os.defpath}
        wish = ChatOptions(color="always" if dressed else "never")
        talk = ChatTalk(
            wish, screen, Permissions(), id="demo", cwd=project, variables=variables, run_verb=run_verb
        )  # fmt: skip
        try:
            for line in SCRIPT.strip().split("\n"):
                _step(talk, line)
        finally:
            talk.close()
    return 0


def _step(talk: ChatTalk, line: str) -> None:
    if line.startswith("#"):
        talk.screen.tell("told", line.removeprefix("#").strip())
    elif line == "+":
        path = talk.opened.private.root / "background-of-the-user.md"
        path.write_text(_TWICE, encoding="utf-8")
    else:
        talk.screen.tell("heard", line)
        handle(talk, line)


# --- answering ---
# The assistant without a model: a sentence or two made of memories, with name and age, and nothing it does not know.
#
#     question --recall--> memories --answer_question--> what the nearest of them says
#     statement --extract--> what was kept --tell_learned--> what it will be remembered as
#
# Of memories that contradict each other the newest speaks first, and that they disagree is said. Pure: what is
# recalled
# and what is kept are decided elsewhere. It understands nothing; it quotes. It speaks English, whatever it quotes.

_NEAR = 0.55  # of the best score: what is further away was not asked for
_MOST = 2  # memories that have their say
_RIVALS = 3  # and of those that disagree
_CHARS = 320  # of one of them
_WHY = ("why", "warum", "wieso", "pourquoi", "por qué", "为什么", "為什麼", "なぜ", "どうして")
# People leave the question mark out; what goes on behind a comma is mostly an order ("when you are done, …").
_ASKING = re.compile(
    r"(?:when|where|what|who|whose|which|how|why|wann|wo|was|wer|wie|warum|welche[rsn]?|quand|où|qui|comment|pourquoi|"
    r"quels?|quelles?|cuándo|dónde|qué|quién|cómo|cuál)\b[^,;.!\n]{3,80}\Z",
    re.IGNORECASE,
)
# Who wants to know all there is: a search by these words finds nothing, or something by chance.
_ALL = (
    r"what (?:do|did|can) you (?:already |actually |still )?(?:know|remember|recall)",
    r"what have you (?:learned|learnt|remembered|noted|stored|saved|kept)",
    r"what(?:'s| is) in (?:your|the) memory",
    r"(?:list|show)(?: me)? (?:everything|all memories|your memories)",
    r"(?:tell me )?(?:everything|all|what) you (?:know|remember)",
    r"who am i|wer bin ich|qui suis-je|quién soy",
    r"was wei(?:ß|ss)t du|was hast du dir(?: alles)? gemerkt|woran erinnerst du dich",
    r"que sais-tu|qu'est-ce que tu sais|de quoi te souviens-tu|qué sabes|qué recuerdas",
)
_OF_WHOM = (
    r"so far|already|alles|noch|(?:about|of|über|von|de|sur|sobre) "
    r"(?:me|us|myself|this project|the project|mich|mir|uns|moi|nous|mí|nosotros)"
)
_ALL_HAN = (
    r"你(?:都)?(?:知道|记得|記得)(?:关于)?(?:我的?)?(?:什么|哪些|什麼).{0,3}|我是[谁誰]|"
    r"何を(?:知って|覚えて)い(?:る|ますか)|私は誰(?:ですか)?"
)
_OVERVIEW = re.compile(rf"(?:(?:{'|'.join(_ALL)})(?: (?:{_OF_WHOM}))*|{_ALL_HAN})", re.IGNORECASE)
_ABOUT_ONE = re.compile(r"\b(?:me|myself|i|mich|mir|ich|moi|je|mí|soy)\b|我|私", re.IGNORECASE)
_LISTED = 5
_OFFER = "Tell me and I will remember it."
_UNHEARD = 'I kept nothing of that. To have it kept, begin with "remember".'
_ONE_WORD = "One word is too little to search by. Ask with a few more, or tell me something to remember."
_ORIENT = 'I remember what you tell me and answer from it: begin with "remember", or ask in a few words; see /help.'
_VERBS = {
    "create": "Noted",
    "update": "Changed",
    "forget": "Forgotten",
    "unchanged": "I know that already",
    "unclear": "I could not tell which memory you mean",
    "wait": "This waits for your word (/inbox)",
}


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What is said, which memories say it, and whether they disagree."""

    text: str
    names: tuple[str, ...] = ()
    is_conflict: bool = False


def answer_question(found: RecallResult, *, now: datetime, asks: bool = True) -> ChatAnswer:
    """What the recalled memories say to the message that brought them up, whether it asks something or states it."""
    if not found.memories:
        return ChatAnswer(_tell_nothing(found.skipped, asks))
    best = max(excerpt.score for excerpt in found.memories)
    near = [excerpt for excerpt in found.memories if excerpt.score >= _NEAR * best]
    facts = [MemoryFacts(_make_memory(excerpt)) for excerpt in near]
    rivals = _find_rivals(facts)
    told = [pair for pair in zip(near, facts, strict=True) if pair[1] in rivals] or [*zip(near, facts, strict=True)]
    if rivals:
        told.sort(key=lambda pair: pair[0].dated, reverse=True)
    told = told[: _RIVALS if rivals else _MOST]
    lines = [_tell(excerpt, fact, found.query, now) for excerpt, fact in told]
    if rivals:
        lines[0] = f"My memories disagree; the newest says: {lines[0]}"
        lines[1:] = [f"Older: {line}" for line in lines[1:]]
    return ChatAnswer("\n".join(lines), tuple(excerpt.header.name for excerpt, _ in told), bool(rivals))


def asks_memory(text: str) -> bool:
    """Whether somebody wants to know something, in one of the six languages."""
    if _ASKING.match(text.strip()):
        return True
    tongues = find_request_languages(text)
    return any(find.is_question(said.hidden, tongue) for said in split_said(text) for tongue in tongues)


def is_overview(text: str) -> bool:
    """Whether somebody asks for all that is remembered, or for what is of themselves."""
    return _OVERVIEW.fullmatch(one_line(text).strip(" .,!?¿¡。！？")) is not None


def tell_known(headers: Iterable[Header], text: str) -> ChatAnswer:
    """The newest of all memories, those on the person alone if they ask about themselves and there are some."""
    found = sorted(headers, key=lambda header: header.modified, reverse=True)
    if not found:
        return ChatAnswer(f"I remember nothing yet. {_OFFER}")
    head = "I remember:"
    if _ABOUT_ONE.search(text):
        own = [header for header in found if header.kind is Kind.USER]
        found, head = own or found, head if own else "Nothing about you yet. I remember:"
    told = found[:_LISTED]
    lines = [f"- {shorten(one_line(at.description or at.title), _CHARS)} ({at.name})" for at in told]
    rest = len(found) - len(told)
    more = f"And {rest} more: /memory list shows them." if rest else "/memory list shows all, /recall TEXT finds some."
    return ChatAnswer("\n".join([head, *lines, more]), tuple(at.name for at in told))


def describe_learned(done: ExtractResult) -> str:
    """What became of a statement; empty if nothing did."""
    lines = [_tell_reason(reason) for reason in done.reasons if reason.action in _VERBS]
    return "\n".join(dict.fromkeys(lines))


def _tell_nothing(skip: RecallSkip | None, asks: bool) -> str:
    if skip in (None, RecallSkip.NOTHING_FITS, RecallSkip.EMPTY):
        return f"I know nothing about that. {_OFFER}" if asks else _UNHEARD
    if skip is RecallSkip.ONE_WORD:
        return _ONE_WORD if asks else _ORIENT
    if skip in (RecallSkip.PAUSED, RecallSkip.PRIVATE) and not asks:
        return f"I kept nothing of that: {skip.words}."
    return f"I looked nothing up: {skip.words}."


def _find_rivals(facts: Sequence[MemoryFacts]) -> list[MemoryFacts]:
    """Memories that say the same as another of them but for one value."""
    return [fact for fact in facts if any(_are_rivals(fact, other) for other in facts)]


def _are_rivals(one: MemoryFacts, other: MemoryFacts) -> bool:
    return one.wording is not None and other.wording is not None and differ_in_value(one.wording, other.wording)


def _tell(excerpt: Excerpt, fact: MemoryFacts, query: str, now: datetime) -> str:
    said = _find_passage(fact, query) or excerpt.header.description or excerpt.header.title
    age = f"noted {render_age(excerpt.dated, now)}"
    if days_old(excerpt.dated, now) > 1 and not excerpt.caveat:
        age += "; check that it still holds"
    told = f"{shorten(one_line(said), _CHARS)} ({excerpt.header.name}, {age})"
    return f"{told} {one_line(excerpt.caveat)}" if excerpt.caveat else told


def _find_passage(fact: MemoryFacts, query: str) -> str:
    """The sentence nearest to the question, by the words they share, else the first; the reason if that is asked."""
    main, parts = split_parts(fact.memory.body)
    lowered = query.casefold()
    reason = parts.get("Why", "")
    if reason and any(word in lowered for word in _WHY):
        return reason
    sentences = split_judged(main)
    if not sentences:
        return main or reason
    wanted = set(parse_terms(query))
    return max(sentences, key=lambda sentence: len(wanted.intersection(parse_terms(sentence))))


def _tell_reason(reason: ExtractReason) -> str:
    fields = frontmatter.parse_fields(reason.text)
    what = reason.name if reason.action == "forget" else fields.description or reason.name
    if reason.action == "unclear":
        return f"{_VERBS[reason.action]}: {shorten(one_line(reason.quote), _CHARS)}"
    return f"{_VERBS[reason.action]}: {shorten(one_line(what), _CHARS)}"


def _make_memory(excerpt: Excerpt) -> Memory:
    return Memory(excerpt.header, excerpt.text, excerpt.text, excerpt.digest)


# --- commands ---

_LINE = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
TOGGLES = ("recall", "extract", "notes", "dream", "user_memory", "paused")


class QuitChat(Exception):
    """The person has had enough."""


Run = Callable[[ChatTalk, str], None]


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """One row: `takes` is what follows the name, `offers` the words that Tab knows, "NAME" for a memory's."""

    name: str
    takes: str
    help: str
    run: Run
    offers: tuple[str, ...] = ()


def find_command(line: str) -> tuple[str, str] | None:
    """The name and the rest of a line that is a command; None for a message, such as one that begins with a path."""
    found = _LINE.fullmatch(line.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


def run_command(talk: ChatTalk, name: str, rest: str) -> None:
    """Run it; an error is told, and an unknown one answered with the nearest."""
    command = BY_NAME.get(name)
    try:
        if command is None:
            raise FormatError(f"there is no /{name}", field="command", hint=_suggest(name))
        command.run(talk, rest)
    except MemdirError as error:
        talk.tell_error(error)


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    return f"did you mean /{near[0]}?" if near else "/help lists them"


def split_arguments(text: str) -> list[str]:
    """Words as a shell would have them; a text with a lone apostrophe is taken as it is."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


# --- about memory -----------------------------------------------------------------------------------------------------


def _call(verb: str) -> Run:
    """A command that is a verb of the command line."""

    def run(talk: ChatTalk, rest: str) -> None:
        talk.run_verb(verb, *split_arguments(rest))

    return run


def _memory(talk: ChatTalk, rest: str) -> None:
    what, _, more = rest.partition(" ")
    if what == "":
        talk.screen.tell("output", show_loaded(talk, TOGGLES))
    elif what in ("list", "show", "save"):
        talk.run_verb(what, *split_arguments(more))
    elif what == "open":
        open_in_editor(talk, more.strip())
    elif what in TOGGLES and more.strip().lower() in (*_ON, *_OFF):
        if talk.run_verb("config", "set", what, "true" if more.strip().lower() in _ON else "false") == 0:
            talk.reopen()
    else:
        hint = f"list, show, save …, open [NAME], or one of {', '.join(TOGGLES)} with on or off"
        raise FormatError(f"/memory does not know {shorten(one_line(rest), 40)!r}", field="command", hint=hint)


def _need(rest: str, what: str) -> str:
    if not rest:
        raise FormatError(f"say {what}", field="command", hint="/help shows how")
    return rest


def _remember(talk: ChatTalk, rest: str) -> None:
    _commands_tell(talk, talk.session.remember(_need(rest, "what to remember")))


def _forget(talk: ChatTalk, rest: str) -> None:
    words = split_arguments(rest)
    if "--purge" in words:
        # What was said here may be a trace of it too, so neither transcript nor model has it any longer.
        if talk.run_verb("forget", *words) == 0:
            talk.clear()
            talk.screen.tell("notice", "A new conversation, so that this one is no trace of it.")
        return
    _commands_tell(talk, talk.session.forget(_need(rest, "what to forget: a name, or what it is about")))


def _commands_tell(talk: ChatTalk, done: ExtractResult) -> None:
    said = describe_learned(done) or (done.skipped.words if done.skipped else "")
    if said:
        talk.screen.tell("output", said)


def _recall(talk: ChatTalk, rest: str) -> None:
    talk.run_verb("recall", *split_arguments(_need(rest, "what to recall")))


def _dream(talk: ChatTalk, rest: str) -> None:
    words = split_arguments(rest)
    options = {"preview": ["--preview"], "status": ["--status"], "apply": ["--apply"]}
    if words and words[0] in options:
        words = [*options[words[0]], *words[1:]]
    model = [] if "--apply" in words or "--status" in words else ["--model", talk.spec if talk.has_model else "none"]
    talk.run_verb("dream", *words, *model)


def _notes(talk: ChatTalk, rest: str) -> None:
    talk.run_verb("notes", "show", "--session", talk.id, *split_arguments(rest))


def _private(talk: ChatTalk, rest: str) -> None:
    on = rest.lower() not in _OFF
    talk.session.set_private(on)
    said = "Nothing is recalled or remembered from now on." if on else "Memory is back in this conversation."
    talk.screen.tell("notice", said)


# --- about the conversation -------------------------------------------------------------------------------------------


def _clear(talk: ChatTalk, rest: str) -> None:
    talk.clear()
    talk.screen.tell("notice", "A new conversation. What was remembered stays.")


def _compact(talk: ChatTalk, rest: str) -> None:
    if talk.compact():
        talk.screen.tell("notice", "The conversation goes on from its notes; /notes shows them.")
    else:
        talk.screen.tell("notice", "There are no notes to go on from, so nothing was shortened.")


def _model(talk: ChatTalk, rest: str) -> None:
    if rest:
        talk.set_model(rest)
    said = f"The model is {talk.spec}." if talk.has_model else "There is no model: memory alone answers."
    talk.screen.tell("output", said)


def _cost(talk: ChatTalk, rest: str) -> None:
    talk.screen.tell("output", show_cost(talk.spent))


def _now(talk: ChatTalk, rest: str) -> None:
    talk.set_day(_need(rest, "which day it is"))
    talk.screen.tell("day", talk.clock().astimezone().strftime("%A %Y-%m-%d"))


def _help(talk: ChatTalk, rest: str) -> None:
    rows = [(f"/{at.name} {at.takes}".strip(), at.help) for at in COMMANDS]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"{usage:{width}}  {text}" for usage, text in rows]
    talk.screen.tell("output", "\n".join([*lines, "", *_KEYS]))


def _quit(talk: ChatTalk, rest: str) -> None:
    raise QuitChat


_KEYS = (
    "A line that ends with \\ goes on; three quotes open and close a message of several lines.",
    "Ctrl-C stops an answer or clears the line, twice it ends the chat; Ctrl-D ends it too.",
)
_INBOX = ("list", "show", "approve", "reject")
COMMANDS = (
    ChatCommand(
        "memory",
        "[list|show|save …|open NAME|SETTING on|off]",
        "What is loaded here; look at it, open it, switch parts of it.",
        _memory,
        ("list", "show", "save", "open", *TOGGLES),
    ),
    ChatCommand("remember", "TEXT", "Remember this, in your own words.", _remember),
    ChatCommand("forget", "[--purge] NAME or TEXT", "Forget a memory by its name or by what it is about.", _forget,
            ("NAME",)),
    ChatCommand("recall", "[--explain] TEXT", "What would be recalled for this, and why.", _recall, ("--explain",)),
    ChatCommand("why", "NAME", "For which questions a memory came up.", _call("why"), ("NAME",)),
    ChatCommand("dream", "[preview|apply ID|status]", "Tidy the memory; one /undo takes it back.", _dream,
            ("preview", "apply", "status")),
    ChatCommand("undo", "[ID]", "Take back the last change of memory, or a certain one.", _call("undo")),
    ChatCommand("inbox", "[show|approve|reject ID]", "What waits for your word.", _call("inbox"), _INBOX),
    ChatCommand("verify", "[NAME]", "Check what memories say against the project.", _call("verify"), ("NAME",)),
    ChatCommand("notes", "", "The running summary of this conversation.", _notes),
    ChatCommand("private", "[on|off]", "Remember and recall nothing in this conversation.", _private, ("on", "off")),
    ChatCommand("clear", "", "Begin a new conversation.", _clear),
    ChatCommand("compact", "", "Shorten the conversation to its notes.", _compact),
    ChatCommand("model", "[NAME|none]", "Who answers, or who shall from now on.", _model, ("none",)),
    ChatCommand("cost", "", "What models took in this chat.", _cost),
    ChatCommand("now", "DATE", "Play another day, for scripts and trials.", _now),
    ChatCommand("help", "", "This list.", _help),
    ChatCommand("quit", "", "End the chat.", _quit),
)  # fmt: skip
BY_NAME = {command.name: command for command in COMMANDS} | {"exit": COMMANDS[-1]}


def complete(talk: ChatTalk, line: str, word: str) -> list[str]:
    """What Tab offers: commands, what they take, names of memories; nothing in a message."""
    start = line.lstrip()
    if not start.startswith("/"):
        return []
    if " " not in start:
        return [f"/{at.name} " for at in COMMANDS if f"/{at.name}".startswith(start)]
    command = BY_NAME.get(start[1:].split(" ")[0])
    offers = list(command.offers) if command else []
    if "NAME" in offers or start.startswith("/memory open "):
        offers = _list_names(talk)
    elif command and command.name == "memory" and start.split()[1:2] and start.split()[1] in TOGGLES:
        offers = ["on", "off"]
    return [f"{at} " for at in offers if at.startswith(word)]


def _list_names(talk: ChatTalk) -> list[str]:
    try:
        return [header.name for store in talk.opened.stores for header in store.scan()]
    except MemdirError:
        return []


# --- remembering ---
# A turn without a model: what was said is learned from at once, and a question is answered from memory.
#
# There is no model whose conversation would hold what was told before, so a memory may be told as often as it is asked
# for. What to keep and what to say is decided elsewhere (rules, answering).

_REMEMBERING_OFF = "Memory is off here: nothing is kept or looked up."
_SHUT = (RecallSkip.OFF, RecallSkip.PAUSED, RecallSkip.PRIVATE, RecallSkip.IGNORE_CONVERSATION, RecallSkip.IGNORE_TURN)
_SECONDS = 30.0  # rules take milliseconds; another process may hold the directory


def take_turn(talk: ChatTalk, text: str) -> None:
    """One message and its answer."""
    session = talk.session
    talk.add(Message("user", text))
    talk.learned.clear()
    session.turn_ended(talk.messages)
    session.wait(_SECONDS)
    parts = [told for done in talk.learned if (told := describe_learned(done))]
    names: tuple[str, ...] = ()
    if not parts or asks_memory(text):
        answer = _answer(talk, text)
        if answer.names or not parts:
            parts.append(answer.text)
            names = answer.names
    said = "\n".join(parts)
    talk.add(Message("assistant", said))
    talk.screen.tell("answer", said, names=list(names), streamed=False)
    talk.screen.flush()


def _answer(talk: ChatTalk, text: str) -> ChatAnswer:
    if not talk.opened.places.switch.on:
        return ChatAnswer(_REMEMBERING_OFF)
    with suppress(MemdirError):  # where nothing can be written, it may be told once only
        talk.session.file.reset()
    now = talk.clock().astimezone()
    found = talk.session.recall(text)
    if is_overview(text) and found.skipped not in _SHUT:
        return tell_known([header for store in talk.opened.stores for header in store.scan()], text)
    return answer_question(found, now=now, asks=asks_memory(text))
