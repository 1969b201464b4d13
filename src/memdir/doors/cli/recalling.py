"""`recall`: what fits a question."""

from typing import Any

import click

from memdir.doors.cli.answering import answer
from memdir.doors.cli.call import Call
from memdir.doors.cli.quick import Wish
from memdir.doors.cli.verb import Verb, json_option
from memdir.limits import SELECTED


@click.command(
    "recall",
    short_help="What fits a question.",
    cls=Verb,
    examples=("memdir recall 'how do we deploy?'", "memdir recall --explain --no-semantic 'who reviews migrations?'"),
)
@click.argument("query", nargs=-1, required=True, metavar="QUERY")
@click.option("--session", metavar="ID", default="", help="The conversation: what it was given already is left out.")
@click.option("--tools", metavar="A,B", default="", help="Tools in use at the moment.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=SELECTED, show_default=True, help="At most so many memories."
)
@click.option(
    "--explain", is_flag=True, help="Every candidate with the parts of its score; nothing counts as recalled by it."
)
@click.option("--no-semantic", is_flag=True, help="By the words alone, not by their meaning.")
@json_option
@click.pass_obj
def recall_verb(call: Call, /, **options: Any) -> None:
    """Print the memories that fit a question, or say why there are none: nothing is a good answer, and exits with 0.

    They come as a conversation would be given them: with their age, cut where they are long. `memdir why NAME` tells
    later for which questions a memory came up. In a pipe, --explain prints name, score, its three parts, the words
    that matched, and `taken` or why not, with tabs between.
    """
    answer(call, Wish(**options))
