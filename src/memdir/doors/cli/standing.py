"""`status`: how much is remembered, how full it is, and which settings are in force."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import click

from memdir.clip import clip_index, measure
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import NO_TYPE, find_names, make_act_row, make_all_skip_rows, make_fill_row, show_time
from memdir.doors.cli.showing import make_part_rows
from memdir.doors.cli.spending import make_recalled_row, make_usage_row, show_usage
from memdir.doors.cli.tuning import make_setting_row, show_value
from memdir.doors.cli.verb import KINDS, Verb, json_option
from memdir.instructions import build_instructions
from memdir.opening import Opened
from memdir.options import SETTINGS
from memdir.records import Header
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY
from memdir.store.plan import digest_of
from memdir.tokens import estimate_tokens
from memdir.verify.cached import read_verdicts
from memdir.verify.records import State, Verdict

_SKIP_TITLES = {
    "recall": "recall brings nothing when",
    "extract": "nothing is learned from a turn when",
    "dream": "there is no dream when",
}


@click.command(
    "status",
    short_help="Counts, sizes, settings, and what models cost.",
    cls=Verb,
    examples=("memdir status", "memdir status --usage", "memdir status --json"),
)
@click.option("--usage", is_flag=True, help="Only what models took, with the last requests one by one.")
@json_option
@click.pass_obj
def status_verb(call: Call, usage: bool, as_json: bool) -> None:
    """Print counts, how full each index is, the size of history, what models cost, and every setting."""
    opened = call.open()
    if usage and not as_json:
        show_usage(call.out, opened, whole=True)
        return
    switch = opened.places.switch
    scopes = [_make_scope(store, opened.settings.text("index_order")) for store in opened.stores]
    facts = {
        "on": switch.on,
        "rule": switch.rule,
        "paused": opened.settings.flag("paused"),
        "loads": _make_loads(opened),
        "scopes": scopes,
        "settings": [make_setting_row(opened.settings, item) for item in SETTINGS],
        "skip_reasons": make_all_skip_rows(),
        "usage": make_usage_row(opened),
    }
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, opened, facts)


def _make_loads(opened: Opened) -> dict[str, Any]:
    """What a session is told of its memory from the start, in tokens, whole and part by part."""
    told = build_instructions(opened, make=False)
    rows = make_part_rows(told)
    counts = [row["tokens"] for row in rows]
    return {
        "guidance_tokens": sum(counts[: len(told.parts)]),
        "index_tokens": sum(counts[len(told.parts) :]),
        "parts": [{key: row[key] for key in ("part", "path", "tokens")} for row in rows],
    }


def _make_scope(store: FileStore, order: str) -> dict[str, Any]:
    headers, index = store.scan(), store.index()
    kinds = Counter(header.kind or NO_TYPE for header in headers)
    last = store.acts(limit=1)
    return {
        "scope": store.scope.value,
        "path": str(store.root),
        "memories": len(headers),
        "types": {kind: kinds[kind] for kind in (*KINDS, NO_TYPE)},
        "pinned": sum(header.pinned for header in headers),
        "waiting": len(store.inbox()),
        "index": {
            **make_fill_row(measure(index, headers)),
            "tokens": estimate_tokens(clip_index(index, headers, order=order).text),
        },
        "history": {"acts": store.count_acts(), "bytes": _measure_history(store)},
        "last_change": make_act_row(last[0]) if last else None,
        "recalled": make_recalled_row(store),
        "verdicts": _count_verdicts(store, headers),
    }


def _count_verdicts(store: FileStore, headers: Sequence[Header]) -> dict[str, int]:
    """How many memories hold by the last verification of the text they have now."""
    verdicts, digests = read_verdicts(store), store.recorded() if store.count_acts() else {}
    counts = Counter(
        _find_state(store, header, verdicts[header.name], digests) if header.name in verdicts else State.UNCHECKED
        for header in headers
    )
    return {state.value: counts[state] for state in State}


def _find_state(store: FileStore, header: Header, verdict: Verdict, digests: Mapping[str, str]) -> State:
    digest = digests.get(header.file) or digest_of(store.read_bytes(header.file) or b"")
    return verdict.state if verdict.digest == digest else State.UNCHECKED


def _measure_history(store: FileStore) -> int:
    total = 0
    for suffix in ("", "-wal"):
        try:
            total += os.stat(store.state / f"{HISTORY}{suffix}", follow_symlinks=False).st_size
        except OSError:
            continue
    return total


def _show(out: Output, opened: Opened, facts: dict[str, Any]) -> None:
    state = "on" if facts["on"] else "off"
    out.line(Styled("memory is ", "bold"), Styled(state, "green" if facts["on"] else "red"), f" ({facts['rule']})")
    if facts["paused"]:
        out.line(Styled("paused: nothing is remembered or recalled; `memdir resume` ends it", "yellow"))
    loads = facts["loads"]
    guidance, index = loads["guidance_tokens"], loads["index_tokens"]
    out.line(f"a session loads about {guidance + index:,} tokens: {guidance:,} of guidance and {index:,} of index")
    if parts := ", ".join(f"{row['part']} {row['tokens']:,}" for row in loads["parts"]):
        out.line(Styled(f"  {parts}; `memdir context` adds the instruction files", "dim"))
    if waiting := sum(scope["waiting"] for scope in facts["scopes"]):
        out.line(Styled(f"{waiting} in the inbox, waiting for you: `memdir inbox`", "yellow"))
    for scope, store in zip(facts["scopes"], opened.stores, strict=True):
        _show_scope(out, opened, scope, store)
    out.line()
    show_usage(out, opened, whole=False)
    out.line()
    out.line(Styled("settings", "bold"), Styled(" (a star: not the default)", "dim"))
    width = max(len(row["key"]) for row in facts["settings"])
    for row in facts["settings"]:
        is_default = row["source"] == "default"
        mark = " " if is_default else "*"
        source = "" if is_default else f"  from {row['source']}"
        out.line(f"{mark} {row['key']:<{width}}  {show_value(row['value'])}", Styled(source, "dim"))
    for what, title in _SKIP_TITLES.items():
        out.line()
        out.line(Styled(title, "bold"))
        for row in facts["skip_reasons"][what]:
            out.line(f"  {row['words']}", Styled(f"  ({row['reason']})", "dim"))


def _show_scope(out: Output, opened: Opened, scope: dict[str, Any], store: FileStore) -> None:
    out.line()
    out.line(Styled(scope["scope"], "bold"), Styled(f"  {scope['path']}", "dim"))
    types = ", ".join(f"{count} {kind}" for kind, count in scope["types"].items() if count)
    pinned = f", {scope['pinned']} pinned" if scope["pinned"] else ""
    out.line(f"  memories  {scope['memories']}", f" ({types}{pinned})" if types else "")
    fill = scope["index"]
    size = f"{fill['lines']} lines, {fill['bytes']:,} bytes; about {fill['tokens']:,} tokens"
    out.line(f"  index     {fill['share']:.0%} full ({size})")
    out.line(f"  history   {scope['history']['acts']} acts, {scope['history']['bytes']:,} bytes")
    used = scope["recalled"]
    out.line(f"  recalled  {used['times']} times; {used['never']} never recalled")
    if any(count for state, count in scope["verdicts"].items() if state != State.UNCHECKED):
        told = ", ".join(f"{count} {state}" for state, count in scope["verdicts"].items())
        out.line(f"  verified  {told}", Styled("  (`memdir verify` looks again)", "dim"))
    last = next(iter(store.acts(limit=1)), None)
    if last is not None:
        when = show_time(out, last.at, opened.now())
        out.line(f"  last      {last.verb} {', '.join(find_names(last))} by {last.origin.who}, {when}")
