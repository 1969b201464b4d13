"""Picks one door and imports only that one."""

import gc
import os
import sys
from typing import Any


def main() -> int:
    # A call lives for a fraction of a second: looking for garbage costs it a tenth of that and finds none.
    gc.disable()
    if sys.argv[1:2] == ["hook"] and sys.argv[2:] not in (["-h"], ["--help"]):
        from memdir.interfaces.hooks import run_hook

        # At once: what is late is not waited for, and nothing is left in a buffer.
        os._exit(run_hook(sys.argv[2:]))
    # Imported here: the hook door, which runs at every prompt, must not pay for the command line's libraries.
    from memdir.interfaces.cli import run

    code = run(sys.argv[1:], doors={"mcp": _serve_mcp, "chat": _chat, "demo": _demo})
    gc.freeze()
    return code


def _chat(**wish: Any) -> int:
    from memdir.interfaces.chat import chat
    from memdir.interfaces.cli import run

    return chat(run_verb=run, **wish)


def _demo(**wish: Any) -> int:
    from memdir.interfaces.chat import demo
    from memdir.interfaces.cli import run

    return demo(run_verb=run, **wish)


def _serve_mcp(**wish: Any) -> int:
    # Imported here: one call in thousands starts a server.
    from memdir.interfaces.mcp import serve

    return serve(**wish)


if __name__ == "__main__":
    sys.exit(main())
