"""Starts one interface and imports only that one."""

import gc
import os
import sys
from typing import Any


def main() -> int:
    # A call lives for a fraction of a second: collecting garbage costs it a tenth of that and finds none.
    gc.disable()
    if sys.argv[1:2] == ["hook"] and sys.argv[2:] not in (["-h"], ["--help"]):
        # A hook runs at every prompt and must not pay for the command line's libraries.
        from memdir.interfaces.hooks import run_hook

        # Exit at once: threads that are late are not waited for, and nothing is left in a buffer.
        os._exit(run_hook(sys.argv[2:]))
    from memdir.interfaces.cli import run

    code = run(sys.argv[1:], interfaces={"mcp": _serve_mcp, "chat": _chat, "demo": _demo})
    gc.freeze()
    return code


def _chat(**options: Any) -> int:
    from memdir.interfaces.chat import chat
    from memdir.interfaces.cli import run

    return chat(run_verb=run, **options)


def _demo(**options: Any) -> int:
    from memdir.interfaces.chat import demo
    from memdir.interfaces.cli import run

    return demo(run_verb=run, **options)


def _serve_mcp(**options: Any) -> int:
    from memdir.interfaces.mcp import serve

    return serve(**options)


if __name__ == "__main__":
    sys.exit(main())
