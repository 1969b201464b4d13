"""Choose the memories that are shown at an action, and whether a rule asks or refuses.

`triggers` proposes the memories. This module reads their triggers again from the files, because the index may be
outdated or written by others, and leaves out memories that the conversation already has. A rule with `enforce` needs no
further evidence, and applies each time.
"""

import builtins
from collections.abc import Callable, Sequence
from contextlib import suppress

from memdir.errors import MemdirError
from memdir.format.document import MemoryDocument, PartKind
from memdir.format.shown import TextVoice, find_voice, show_byline, show_line, show_text
from memdir.frozen import compile_late, dataclass, replace
from memdir.limits import ACTION_SHOWN, ACTION_TURN
from memdir.recall.pipeline import (
    NamedMemories,
    RecallRequest,
    RecallResult,
    RecallSkip,
    find_skip,
    make_excerpt,
    make_request,
    select_memories,
    show_recall,
)
from memdir.recall.select import LocalSearch
from memdir.recall.triggers import ENFORCING, Action, ActionCandidate, Trigger, list_triggers, match_triggers
from memdir.records import Enforce, Excerpt, Moment, Scope, StoredMemory, Surfacing
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.plan import is_team
from memdir.store.sessions import SessionFile, SessionRecord, take_override
from memdir.text import fold_words, one_line, shorten

TURN = "turn"  # in a session record: the turn and the number of memories shown at its actions
_RULE_CHARS, _REASON_CHARS = 240, 120
_WHOLE_CHARS = 2_000  # a longer memory is shown in short: rule and reason, cut
BY = "triggers"
_NAMES = compile_late(
    r"\b(?=[\w.-]*(?:[a-z][A-Z]|[A-Z]{3}|[\d_]))[\w.-]+"
)  # with inner capitals, digits or underscores
_NAME_CHARS = 3
_QUOTED = compile_late(r"['\"`‘“]([A-Za-z]{4,})['\"`’”]")
_COMMON_NAMES = frozenset("error errors failed failure failures fatal warning traceback fail".split())
Names = tuple[tuple[Scope, str], ...]


@dataclass(frozen=True, slots=True)
class ActionRecall:
    """The memories to show, and the rule that asks or refuses, if one does."""

    memories: tuple[Excerpt, ...] = ()
    rule: Excerpt | None = None
    decision: Enforce | None = None

    @property
    def names(self) -> Names:
        excerpts = (*self.memories, *((self.rule,) if self.rule else ()))
        return tuple(dict.fromkeys((excerpt.header.scope, excerpt.header.name) for excerpt in excerpts))


def recall_at_action(
    project: Project,
    session_id: str,
    action: Action,
    candidates: Sequence[ActionCandidate],
    rules: Sequence[tuple[Scope, str]],
    *,
    turn: str = "",
    text: str,
    agent: str = "",
    shows: bool = True,
    decides: bool = True,
    moment: Moment = Moment.ACTION,
    on_found: Callable[[ActionRecall], None] = lambda recalled: None,
) -> ActionRecall:
    """Return the memories to show at an action and record them. `text` describes the action in the recall log.

    `rules` are the memories whose `enforce` may apply. `shows` says whether the host can show memories now, and
    `decides` whether it can still ask or refuse. A subagent (`agent`) has its own session record. `on_found` receives
    the memories to show, as in `show_recall`.
    """
    session = find_own_session(project, session_id, agent)
    record = session.read()
    request = replace(make_request(project, text, NamedMemories((), (), ""), ""), session=session, moment=moment)
    if _is_skipped(project, session_id, record, request):
        return ActionRecall()
    enforced = _list_enforced(project, rules, action)
    rule, decision = _find_rule(project, session_id, enforced, text) if decides else (None, None)
    count = _count_shown(record.extra.get(TURN), turn)
    room = max(0, min(ACTION_SHOWN, ACTION_TURN - count)) if shows else 0
    # Rules with `enforce: remind` need no further evidence.
    chosen = [(memory.header.scope, memory.name) for enforce, _, memory in enforced if enforce is Enforce.REMIND]
    for candidate in candidates if room else ():
        scope, name = candidate.scope, candidate.name
        is_current = not candidate.triggers or _read_matching(project, scope, name, action)
        is_hidden = scope is Scope.USER and _has_memory(project.private, name)
        if is_current and not is_hidden and (rule is None or name != rule.header.name):
            key = (Scope.TEAM if scope is Scope.PRIVATE and is_team(name) else scope, name)
            chosen += [key] if key not in chosen else []
    request = replace(request, selector=NamedMemories(project.stores, chosen, BY), limit=room)
    result = RecallResult(text, BY)
    result = select_memories(request, record, result) if chosen and room else result
    recalled = ActionRecall(result.memories, rule, decision)
    if not recalled.names:
        return recalled
    last = show_recall(result, request, lambda found: on_found(replace(recalled, memories=found.memories)))
    if last.memories:
        with suppress(MemdirError):
            total = [turn, count + len(last.memories)]
            session.change(lambda record: replace(record, extra={**record.extra, TURN: total}))
    return replace(recalled, memories=last.memories)


def recall_at_failure(
    project: Project,
    session_id: str,
    command: str,
    error: str,
    *,
    agent: str = "",
    on_found: Callable[[ActionRecall], None] = lambda recalled: None,
) -> None:
    """Search for a failed command and its error, and record what is shown."""
    session = find_own_session(project, session_id, agent)
    with LocalSearch(project.stores, half_lives=project.settings.half_lives(), trusts=True) as search:
        request = make_request(project, f"{command}\n{error}", search, "")
        request = replace(request, session=session, moment=Moment.FAILURE)
        record = session.read()
        if _is_skipped(project, session_id, record, request):
            return
        result = select_memories(request, record, RecallResult(request.text, search.name))
        result = _keep_related(result, Action(command=command, text=error))
        if result.memories:
            show_recall(result, request, lambda found: on_found(ActionRecall(found.memories)))


def _keep_related(result: RecallResult, failure: Action) -> RecallResult:
    """Keep the memories that share more with a failed command than words of any failure: a trigger, or a name or number."""
    names = _list_names(failure.text)
    # What an error quotes is its subject: "No rule to make target 'relase'".
    quoted = {word.lower() for word in _QUOTED.findall(failure.text)} - _COMMON_NAMES
    pairs = [
        (excerpt, owner)
        for excerpt, owner in zip(result.memories, result.owners, strict=True)
        for text in ["\n".join((excerpt.header.title, excerpt.header.description, excerpt.text))]
        if names & _list_names(text)
        or quoted & set(fold_words(text).split())
        or match_triggers(list_triggers(excerpt.header.when, text), failure)
    ]
    return replace(result, memories=tuple(one for one, _ in pairs), owners=tuple(owner for _, owner in pairs))


def _list_names(text: str) -> set[str]:
    """Return the names and numbers in a text, as `ECONNREFUSED` and `5432`, but not Python's own exceptions."""
    words = {word.strip("._-") for word in _NAMES.findall(text)}
    return {word.lower() for word in words if len(word) >= _NAME_CHARS and not hasattr(builtins, word)} - _COMMON_NAMES


def show_reminder(excerpt: Excerpt, *, short: bool = False) -> str:
    """Render a memory: its file, title, rule and reason, or its text if that says more and is not too long."""
    document, header = MemoryDocument(excerpt.text), excerpt.header
    fact, why = (one_line(document.get_text(part)) for part in (PartKind.FACT, PartKind.WHY))
    rule, title = shorten(fact or one_line(header.description), _RULE_CHARS), one_line(header.title)
    parts = [rule] if fold_words(title) in fold_words(rule) else [title, rule]
    parts += [f"Why: {shorten(why, _REASON_CHARS)}"] if why else []
    line = " ".join(f"{part}." if part[-1:].isalnum() else part for part in parts)
    voice = find_voice(header.scope)
    says_more = len(fact) > _RULE_CHARS or len(why) > _REASON_CHARS or document.get_text(PartKind.HOW)
    is_whole = says_more and not short and len(excerpt.text) <= _WHOLE_CHARS
    if is_whole:
        line = excerpt.text if fold_words(title) in fold_words(rule) else f"{title}\n\n{excerpt.text}"
    body = ("\n" if is_whole or voice is TextVoice.SHARED else " ") + show_text(line, voice)
    notes = [note for note in (show_byline(header.scope, excerpt.author), show_line(excerpt.caveat)) if note]
    return "\n".join([*notes, f"Memory ({show_line(header.file)}):{body}"])


def find_own_session(project: Project, session_id: str, agent: str) -> SessionFile:
    """Return the record of a conversation or of a subagent in it."""
    return SessionFile(project.private.state, f"{session_id}/{agent}" if agent else session_id)


def note_moment(project: Project, session_id: str, names: object, moment: Moment) -> None:
    """Record in the recall log what followed an action, for each memory that was shown at it."""
    rows = [row for row in names if isinstance(row, list) and len(row) == 2] if isinstance(names, list) else []
    for store in project.stores:
        mine = [str(name) for scope, name in rows if scope in list(Scope) and store.may_hold(Scope(scope))]
        store.note_recalls([Surfacing(name, project.now(), "", session_id, moment=moment) for name in mine])


def _is_skipped(project: Project, session_id: str, record: SessionRecord, request: RecallRequest) -> bool:
    """Return whether recall is off for this record, or, except for its budget, for the parent conversation."""
    parent = SessionFile(project.private.state, session_id).read()
    skips = (find_skip("an action", one, on=request.on, paused=request.paused) for one in (record, parent))
    own, of_parent = skips
    return own is not None or of_parent not in (None, RecallSkip.BUDGET)


def _has_memory(store: FileStore, name: str) -> bool:
    try:
        return store.read(name) is not None
    except MemdirError:
        return False


def _read_matching(
    project: Project, scope: Scope, name: str, action: Action
) -> tuple[FileStore, StoredMemory, tuple[Trigger, ...]] | None:
    """Return a memory with the triggers in its file that match, or None if there are none."""
    store = next((store for store in project.stores if store.scope is scope), None)
    if store is None:
        return None
    try:
        memory = store.read(name)
    except MemdirError:
        return None
    header = memory.header
    text = "\n".join((header.title, header.description, memory.body))
    triggers = match_triggers(list_triggers(header.when, text), action)
    return (store, memory, triggers) if triggers else None


def _list_enforced(
    project: Project, names: Sequence[tuple[Scope, str]], action: Action
) -> list[tuple[Enforce, FileStore, StoredMemory]]:
    """Return the rules whose files match the action, each with what it enforces and its store."""
    rules = []
    for scope, name in names:
        if (current := _read_matching(project, scope, name, action)) is not None:
            store, memory, triggers = current
            if memory.header.when.enforce and {trigger.kind for trigger in triggers} & ENFORCING:
                rules.append((memory.header.when.enforce, store, memory))
    return rules


def _find_rule(
    project: Project, session_id: str, enforced: Sequence[tuple[Enforce, FileStore, StoredMemory]], text: str
) -> tuple[Excerpt | None, Enforce | None]:
    """Return the strictest rule that asks or refuses and was not overridden, and its decision. It is recorded each time."""
    rules = [rule for rule in enforced if rule[0] is not Enforce.REMIND]
    for decision, store, memory in sorted(rules, key=lambda rule: rule[0] is not Enforce.DENY):
        is_overridden = take_override(store.state, memory.name, session_id, project.now())
        moment = Moment.OVERRIDDEN if is_overridden else Moment.ACTION
        store.note_recalls([Surfacing(memory.name, project.now(), text, session_id, "enforce", moment=moment)])
        if not is_overridden:
            return make_excerpt(memory, path=store.locate(memory.header), store=store), decision
    return None, None


def _count_shown(value: object, turn: str) -> int:
    """Return how many memories were shown at actions of this turn. `value` is the entry of a session record."""
    match value:
        case [str(last), int(count)] if last == turn:
            return count
    return 0
