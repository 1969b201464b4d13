"""The /commands of chat, the assistant without a model, and `memdir demo`.

Most /commands run a `memdir` command in this project, using the chat's clock; the others concern the conversation. The
assistant without a model answers in English and quotes memories with their name and age:

    question --recall--> memories --answer_question--> a quotation of the best matches
    statement --remember--> saved memory --describe_learned--> what was saved and how to undo it

If memories contradict each other, the answer says so and quotes the newest first.
"""

import difflib
import gc
import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from memdir.conversation.project_files import load_project_files
from memdir.conversation.typed import split_message
from memdir.dream.duplicates import MemoryFacts, differ_in_value, is_prose, list_words
from memdir.errors import FormatError, MemdirError
from memdir.extraction import ExtractResult
from memdir.format import frontmatter
from memdir.format.age import days_old, render_age
from memdir.format.document import PartKind
from memdir.frozen import dataclass, replace
from memdir.interfaces.chat import ChatOptions, ChatTalk, RunVerb, handle
from memdir.interfaces.chat_terminal import Permissions, Screen, has_color
from memdir.language.requests import compile_pattern, find_request_languages, is_question, starts
from memdir.language.sentences import split_sentences as split_said
from memdir.limits import SHOWN
from memdir.models.usage import describe_cost
from memdir.operations.write import find_rival
from memdir.recall.pipeline import RecallResult, RecallSkip
from memdir.recall.terms import parse_terms
from memdir.records import Excerpt, Header, Kind, Message, StoredMemory
from memdir.text import one_line, shorten

_LINE = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
TOGGLES = ("recall", "extract", "notes", "dream", "user_memory", "paused")
_KEYS = (
    "A line that ends with \\ continues; three quotes open and close a message of several lines.",
    "Ctrl-C stops an answer or clears the line, twice it ends the chat; Ctrl-D ends it too.",
)
Run = Callable[[ChatTalk, str], object]


class QuitChat(Exception):
    """Raised when the user ends the chat."""


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A chat command. `takes` shows its arguments in /help."""

    name: str
    takes: str
    help: str
    run: Run


def find_command(line: str) -> tuple[str, str] | None:
    """Return the name and arguments of a command, or None for a message, including one that starts with a path."""
    match = _LINE.fullmatch(line.strip())
    return None if match is None else (match[1].lower(), (match[2] or "").strip())


def run_command(talk: ChatTalk, name: str, rest: str) -> None:
    """Run a command. Raises FormatError with a suggestion if the command is unknown."""
    if (command := BY_NAME.get(name)) is None:
        near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean /{near[0]}?" if near else "/help lists all commands"
        raise FormatError(f"unknown command /{name}", field="command", hint=hint)
    command.run(talk, rest)


def _split_words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a lone apostrophe
        return text.split()


def _require(argument: str, wanted: str) -> str:
    if not argument:
        raise FormatError(f"say {wanted}", field="command", hint="/help shows how")
    return argument


def _make_cli_runner(*words: str) -> Run:
    return lambda talk, arguments: talk.run_verb(*words, *_split_words(arguments))


def _manage_memory(talk: ChatTalk, arguments: str) -> None:
    what, _, more = arguments.partition(" ")
    more = more.strip()
    if what == "":
        talk.screen.show("output", _render_loaded(talk))
    elif what in ("list", "show", "save"):
        is_text = what == "save" and more and not more.startswith("--")
        talk.run_verb(*(("remember", more) if is_text else (what, *_split_words(more))))
    elif what == "open" and more:
        talk.run_verb("edit", more)
    elif what in TOGGLES and more.lower() in (*_ON, *_OFF):
        if talk.run_verb("config", "set", what, "true" if more.lower() in _ON else "false") == 0:
            talk.reopen()
    else:
        hint = f"list, show, save …, open NAME, or one of {', '.join(TOGGLES)} with on or off"
        raise FormatError(f"/memory has no option {shorten(one_line(arguments), 40)!r}", field="command", hint=hint)


def _render_loaded(talk: ChatTalk) -> str:
    project, switch = talk.project, talk.project.places.switch
    lines = [] if switch.on else [f"Memory is off here ({switch.rule})."]
    for store in project.stores:
        count = len(store.scan())
        lines.append(f"{store.scope.value:8} {count:4} {'memory' if count == 1 else 'memories'}  {store.root}")
    files = load_project_files(project.environment, project.places, talk.cwd).files
    lines += [f"file     {file.path}  ({file.what})" for file in files]
    lines.append("switches " + ", ".join(f"{key} {'on' if project.settings.flag(key) else 'off'}" for key in TOGGLES))
    return "\n".join([*lines, "this conversation is private"] if talk.session.is_private else lines)


def _forget_memory(talk: ChatTalk, arguments: str) -> None:
    words = _split_words(arguments)
    if "--purge" not in words:
        _show_result(talk, talk.session.forget(_require(arguments, "what to forget: a name, or what it is about")))
    elif talk.run_verb("forget", *words) == 0:
        # The conversation may contain the purged text, so begin a new one.
        talk.clear()
        talk.screen.show("notice", "A new conversation, so that this one leaves no trace.")


def _show_result(talk: ChatTalk, done: ExtractResult) -> None:
    if text := describe_learned(done) or (done.skipped.words if done.skipped else ""):
        talk.screen.show("output", text)


def _run_dream(talk: ChatTalk, arguments: str) -> None:
    words = _split_words(arguments)
    if words and words[0] in ("preview", "status", "apply"):
        words[0] = f"--{words[0]}"
    model = [] if "--apply" in words or "--status" in words else ["--model", talk.spec if talk.has_model else "none"]
    talk.run_verb("dream", *words, *model)


def _set_private(talk: ChatTalk, arguments: str) -> None:
    is_on = arguments.lower() not in _OFF
    talk.session.set_private(is_on)
    text = "Nothing is recalled or remembered from now on." if is_on else "Memory is back in this conversation."
    talk.screen.show("notice", text)


def _clear_conversation(talk: ChatTalk, arguments: str) -> None:
    talk.clear()
    talk.screen.show("notice", "A new conversation. Memories are kept.")


def _compact_conversation(talk: ChatTalk, arguments: str) -> None:
    if talk.compact():
        talk.screen.show("notice", "The conversation continues from its notes; /notes shows them.")
    else:
        talk.screen.show("notice", "There are no notes to continue from, so nothing was shortened.")


def _choose_model(talk: ChatTalk, arguments: str) -> None:
    if arguments:
        talk.set_model(arguments)
    text = f"The model is {talk.spec}." if talk.has_model else "There is no model: memory alone answers."
    talk.screen.show("output", text)


def _show_cost(talk: ChatTalk, arguments: str) -> None:
    lines = [f"{purpose or 'other'}: {describe_cost(usage)}" for purpose, usage in talk.spent.items()]
    talk.screen.show("output", "\n".join(lines) or "No model was asked.")


def _set_day(talk: ChatTalk, arguments: str) -> None:
    talk.set_day(_require(arguments, "which day it is"))
    talk.screen.show("day", talk.clock().astimezone().strftime("%A %Y-%m-%d"))


def _show_help(talk: ChatTalk, arguments: str) -> None:
    rows = {f"/{command.name} {command.takes}".strip(): command.help for command in COMMANDS}
    lines = [f"{usage:{max(map(len, rows))}}  {text}" for usage, text in rows.items()]
    talk.screen.show("output", "\n".join([*lines, "", *_KEYS]))


def _quit_chat(talk: ChatTalk, arguments: str) -> None:
    raise QuitChat


COMMANDS = (
    ChatCommand("memory", "[list|show|save …|open NAME|SETTING on|off]",
            "What is loaded here; look at it, open it, switch parts of it.", _manage_memory),
    ChatCommand("remember", "TEXT", "Remember this, in your own words.",
            lambda talk, arguments: _show_result(talk, talk.session.remember(_require(arguments, "what to remember")))),
    ChatCommand("forget", "[--purge] NAME or TEXT", "Forget a memory by its name or by what it is about.", _forget_memory),
    ChatCommand("recall", "[--explain] TEXT", "What would be recalled for this, and why.",
            lambda talk, arguments: talk.run_verb("recall", *_split_words(_require(arguments, "what to recall")))),
    ChatCommand("why", "NAME", "For which questions a memory came up.", _make_cli_runner("why")),
    ChatCommand("dream", "[preview|apply ID|status]", "Tidy the memory; one /undo reverts it.", _run_dream),
    ChatCommand("undo", "[ID]", "Undo the last change of memory, or a certain one.", _make_cli_runner("undo")),
    ChatCommand("inbox", "[show|approve|reject ID]", "What needs review.", _make_cli_runner("inbox")),
    ChatCommand("verify", "[NAME]", "Check what memories say against the project.", _make_cli_runner("verify")),
    ChatCommand("notes", "", "The running summary of this conversation.",
            lambda talk, arguments: talk.run_verb("notes", "show", "--session", talk.id, *_split_words(arguments))),
    ChatCommand("private", "[on|off]", "Remember and recall nothing in this conversation.", _set_private),
    ChatCommand("clear", "", "Begin a new conversation.", _clear_conversation),
    ChatCommand("compact", "", "Shorten the conversation to its notes.", _compact_conversation),
    ChatCommand("model", "[NAME|none]", "Who answers, or who shall from now on.", _choose_model),
    ChatCommand("cost", "", "What models took in this chat.", _show_cost),
    ChatCommand("now", "DATE", "Play another day, for scripts and trials.", _set_day),
    ChatCommand("help", "", "This list.", _show_help),
    ChatCommand("quit", "", "End the chat.", _quit_chat),
)  # fmt: skip
BY_NAME = {command.name: command for command in COMMANDS} | {"exit": COMMANDS[-1]}


_NEAR = 0.55  # memories that score below this share of the best score are left out
_MOST = 2  # memories quoted
_RIVALS = 3  # memories quoted where they disagree
_CHARS = 320  # shown of one memory
_STATEMENT = 1_000  # characters; a longer text is a document
_WHY = ("why", "warum", "wieso", "pourquoi", "por qué", "为什么", "為什麼", "なぜ", "どうして")
# Questions without a question mark. A sentence with a comma is usually an order ("when you are done, …").
_ASKING = re.compile(
    r"(?:when|where|what|who|whose|which|how|why|wann|wo|was|wer|wie|warum|welche[rsn]?|quand|où|qui|comment|pourquoi|"
    r"quels?|quelles?|cuándo|dónde|qué|quién|cómo|cuál)\b[^,;.!\n]{3,80}\Z",
    re.IGNORECASE,
)
# Questions about everything memdir remembers: a search for their words would find nothing, or a random memory.
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
_ONE_WORD = "One word is too little to search by. Ask with a few more, or tell me something to remember."
_ORIENT = "I remember what you tell me and answer from it: say what is so, or ask; see /help."
_NO_HANDS = "I only remember and recall, so I cannot do that; /model adds a model that can."
_PASTED = "I saved nothing: it is long, or not your own words. Say in a sentence what matters of it."
_UNCLEAR = "No memory is clearly about that, or more than one is: /forget NAME removes one, /memory list has the names."
_VERBS = {
    "create": ("Noted", "/undo reverts it."),
    "update": ("Changed", "/undo reverts it."),
    "forget": ("Forgotten", "/undo brings it back."),
    "unchanged": ("I know that already", ""),
    "wait": ("This needs review (/inbox)", ""),
}
_MEMORY_OFF = "Memory is off here: nothing is kept or looked up."
_SHUT = (RecallSkip.OFF, RecallSkip.PAUSED, RecallSkip.PRIVATE, RecallSkip.IGNORE_CONVERSATION, RecallSkip.IGNORE_TURN)
_SECONDS = 30.0  # patterns take milliseconds, but another process may hold the directory


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """An answer from memory: its text, the quoted memories, and whether they contradict each other."""

    text: str
    names: tuple[str, ...] = ()
    is_conflict: bool = False


def answer_from_memory(talk: ChatTalk, text: str) -> None:
    """Handle a turn without a model: answer questions from memory, and save statements."""
    talk.add(Message("user", text))
    talk.learned.clear()
    talk.session.turn_ended(talk.messages)
    talk.session.wait(_SECONDS)
    parts = [part for result in talk.learned if (part := _describe_saved(talk, result))]
    names: tuple[str, ...] = ()
    if not parts or asks_memory(text):
        answer = _make_answer(talk, text)
        if answer.names or not parts:
            parts.append(answer.text)
            names = answer.names
    talk.add(Message("assistant", "\n".join(parts)))
    talk.screen.show("answer", "\n".join(parts), names=list(names), streamed=False)


def _make_answer(talk: ChatTalk, text: str) -> ChatAnswer:
    if not talk.project.places.switch.on:
        return ChatAnswer(_MEMORY_OFF)
    # There is no model that remembers earlier answers, so show a memory each time the user asks for it.
    with suppress(MemdirError):
        talk.session.file.reset()
    now, recalled = talk.clock().astimezone(), talk.session.recall(text, limit=SHOWN)
    # Keep only the results that share a word with the message.
    words = set(parse_terms(text))
    texts = [(item, f"{item.header.title}\n{item.header.description}\n{item.text}") for item in recalled]
    met = [excerpt for excerpt, words_of in texts if words & set(parse_terms(words_of))]
    recalled = replace(recalled, memories=tuple(met))
    if is_overview(text) and recalled.skipped not in _SHUT:
        return list_known([header for store in talk.project.stores for header in store.scan()], text)
    if asks_memory(text) or recalled.skipped in _SHUT:
        return answer_question(recalled, now=now, asks=asks_memory(text))
    return ChatAnswer(_save_statement(talk, text))


def _save_statement(talk: ChatTalk, text: str) -> str:
    """Save a statement verbatim; ignore thanks, greetings and orders."""
    message, languages = text.strip(" .,!…。！\n"), find_request_languages(text)
    if any(compile_pattern(language.small_talk).fullmatch(message) for language in languages):
        return _ORIENT
    if any(starts(language.orders, message) for language in languages):
        return _NO_HANDS
    if len(text) > _STATEMENT or not all(span.plain for span in split_message(text)):
        return _PASTED
    try:
        return _describe_saved(talk, talk.session.remember(text))
    except FormatError as error:
        return f"I saved nothing: {error}; {error.hint}."


def _describe_saved(talk: ChatTalk, done: ExtractResult) -> str:
    """Describe the result of saving a statement, and any memories that contradict it."""
    lines, store = [describe_learned(done)], talk.session.stores[0]
    for reason in (reason for reason in done.reasons if reason.action == "create"):
        body = frontmatter.split_frontmatter(reason.text).body
        for rival in find_rival(store, body, reason.name, store.clock()):
            lines.append(f"But “{rival.text}” ({rival.source}) says otherwise; /forget {rival.source} removes it.")
    return "\n".join(filter(None, lines))


def answer_question(recalled: RecallResult, *, now: datetime, asks: bool = True) -> ChatAnswer:
    """Answer a question or a statement from the recalled memories."""
    if not recalled.memories:
        return ChatAnswer(_render_no_answer(recalled.skipped, asks))
    best = max(excerpt.score for excerpt in recalled.memories)
    near = [excerpt for excerpt in recalled.memories if excerpt.score >= _NEAR * best]
    pairs = [(item, MemoryFacts(StoredMemory(item.header, item.text, item.text, item.digest))) for item in near]
    # Rivals are sentences that differ in one value only, such as a date.
    worded = [(fact, list_words(fact.main)) for _, fact in pairs if is_prose(fact.main)]
    rivals = [fact for fact, one in worded if any(differ_in_value(one, other) for _, other in worded)]
    if rivals:
        pairs = sorted((pair for pair in pairs if pair[1] in rivals), key=lambda pair: pair[0].dated, reverse=True)
    pairs = pairs[: _RIVALS if rivals else _MOST]
    lines = [_render_quote(excerpt, fact, recalled.query, now) for excerpt, fact in pairs]
    if rivals:
        lines[0] = f"My memories disagree; the newest says: {lines[0]}"
        lines[1:] = [f"Older: {line}" for line in lines[1:]]
    return ChatAnswer("\n".join(lines), tuple(excerpt.header.name for excerpt, _ in pairs), bool(rivals))


def asks_memory(text: str) -> bool:
    """Return whether a message is a question in one of the six supported languages."""
    if _ASKING.match(text.strip()):
        return True
    languages = find_request_languages(text)
    return any(is_question(sentence.hidden, language) for sentence in split_said(text) for language in languages)


def is_overview(text: str) -> bool:
    """Return whether a message asks for all memories, or for everything known about the user."""
    return _OVERVIEW.fullmatch(one_line(text).strip(" .,!?¿¡。！？")) is not None


def list_known(headers: Iterable[Header], text: str) -> ChatAnswer:
    """Return the newest memories, or those about the user if the message asks for them and any exist."""
    newest = sorted(headers, key=lambda header: header.modified, reverse=True)
    if not newest:
        return ChatAnswer(f"I remember nothing yet. {_OFFER}")
    head = "I remember:"
    if _ABOUT_ONE.search(text):
        own = [header for header in newest if header.kind is Kind.USER]
        newest, head = own or newest, head if own else f"Nothing about you yet. {head}"
    first = newest[:_LISTED]
    lines = [f"- {shorten(one_line(header.description or header.title), _CHARS)} ({header.name})" for header in first]
    rest = len(newest) - len(first)
    more = f"And {rest} more: /memory list shows them." if rest else "/memory list shows all, /recall TEXT finds some."
    return ChatAnswer("\n".join([head, *lines, more]), tuple(header.name for header in first))


def describe_learned(done: ExtractResult) -> str:
    """Describe the result of saving a statement and how to undo it, or return "" if nothing changed."""
    unclear = [reason.name for reason in done.reasons if reason.action == "unclear"]
    lines = [
        f"{name} also says something else: /forget {name} removes all of it." if name else _UNCLEAR for name in unclear
    ]
    for reason in (reason for reason in done.reasons if reason.action in _VERBS):
        verb, undo = _VERBS[reason.action]
        known = reason.name if reason.action == "forget" else frontmatter.parse_fields(reason.text).description
        lines.append(f"{verb}: {shorten(one_line(known or reason.name), _CHARS)}{'.' if undo else ''} {undo}".rstrip())
    return "\n".join(dict.fromkeys(lines))


def _render_no_answer(skip: RecallSkip | None, is_question: bool) -> str:
    if skip in (None, RecallSkip.NOTHING_FITS, RecallSkip.EMPTY):
        return f"I know nothing about that. {_OFFER}"
    if skip is RecallSkip.ONE_WORD:
        return _ONE_WORD
    return f"I {'looked nothing up' if is_question else 'saved nothing'}: {skip.words}."


def _render_quote(excerpt: Excerpt, fact: MemoryFacts, query: str, now: datetime) -> str:
    passage = _find_passage(fact, query) or excerpt.header.description or excerpt.header.title
    age = f"noted {render_age(excerpt.dated, now)}"
    if days_old(excerpt.dated, now) > 1 and not excerpt.caveat:
        age += "; check that it still holds"
    caveat = f" {one_line(excerpt.caveat)}" if excerpt.caveat else ""
    return f"{shorten(one_line(passage), _CHARS)} ({excerpt.header.name}, {age}){caveat}"


def _find_passage(fact: MemoryFacts, query: str) -> str:
    reason = fact.document.get_text(PartKind.WHY)
    if reason and any(word in query.casefold() for word in _WHY):
        return reason
    query_terms = set(parse_terms(query))
    sentences = fact.document.list_sentences(PartKind.FACT) or [fact.main or reason]
    return max(sentences, key=lambda sentence: len(query_terms.intersection(parse_terms(sentence))))


# The script of `memdir demo`. Lines that begin with # are comments for the viewer, those with + are done by another
# agent, and all others are typed into the chat.
SCRIPT = """
# Day one. Somebody talks to an assistant that has a memory. No model, no server: patterns and plain files.
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
# Why did the right one come up? Score, its parts (words, meaning, age), the words that matched, and what was selected.
/recall --explain until when can I merge?
# Meanwhile another agent has written into the same folder: it said again what was known, and forgot the index.
+
# A dream tidies up between sessions. It is one step, says why, loses nothing, and one undo takes it back.
/dream
/undo
# All of it was played in a temporary folder that is gone now. `memdir chat` begins your own.
"""
_TWICE = """---
name: The user's background
description: I'm a data scientist, new to Rust
type: user
---

I'm a data scientist, new to Rust.
"""


def demo(*, color: str, run_verb: RunVerb) -> int:
    """Play the demo in a temporary folder, without a model, and return 0."""
    gc.enable()
    with tempfile.TemporaryDirectory(prefix="memdir-demo-") as folder:
        play_in(Path(folder).resolve(), color=color, run_verb=run_verb)
    return 0


def play_in(home: Path, *, color: str, run_verb: RunVerb) -> Path:
    """Play the demo in this home directory and return its project folder."""
    colored = has_color(color)
    options = ChatOptions(color="always" if colored else "never")
    project = home / "ingest"
    (project / ".git").mkdir(parents=True)
    variables = {"HOME": str(home), "PATH": os.defpath}
    screen = Screen(color=colored)
    talk = ChatTalk(options, screen, Permissions(), cwd=project, variables=variables, run_verb=run_verb)
    try:
        for line in SCRIPT.strip().split("\n"):
            if line.startswith("#"):
                talk.screen.show("told", line.removeprefix("#").strip())
            elif line == "+":
                path = talk.project.private.root / "background-of-the-user.md"
                path.write_text(_TWICE, encoding="utf-8")
            else:
                talk.screen.show("heard", line)
                handle(talk, line)
    finally:
        talk.close()
    return project
