"""The MCP door: memory for every program that speaks the Model Context Protocol, on the official SDK.

    place.py      from a call to open stores        token.py      the secret a client on loopback has to show
    server.py     what the SDK asks, answered       loopback.py   HTTP: who may come in, and the server itself
    showing.py    tools, memories and prompts in the protocol's shapes

It translates and holds no rule of memory: tools are `toolset`'s, words for models are in prompts/mcp. Nothing is kept
between two requests, so any number of clients may call at once; what they write is ordered by the store's own lock.

What it does not do: ask the client for anything (sampling, roots and elicitation are not used), tell of changes, or
listen anywhere but on loopback.
"""

import gc
from pathlib import Path

from memdir.doors.mcp.place import Place
from memdir.doors.mcp.token import open_token
from memdir.errors import SettingsError
from memdir.settings import read_environment


def serve(*, cwd: Path, directory: Path | None, http: bool, port: int, token_file: Path | None) -> int:
    """Serve until the client goes, or on loopback until somebody stops it; answers the exit code."""
    place = Place(cwd, directory)
    place.check()
    try:
        # Imported here: the SDK takes a second to load, and is an extra.
        from memdir.doors.mcp.server import serve_stdio
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "memdir":
            raise
        hint = "pip install 'memdir[mcp]'"
        raise SettingsError("the MCP server needs the MCP SDK, which is not installed", hint=hint) from None
    # A call of the command line does without the collector; this one may live for days.
    gc.freeze()
    gc.enable()
    if not http:
        return serve_stdio(place)
    from memdir.doors.mcp.loopback import serve_loopback

    state = read_environment().state_home
    return serve_loopback(place, port, open_token(token_file or state / "mcp-token"))
