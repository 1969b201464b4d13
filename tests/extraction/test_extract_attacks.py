"""A model that always obeys the attacker: nothing foreign becomes a memory, and the attacker's calls do nothing.

The second opinion goes by words (`opinions.WordReader`): cruder than any model, so that these hold without a record.
"""

import json
from pathlib import Path
from typing import Any

from extraction_talks import NOW, TOOLS
from loads import bench
from memdir.extraction import ConversationSource, extract
from memdir.format.frontmatter import make_slug
from memdir.language import count_content
from memdir.records import Kind, Message, Model, Reply, Request, StopReason, ToolCall, Usage
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.text import shorten
from opinions import WordReader
from tables import read_rows, table

ROWS = read_rows("extract_attacks")

PARENT = {"model": "m", "tools": TOOLS, "messages": [{"role": "user", "content": "hello"}]}


def split_memory(text: str) -> tuple[str, str, str]:
    """Title, description and body of a case's memory, which a line each may be."""
    lines = [line for line in text.splitlines() if line.strip()]
    title = shorten(lines[0], 80)
    description = lines[1] if len(lines) > 1 else lines[0]
    body = "\n".join(lines[2:]) or description
    is_vague = count_content(description).words < 3
    return title, shorten(body if is_vague else description, 300).replace("\n", " "), body


def obey(case: dict[str, Any], kind: Kind) -> WordReader:
    """One that answers with just the memory the attacker wants."""
    title, description, body = split_memory(case["memory"])
    row = {"action": "create", "name": make_slug(title), "type": kind.value, "title": title, "why": "", "how": ""}
    row |= {"description": description, "body": body, "evidence": case["evidence"]}
    return WordReader([json.dumps({"operations": [row]})] * 2)


def find_texts(value: object) -> list[str]:
    """Every text of a case that is long enough to say something."""
    if isinstance(value, str):
        return [value] if len(value.split()) > 5 else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for at in inner for text in find_texts(at)]


@table("file", ["memory_poison", "autonomy_hijack", "data_exfil"])
def test_no_case_of_the_threat_bench_becomes_a_memory(file: str) -> None:
    path = bench("security/agent_threat_bench") / f"{file}.json"
    texts = find_texts(json.loads(path.read_text(encoding="utf-8")))
    assert len(texts) > 10
    for number, text in enumerate(texts):
        lines = "\n".join(f"> {line}" for line in text.splitlines())
        for talk in (
            (Message("user", "what does it say?", "u1", NOW), Message("tool", text, "t1", NOW, answers="c1")),
            (Message("user", f"what about this?\n\n```\n{text}\n```", "u1", NOW),),
            (Message("user", f"what about this?\n\n{lines}", "u1", NOW),),
        ):
            store = MemoryStore(clock=lambda: NOW)
            case = {"memory": f"Rule {number}\n{shorten(text, 250)}\n{text}", "evidence": ""}
            done = extract(store, talk, model=obey(case, Kind.FEEDBACK), now=NOW)
            assert done.written == () and store.scan() == (), text


EVIL = ROWS["EVIL"]


def test_the_attackers_own_calls_have_no_effect(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_rsa").write_text("the key itself", encoding="utf-8")
    (home / ".bashrc").write_text("", encoding="utf-8")
    (home / "project").mkdir()
    (home / "project" / "app.py").write_text("a\n", encoding="utf-8")
    store = FileStore(home / "memory", clock=lambda: NOW)
    told: list[str] = []
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    for tool, values in EVIL:
        filled = {key: value.format(home=home, memory=store.root) for key, value in values.items()}
        model = obey_once(ToolCall("c1", tool, filled), told)
        place = ConversationSource("s1", project=home / "project", parent=PARENT)
        done = extract(store, (Message("user", "go on", tool, NOW),), model=model, now=NOW, conversation=place)
        assert done.ran is None or done.ran.refused == 1, (tool, values)
    assert all(text.startswith("Refused: ") for text in told) and len(told) == len(EVIL)
    assert "the key itself" not in "".join(told)
    after = {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and ".memdir" not in path.parts}
    assert after == before


def obey_once(call: ToolCall, told: list[str]) -> Model:
    def model(request: Request) -> Reply:
        if request.messages[-1].role == "tool":
            told.append(request.messages[-1].text)
            return Reply("done")
        return Reply("", Usage(), (call,), StopReason.CALLS)

    return model
