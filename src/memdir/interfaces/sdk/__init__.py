"""Adapters: a memdir store behind the memory seams of other people's SDKs, one thin file each, each an extra.

    anthropic.py      the memory tool `memory_20250818`; what it does, without the SDK: paths, pages, views, commands
    claude_agent.py   Claude Agent SDK: hooks and tools in its own process
    openai_agents.py  OpenAI Agents SDK: a Session that learns, an input filter that recalls, tools
    langgraph.py      LangGraph: a BaseStore; its values as memory files: items
    pydantic_ai.py    pydantic-ai: a capability, a toolset
    tooling.py        the memory tools, for all of them that have tools

They translate and hold no rule of memory. None is imported before somebody asks for it; without its SDK an adapter says
which extra brings it.
"""


def make_missing(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """What to raise in the place of an import that failed: the same, with what to do about it."""
    if (error.name or "").partition(".")[0] == "memdir":
        return error
    message = f"this adapter needs {error.name}, which is not installed: pip install 'memdir[{extra}]'"
    return ModuleNotFoundError(message, name=error.name)
