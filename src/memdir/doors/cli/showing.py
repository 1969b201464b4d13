"""`show`: what a session would load, after the cut and with the warning."""

from typing import Any

import click

from memdir.clip import clip_index
from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Styled
from memdir.doors.cli.verb import Verb, json_option
from memdir.index import INDEX_FILE
from memdir.records import Clip
from memdir.store.files import FileStore


@click.command(
    "show", short_help="What a session would load.", cls=Verb, examples=("memdir show", "memdir show --json")
)
@json_option
@click.pass_obj
def show_verb(call: Call, as_json: bool) -> None:
    """Print what a session would load: each index after the cut, with the warning if there was one."""
    opened = call.open()
    switch = opened.places.switch
    order = opened.settings.text("index_order")
    clips = [(store, _clip(store, order)) for store in opened.stores] if switch.on else []
    if as_json:
        indexes = [_make_row(store, clip) for store, clip in clips]
        call.out.json({"on": switch.on, "rule": switch.rule, "indexes": indexes})
        return
    if not switch.on:
        call.out.line(f"memory is off ({switch.rule}): a session loads nothing")
    for number, (store, clip) in enumerate(clips):
        if number:
            call.out.line()
        _show(call, store, clip)


def _clip(store: FileStore, order: str) -> Clip:
    return clip_index(store.index(), store.scan(), order=order, file=str(store.root / INDEX_FILE))


def _show(call: Call, store: FileStore, clip: Clip) -> None:
    dead = f", {clip.dead} to missing files left out" if clip.dead else ""
    counts = f"{clip.lines} of {clip.lines_total} lines, {clip.bytes:,} of {clip.bytes_total:,} bytes{dead}"
    call.out.line(Styled(f"{store.scope}: {store.root / INDEX_FILE}", "bold"), Styled(f" ({counts})", "dim"))
    if clip.text:
        call.out.block(clip.text)
    else:
        call.out.line("nothing to load")
    if clip.warning:
        call.out.line(Styled(f"> {clip.warning}", "yellow"))


def _make_row(store: FileStore, clip: Clip) -> dict[str, Any]:
    return {
        "scope": store.scope.value,
        "path": str(store.root / INDEX_FILE),
        "text": clip.text,
        "lines": clip.lines,
        "lines_total": clip.lines_total,
        "bytes": clip.bytes,
        "bytes_total": clip.bytes_total,
        "dead": clip.dead,
        "over_lines": clip.over_lines,
        "over_bytes": clip.over_bytes,
        "warning": clip.warning,
    }
