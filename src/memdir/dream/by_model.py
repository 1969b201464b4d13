"""The model's part of a dream: what there is in, writes on a staging out.

A model with tools works through four steps in one bounded run of its own; one without is shown the memories and logs
at once and answers with a list of operations, which is sent back once if it cannot be carried out. Both may only stage.

A run that comes to no proper end, repeats itself, declines, answers with nothing that can be used, or tries to write
outside the memory has failed as a whole: what it staged is not looked at. What may be kept of a run that ended well is
decided elsewhere (dream.weighing).
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from memdir.dream.hands import TOOLS, DreamHands
from memdir.dream.material import Material, Surroundings, render_texts
from memdir.dream.progress import Phase, Watch
from memdir.errors import ReplyError
from memdir.fork import End, Ran, run
from memdir.frozen import dataclass
from memdir.limits import DREAM_CALLS, DREAM_OPERATIONS, DREAM_TURNS, DREAM_WRITTEN_BYTES, FORK_TOKENS
from memdir.loose_json import find_json
from memdir.models import can_use_tools
from memdir.operations import REASONED, parse_operations, stage
from memdir.prompts import render_prompt
from memdir.records import Message, Model, Reply, Request, Stop
from memdir.staging import Ground, Staging
from memdir.text import fold, one_line, shorten

PURPOSE = "dream"
_SUMMARY_CHARS = 300
_AGAIN = "nothing was changed; the next dream tries again, `memdir dream --model none` works by rules alone"
_ENDS = {
    End.TURNS: f"it was not done after {DREAM_TURNS} turns",
    End.CALLS: f"it was not done after {DREAM_CALLS} calls",
    End.REPEATED: "it repeated itself",
    End.DECLINED: "it declined",
}


@dataclass(frozen=True, slots=True)
class Dreamt:
    """A run that ended well: by folded name the reason and evidence of each write, and what came from outside."""

    reasons: Mapping[str, str]
    evidence: Mapping[str, str]
    shown: tuple[Message, ...]
    summary: str = ""
    refused: int = 0


def dream_on(
    model: Model,
    staging: Staging,
    ground: Ground,
    material: Material,
    *,
    memory: Path,
    surroundings: Surroundings,
    watch: Watch,
    now: datetime,
) -> Dreamt:
    """Let the model dream on a staging; raises ReplyError for a run that failed, and whatever the model raises."""
    watch.enter(Phase.ORIENT)
    counted = watch.wrap(model)
    if can_use_tools(model):
        return _fork(counted, staging, material, memory, surroundings, watch, now)
    return _ask(counted, staging, ground, material, watch, now)


def _fork(
    model: Model,
    staging: Staging,
    material: Material,
    memory: Path,
    surroundings: Surroundings,
    watch: Watch,
    now: datetime,
) -> Dreamt:
    task = render_prompt(
        "dream/task",
        today=f"{now:%A, %Y-%m-%d}",
        turns=str(DREAM_TURNS),
        calls=str(DREAM_CALLS),
        manifest=material.render_manifest(),
        drifted=material.render_drifted(),
        logs=material.render_logs(),
    )
    system = render_prompt("dream/system", rules=render_prompt("dream/rules"))
    hands = DreamHands(staging, memory, surroundings, watch)
    request = Request(system, (Message("user", task),), FORK_TOKENS, tools=TOOLS, purpose=PURPOSE)
    ran = run(model, request, hands, turns=DREAM_TURNS, calls=DREAM_CALLS)
    if hands.trespassed:
        raise ReplyError(f"the model tried to write outside the memory: {hands.trespassed}", hint=_AGAIN)
    if ran.end is not End.DONE:
        raise ReplyError(f"the model's run came to no good end, {_ENDS[ran.end]}", hint=_AGAIN)
    summary = _find_summary(ran, has_work=bool(staging.staged))
    return Dreamt(hands.reasons, hands.evidence, tuple(hands.shown), summary, ran.refused)


def _find_summary(ran: Ran, *, has_work: bool) -> str:
    """What the model says it did. One that did nothing must at least say so in the form it was asked for."""
    for value in find_json(ran.text):
        if isinstance(value, dict) and isinstance(value.get("summary"), str):
            return shorten(one_line(value["summary"]), _SUMMARY_CHARS)
    if not has_work:
        said = shorten(one_line(ran.text), 60) or "nothing"
        raise ReplyError(f"the model changed nothing and gave no summary: {said!r}", hint=_AGAIN)
    return shorten(one_line(ran.text), _SUMMARY_CHARS)


def _ask(model: Model, staging: Staging, ground: Ground, material: Material, watch: Watch, now: datetime) -> Dreamt:
    content = render_prompt(
        "dream/ask",
        today=f"{now:%A, %Y-%m-%d}",
        manifest=material.render_manifest(),
        drifted=material.render_drifted(),
        texts=render_texts(material, ground),
        logs=material.render_logs(),
    )
    system = render_prompt("dream/ask_system", rules=render_prompt("dream/rules"))
    request = Request(system, (Message("user", content),), FORK_TOKENS, REASONED, purpose=PURPOSE)
    watch.enter(Phase.CONSOLIDATE)
    first = model(request)
    try:
        return _carry_out(first, staging)
    except ReplyError as error:
        said = Message("assistant", first.text or "(nothing)")
        repair = Message("user", render_prompt("dream/repair", problem=str(error)))
        messages = (*request.messages, said, repair)
    second = model(Request(system, messages, FORK_TOKENS, REASONED, purpose=PURPOSE))
    try:
        return _carry_out(second, staging)
    except ReplyError as error:
        raise ReplyError(f"the model's answer cannot be used: {error}", hint=_AGAIN) from None


def _carry_out(reply: Reply, staging: Staging) -> Dreamt:
    """The operations of an answer on the staging, which is as it was before if they cannot be done."""
    if reply.stop in (Stop.REFUSED, Stop.LENGTH):
        raise ReplyError("it declined" if reply.stop is Stop.REFUSED else "the token limit cut it short")
    operations = parse_operations(reply.text, limit=DREAM_OPERATIONS)
    pinned = {fold(header.name) for header in staging.scan() if header.pinned}
    wanted = [at for at in operations if fold(at.name) not in pinned]
    before = staging.copy()
    try:
        evidence = stage(wanted, staging, limit=DREAM_WRITTEN_BYTES)
    except ReplyError:
        staging.take_back(before)
        raise
    reasons = {fold(at.name): at.reason for at in wanted if at.reason}
    quotes = {fold(name): quote for name, quote in evidence.items() if quote}
    return Dreamt(reasons, quotes, (), refused=len(operations) - len(wanted))
