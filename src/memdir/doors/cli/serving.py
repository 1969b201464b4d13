"""`mcp`: memory as a server for agents. What it does is the MCP door's."""

from pathlib import Path

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.verb import Verb

_PORT = 7337


@click.command(
    "mcp",
    short_help="Serve memory to an agent by MCP.",
    cls=Verb,
    examples=("memdir mcp", "memdir mcp --project ~/work/app", "memdir mcp --http --port 7337"),
)
@click.option("--project", type=click.Path(), help="The project's folder; without it the one that this is started in.")
@click.option("--http", is_flag=True, help="Serve on loopback instead of standard input and output.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="With --http; 0 takes a free one."
)
@click.option("--token-file", type=click.Path(), help="With --http: where the bearer token is kept; made if missing.")
@click.pass_obj
def mcp_verb(call: Call, project: str | None, http: bool, port: int, token_file: str | None) -> int:
    """Serve memory by the Model Context Protocol: tools, memories as resources, and prompts.

    An agent starts it as `memdir mcp` and talks to it on standard input and output. With --http it listens on
    127.0.0.1 for clients that show the token; the address is printed, the token never is.
    """
    return call.enter(
        "mcp",
        cwd=_find(call, project) or call.cwd,
        directory=call.directory,
        http=http,
        port=port,
        token_file=_find(call, token_file),
    )


def _find(call: Call, text: str | None) -> Path | None:
    return None if text is None else (call.cwd / Path(text).expanduser()).absolute()
