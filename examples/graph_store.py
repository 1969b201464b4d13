"""A LangGraph graph whose store is a memory directory.

    python examples/graph_store.py ~/agent/memory < lines.txt

It answers each line with what it already knows about it, and keeps the line. There is no model in it: put one where
`answer` is. The values lie in `memory/users/…` as Markdown that people can read and change.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.store.base import BaseStore

import memdir
from memdir.interfaces.sdk.langgraph import MemdirStore

NAMESPACE = ("users", "somebody")


class State(TypedDict):
    line: str
    reply: str


def answer(state: State, *, store: BaseStore) -> dict[str, str]:
    found = [at for at in store.search(NAMESPACE, query=state["line"], limit=3) if at.score is not None]
    return {"reply": "; ".join(str(at.value["text"]) for at in found[:1]) or "I did not know that."}


def keep(state: State, *, store: BaseStore) -> dict[str, str]:
    number = len(store.search(NAMESPACE, limit=10_000)) + 1
    store.put(NAMESPACE, f"line-{number}", {"text": state["line"], "number": number})
    return {}


def chat(memory: Path, lines: Iterable[str]) -> None:
    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("keep", keep)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "keep")
    builder.add_edge("keep", END)
    graph = builder.compile(store=MemdirStore(memdir.FileStore(memory)))
    for line in lines:
        print(graph.invoke({"line": line, "reply": ""})["reply"], flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]), (line.strip() for line in sys.stdin if line.strip()))
