"""`status`: how much is remembered, how full it is, and which settings are in force."""

import os
from collections import Counter
from typing import Any

import click

from memdir.clip import measure
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import NO_TYPE, find_names, make_act_row, make_fill_row, make_skip_rows, show_time
from memdir.doors.cli.tuning import make_setting_row, show_value
from memdir.doors.cli.verb import KINDS, Verb, json_option
from memdir.opening import Opened
from memdir.options import SETTINGS
from memdir.store.files import FileStore
from memdir.store.history import FILE as HISTORY


@click.command(
    "status", short_help="Counts, sizes and settings.", cls=Verb, examples=("memdir status", "memdir status --json")
)
@json_option
@click.pass_obj
def status_verb(call: Call, as_json: bool) -> None:
    """Print counts, how full each index is, the size of history, the last change, and every setting."""
    opened = call.open()
    switch = opened.places.switch
    facts = {
        "on": switch.on,
        "rule": switch.rule,
        "paused": opened.settings.flag("paused"),
        "scopes": [_make_scope(store) for store in opened.stores],
        "settings": [make_setting_row(opened.settings, item) for item in SETTINGS],
        "skip_reasons": {"recall": make_skip_rows()},
    }
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, opened, facts)


def _make_scope(store: FileStore) -> dict[str, Any]:
    headers = store.scan()
    kinds = Counter(header.kind or NO_TYPE for header in headers)
    last = store.acts(limit=1)
    return {
        "scope": store.scope.value,
        "path": str(store.root),
        "memories": len(headers),
        "types": {kind: kinds[kind] for kind in (*KINDS, NO_TYPE)},
        "pinned": sum(header.pinned for header in headers),
        "index": make_fill_row(measure(store.index(), headers)),
        "history": {"acts": store.count_acts(), "bytes": _measure_history(store)},
        "last_change": make_act_row(last[0]) if last else None,
    }


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
    for scope, store in zip(facts["scopes"], opened.stores, strict=True):
        _show_scope(out, opened, scope, store)
    out.line()
    out.line(Styled("settings", "bold"), Styled(" (a star: not the default)", "dim"))
    for row in facts["settings"]:
        is_default = row["source"] == "default"
        mark = " " if is_default else "*"
        source = "" if is_default else f"  from {row['source']}"
        out.line(f"{mark} {row['key']:<17}{show_value(row['value'])}", Styled(source, "dim"))
    out.line()
    out.line(Styled("recall brings nothing when", "bold"))
    for row in facts["skip_reasons"]["recall"]:
        out.line(f"  {row['words']}", Styled(f"  ({row['reason']})", "dim"))


def _show_scope(out: Output, opened: Opened, scope: dict[str, Any], store: FileStore) -> None:
    out.line()
    out.line(Styled(scope["scope"], "bold"), Styled(f"  {scope['path']}", "dim"))
    types = ", ".join(f"{count} {kind}" for kind, count in scope["types"].items() if count)
    pinned = f", {scope['pinned']} pinned" if scope["pinned"] else ""
    out.line(f"  memories  {scope['memories']}", f" ({types}{pinned})" if types else "")
    fill = scope["index"]
    out.line(f"  index     {fill['share']:.0%} full ({fill['lines']} lines, {fill['bytes']:,} bytes)")
    out.line(f"  history   {scope['history']['acts']} acts, {scope['history']['bytes']:,} bytes")
    last = next(iter(store.acts(limit=1)), None)
    if last is not None:
        when = show_time(out, last.at, opened.now())
        out.line(f"  last      {last.verb} {', '.join(find_names(last))} by {last.origin.who}, {when}")
