"""`show`: what a session would load, after the cut and with the warning."""

from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Styled
from memdir.doors.cli.verb import Verb, json_option
from memdir.instructions import Instructions, Loaded, find_frame, load_indexes
from memdir.project_files import DISABLED
from memdir.tokens import estimate_tokens


@click.command(
    "show", short_help="What a session would load.", cls=Verb, examples=("memdir show", "memdir show --json")
)
@json_option
@click.pass_obj
def show_verb(call: Call, as_json: bool) -> None:
    """Print what a session would load: each index after the cut, with the warning if there was one."""
    opened = call.open()
    switch = opened.places.switch
    clips = load_indexes(find_frame(opened))
    if as_json:
        call.out.json({"on": switch.on, "rule": switch.rule, "indexes": [make_index_row(at) for at in clips]})
        return
    if not switch.on:
        call.out.line(f"memory is off ({switch.rule}): a session loads nothing")
    elif opened.environment.disable_claude_mds:
        call.out.line(f"{DISABLED} is set: a session loads no index")
    for number, loaded in enumerate(clips):
        if number:
            call.out.line()
        show_index(call, loaded)


def make_index_row(loaded: Loaded) -> dict[str, Any]:
    clip = loaded.clip
    return {
        "scope": loaded.scope.value,
        "path": loaded.path,
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


def make_part_rows(told: Instructions) -> list[dict[str, Any]]:
    """What a session is told of its memory, piece by piece and how large; an index has a path."""
    guidance = [{"part": part.name, "path": None, **measure_text(part.text)} for part in told.parts]
    heading = [{"part": "index", "path": None, **measure_text(told.heading)}] if told.heading else []
    indexes = [
        {"part": f"index of {loaded.scope.value} memory", "path": loaded.path, **measure_text(loaded.text)}
        for loaded in told.clips
        if loaded.text
    ]
    return [*guidance, *heading, *indexes]


def measure_text(text: str) -> dict[str, int]:
    return {"chars": len(text), "bytes": len(text.encode("utf-8", "replace")), "tokens": estimate_tokens(text)}


def show_index(call: Call, loaded: Loaded) -> None:
    clip = loaded.clip
    dead = f", {clip.dead} to missing files left out" if clip.dead else ""
    counts = f"{clip.lines} of {clip.lines_total} lines, {clip.bytes:,} of {clip.bytes_total:,} bytes{dead}"
    call.out.line(Styled(f"{loaded.scope}: {loaded.path}", "bold"), Styled(f" ({counts})", "dim"))
    if clip.text:
        call.out.block(clip.text)
    else:
        call.out.line("nothing to load")
    if clip.warning:
        call.out.line(Styled(f"> {clip.warning}", "yellow"))
