"""Choose the memories that are shown at an action, and whether a rule asks or refuses.

A trigger alone is weak evidence: half of all edits match one. So a memory must also agree with what is going on: it is
among the best for the last prompt, by the ranking that the prompt's hook left. How good it must be depends on the trigger:
an expression or a name that was matched says more than the path of a file. The triggers are read again from the file that
is shown, so neither an outdated index nor one that others wrote decides anything. A rule with `enforce` needs no agreement.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from memdir.errors import MemdirError
from memdir.format.document import MemoryDocument, PartKind
from memdir.format.shown import find_voice, show_byline, show_line, show_text
from memdir.frozen import dataclass, replace
from memdir.limits import ACTION_SHOWN, ACTION_TURN
from memdir.recall.pipeline import (
    NamedMemories,
    RecallResult,
    find_skip,
    make_excerpt,
    make_request,
    read_ranking,
    record_recall,
    select_memories,
)
from memdir.recall.select import LocalSearch
from memdir.recall.triggers import Action, Trigger, TriggerKind, TriggerMatch, list_triggers, match_triggers
from memdir.records import Enforce, Excerpt, Moment, Scope, StoredMemory, Surfacing
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.sessions import SessionFile, take_override
from memdir.text import fold_words, one_line, shorten

MATCHED_RANK = 10  # the worst rank for the last prompt of a memory whose expression, command or name matches
PATH_RANK = 5  # of one whose path matches, if it also agrees with the new text
TURN = "turn"  # in a session record: the turn and the number of memories shown at its actions
_RULE_CHARS, _REASON_CHARS = 240, 120
_READ = 30  # memories read at one action
_PATHS = frozenset((TriggerKind.PATHS, TriggerKind.FILE))
_ENFORCING = frozenset((TriggerKind.COMMANDS, TriggerKind.CONTENT))
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
    matches: Sequence[tuple[Scope, TriggerMatch]],
    *,
    text: str,
    agent: str = "",
    shows: bool = True,
    enforces: bool = True,
    on_found: Callable[[ActionRecall], None] = lambda recalled: None,
) -> ActionRecall:
    """Return the memories for an action and record them as shown. `text` describes the action in the recall log.

    A subagent (`agent`) has a record of its own, and the prompt of the conversation. `on_found` is called before anything
    is recorded, as it is better to show a memory twice than never.
    """
    session = find_own_session(project, session_id, agent)
    request = replace(make_request(project, text, NamedMemories((), (), ""), ""), session=session, moment=Moment.ACTION)
    record = session.read()
    ranking = read_ranking(SessionFile(project.private.state, session_id))
    if ranking.off or find_skip("an action", record, on=request.on, paused=request.paused):
        return ActionRecall()
    ranks = {key: rank for rank, key in enumerate(ranking.names, 1)}
    ordered = sorted(matches, key=lambda match: ranks.get((match[0], match[1].name), _READ))
    chosen: list[tuple[Scope, str]] = []
    rules: list[tuple[Enforce, FileStore, StoredMemory]] = []
    for scope, match in ordered[:_READ]:
        if (current := _read_matching(project, scope, match.name, action)) is None:
            continue
        store, memory, triggers = current
        kinds = {TriggerKind(trigger.kind) for trigger in triggers}
        if memory.header.when.enforce and enforces and kinds & _ENFORCING:
            rules.append((memory.header.when.enforce, store, memory))
        elif agrees(triggers, ranks.get((memory.header.scope, memory.name)), action):
            chosen.append((memory.header.scope, memory.name))
    rule, decision = _find_rule(project, session_id, rules, text)
    count = _count_shown(record.extra.get(TURN), ranking.turn)
    room = min(ACTION_SHOWN, ACTION_TURN - count) if shows else 0
    request = replace(request, selector=NamedMemories(project.stores, chosen, "triggers"), limit=max(room, 0))
    result = (
        select_memories(request, record, RecallResult(text, "triggers"))
        if chosen and room > 0
        else RecallResult(text, "")
    )
    recalled = ActionRecall(result.memories, rule, decision)
    if not recalled.names:
        return recalled
    on_found(recalled)
    if (last := record_recall(result, request)) is not result:
        recalled = replace(recalled, memories=last.memories)
        on_found(recalled)
    if recalled.memories:
        with suppress(MemdirError):
            total = [ranking.turn, count + len(recalled.memories)]
            session.change(lambda record: replace(record, extra={**record.extra, TURN: total}))
    return recalled


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
    if read_ranking(SessionFile(project.private.state, session_id)).off:
        return
    with LocalSearch(project.stores, half_lives=project.settings.half_lives(), trusts=True) as search:
        request = make_request(project, f"{command}\n{error}", search, "")
        request = replace(request, session=session, moment=Moment.FAILURE)
        record = session.read()
        if find_skip("a failure", record, on=request.on, paused=request.paused):
            return
        result = select_memories(request, record, RecallResult(request.text, search.name))
        if result.memories:
            on_found(ActionRecall(result.memories))
            if (last := record_recall(result, request)) is not result:
                on_found(ActionRecall(last.memories))


def show_reminder(excerpt: Excerpt) -> str:
    """Render a memory in short: its file, title, rule and reason."""
    document, header = MemoryDocument(excerpt.text), excerpt.header
    fact, why = (one_line(document.get_text(part)) for part in (PartKind.FACT, PartKind.WHY))
    rule, title = shorten(fact or one_line(header.description), _RULE_CHARS), one_line(header.title)
    parts = [rule] if fold_words(title) in fold_words(rule) else [title, rule]
    parts += [f"Why: {shorten(why, _REASON_CHARS)}"] if why else []
    said = " ".join(f"{part}." if part[-1:].isalnum() else part for part in parts)
    body = show_text(said, find_voice(header.scope))
    notes = [note for note in (show_byline(header.scope, excerpt.author), show_line(excerpt.caveat)) if note]
    return "\n".join([*notes, f"Memory ({show_line(header.file)}): {body}"])


def agrees(triggers: Iterable[Trigger], rank: int | None, action: Action) -> bool:
    """Return whether a memory with these matching triggers is shown, by its rank for the last prompt."""
    if rank is None:
        return False
    if any(TriggerKind(trigger.kind) not in _PATHS for trigger in triggers):
        return rank <= MATCHED_RANK
    return rank <= PATH_RANK and action.is_write


def find_own_session(project: Project, session_id: str, agent: str) -> SessionFile:
    """Return the record of a conversation or of a subagent in it."""
    return SessionFile(project.private.state, f"{session_id}/{agent}" if agent else session_id)


def note_moment(project: Project, session_id: str, names: object, moment: Moment) -> None:
    """Add what became of an action to the recall log of the memories that were shown for it."""
    rows = [row for row in names if isinstance(row, list) and len(row) == 2] if isinstance(names, list) else []
    for store in project.stores:
        mine = [str(name) for scope, name in rows if scope in list(Scope) and store.may_hold(Scope(scope))]
        store.note_recalls([Surfacing(name, project.now(), "", session_id, moment=moment) for name in mine])


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


def _find_rule(
    project: Project, session_id: str, rules: Sequence[tuple[Enforce, FileStore, StoredMemory]], text: str
) -> tuple[Excerpt | None, Enforce | None]:
    """Return the strictest rule that was not overridden, and its decision. It is recorded each time."""
    for decision, store, memory in sorted(rules, key=lambda rule: rule[0] is not Enforce.DENY):
        is_overridden = take_override(store.state, memory.name, session_id, project.now())
        moment = Moment.OVERRIDDEN if is_overridden else Moment.ACTION
        store.note_recalls([Surfacing(memory.name, project.now(), text, session_id, "enforce", moment=moment)])
        if not is_overridden:
            return make_excerpt(memory, path=store.locate(memory.header), store=store), decision
    return None, None


def _count_shown(value: object, turn: str) -> int:
    """Return how many memories the actions of this turn have shown, by the session record."""
    match value:
        case [str(last), int(count)] if last == turn:
            return count
    return 0
