"""`memdir chat` with a model: a scripted one behind the strict loopback, over streaming."""

import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chat_talk import CHAT, FORK, THREE_DAYS, Chats, answer_to, is_fork, last_text, list_reminders, texts_of
from opinions import accept_all, find_opinion
from servers import AnthropicServer, Call, Fault, OpenAIServer, Say, read_blocks

DATA = Path(__file__).parents[1] / "data"
WAIT = 60  # seconds, for a slow machine; nothing here takes one of them

# What the scripted model keeps of what it hears: a word of the message -> file, type, description.
KEEPS = {
    "data scientist": ("role", "user", "The user is a data scientist who is new to Rust"),
    "summarise": ("no-summary", "feedback", "A reply should end without a summary, the user reads the diff"),
    "Thursday": ("freeze", "project", "We freeze all merges from 2026-03-05, the mobile team cuts its release"),
    "Friday": (
        "freeze",
        "project",
        "We freeze all merges from 2026-03-06, the mobile team cuts its release a day later",
    ),
    "Linear": ("tracker", "reference", "Pipeline bugs are tracked in Linear"),
    "Jira": ("tracker", "reference", "Pipeline bugs are tracked in Jira"),
}
# A task or question for which it should come up, as a model is asked to write one.
CUES = {
    "no-summary": "how should an answer end?",
    "freeze": "until when can I merge?",
    "tracker": "where do I file a defect of the pipeline?",
    "role": "how much Rust do I know?",
}
# Which of them it needs for a question.
ASKED = {"reply end": "no-summary", "can I merge": "freeze", "a defect": "tracker", "Rust do I": "role"}


class Keeper:
    """A model that answers with what it was reminded of and, as a fork, keeps what it heard."""

    def __init__(self, chats: Chats) -> None:
        self._memory = chats.memory
        self.forks: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> Any:
        if (opinion := find_opinion(body, accept_all)) is not None:
            return opinion
        if is_fork(body):
            self.forks.append(body)
            return self._keep(body)
        self.asked.append(body)
        (said,) = [text for text in texts_of(body["messages"][-1]) if "<system-reminder>" not in text][-1:] or [""]
        wanted = next((name for words, name in ASKED.items() if words in said), "")
        told = [text for text in list_reminders(body) if wanted and f"/{wanted}.md:" in text]
        return f"I recall: {_cut(told[0], wanted)}" if told else "I see."

    def _keep(self, body: dict[str, Any]) -> Any:
        if not any("memory keeper" in text for text in texts_of(body["messages"][-1])):
            return "done"
        heard = [text for message in body["messages"][:-1] if message["role"] == "user" for text in texts_of(message)]
        heard = [text for text in heard if "<system-reminder>" not in text]
        kept = {KEEPS[word][0]: KEEPS[word] for text in heard for word in KEEPS if word in text}
        calls = [self._write(*row) for row in kept.values()]
        return [Say("I keep this."), *calls] if calls else "done"

    def _write(self, name: str, kind: str, description: str) -> Call:
        cue = CUES.get(name, f"what about {name}?")
        head = f"name: {name}\ndescription: {description}\ntype: {kind}\ncues:\n  - {cue}"
        text = f"---\n{head}\n---\n\n{description}.\n"
        return Call("write", {"path": str(self._memory / f"{name}.md"), "content": text})


def _cut(reminders: str, name: str) -> str:
    """The one reminder of several that is about a memory."""
    return next(at for at in reminders.split("</system-reminder>") if f"/{name}.md:" in at)


@pytest.fixture
def chats(tmp_path: Path) -> Chats:
    return Chats(tmp_path)


def test_three_days_against_the_strict_api(chats: Chats) -> None:
    keeper = Keeper(chats)
    with AnthropicServer(keeper) as server:
        chats.with_model(server.url)
        events = chats.events(THREE_DAYS)
        assert server.problems == []
        assert all(request.body.get("stream") for request in server.requests if request.body in keeper.asked)
    answers = {heard["text"]: said["text"] for heard, said in _pair(events)}
    assert answers["how should a reply end?"] == "I see.", "a standing rule is in the index and not recalled"
    assert "A reply should end without a summary" in json.dumps(keeper.asked[-1]["messages"][0])
    assert (
        "from 2026-03-06" in answers["until when can I merge?"]
        and "2026-03-05" not in answers["until when can I merge?"]
    )
    assert "tracked in Jira" in answers["where do I file a defect of the pipeline?"]
    assert "Linear" not in answers["where do I file a defect of the pipeline?"]
    assert "staging" not in answers["when is staging emptied?"]
    names = {path.stem for path in chats.memory.glob("*.md")} - {"MEMORY"}
    assert names == {"role", "no-summary", "freeze", "tracker"}

    text = "\n".join(list_reminders(keeper.asked[-1]))
    assert {name: text.count(f"/{name}.md:") for name in names} == {
        "freeze": 1,
        "tracker": 1,
        "role": 0,
        "no-summary": 0,
    }
    recalled = [event for event in events if event["event"] == "recalled"]
    assert recalled and all(event["tokens"] > 0 and event["text"].startswith("[Recalled: ") for event in recalled)
    saved = [event for event in events if event["event"] == "saved"]
    assert {name for event in saved for name in event["written"]} >= names
    # The cache: what a turn sends again is read from it, and a fork reads nearly all of its parent.
    later = [usage for usage in server.usages[6:] if usage["cache_read_input_tokens"]]
    assert len(later) > len(server.usages[6:]) / 2
    assert "cached" in [event for event in events if event["event"] == "answer"][-1]["usage"]


def _pair(events: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each message with the answer that follows it."""
    found = [event for event in events if event["event"] in ("heard", "answer")]
    return [pair for pair in pairwise(found) if pair[1]["event"] == "answer"]


def test_learning_goes_on_beside_and_the_next_prompt_does_not_wait(chats: Chats) -> None:
    """The first fork is answered when the second prompt has arrived, and that one when the fork has: both at once."""
    keeper = Keeper(chats)
    learning, asking = threading.Event(), threading.Event()
    met: list[bool] = []

    def answer(body: dict[str, Any]) -> Any:
        if is_fork(body) and not learning.is_set():
            learning.set()
            met.append(asking.wait(WAIT))
        elif not is_fork(body) and keeper.asked and not asking.is_set():
            asking.set()
            met.append(learning.wait(WAIT))
        return keeper(body)

    with AnthropicServer(answer) as server:
        chats.with_model(server.url)
        shown = chats.play("I'm a data scientist, new to Rust.\nhello there\n").out
        assert server.problems == []
    assert met == [True, True]
    assert shown.count("I see.") == 2 and "[Memory saved: role.md]" in shown


def test_tools_are_asked_for_and_stay_below_the_project(chats: Chats) -> None:
    (chats.project / "app.py").write_text("limit = 3\n", encoding="utf-8")
    (chats.home / "outside.txt").write_text("secret\n", encoding="utf-8")
    (chats.project / "link").symlink_to(chats.home)
    (chats.project / ".env").write_text("KEY=1\n", encoding="utf-8")
    steps = [
        [Call("read", {"path": "app.py"}), Call("search", {"query": "limit", "path": "*.py"})],
        [Call("edit", {"path": "app.py", "old": "limit = 3", "new": "limit = 4"})],
        [Call("write", {"path": "docs/new.md", "content": "# New\n"})],
        [Call("read", {"path": "../outside.txt"}), Call("read", {"path": "link/outside.txt"})],
        [Call("write", {"path": "link/evil.txt", "content": "x"}), Call("read", {"path": ".env"})],
        [Call("edit", {"path": "app.py", "old": "nowhere", "new": "x"}), Call("shell", {"command": "ls"})],
        "All done.",
    ]

    def play(allowed: list[str]) -> tuple[str, list[str]]:
        script: Iterator[Any] = iter(steps)
        with AnthropicServer(lambda body: "done" if is_fork(body) else next(script)) as server:
            chats.with_model(server.url)
            shown = chats.play("raise the limit\n", *allowed).out
            assert server.problems == []
            body = next(at.body for at in reversed(server.requests) if not is_fork(at.body))
        results = [
            block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
            for message in body["messages"] if message["role"] == "user" and not isinstance(message["content"], str)
            for block in message["content"] if block["type"] == "tool_result"
        ]  # fmt: skip
        return shown, results

    shown, results = play([])
    assert all("did not allow" in at or "efused" in at for at in results) and len(results) == 10
    assert (chats.project / "app.py").read_text(encoding="utf-8") == "limit = 3\n"
    shown, results = play(["--allow", "look", "--allow", "change"])
    assert "limit = 3" in results[0] and "app.py:1" in results[1]
    assert results[2] == "Changed app.py." and results[3] == "Wrote docs/new.md."
    assert (chats.project / "app.py").read_text(encoding="utf-8") == "limit = 4\n"
    assert (chats.project / "docs" / "new.md").is_file() and not (chats.home / "evil.txt").exists()
    assert all("efused" in at or "there is no" in at.lower() for at in results[4:]), results[4:]
    assert "secret" not in "".join(results) and "KEY=1" not in "".join(results)
    assert "-limit = 3" in shown and "+limit = 4" in shown and "All done." in shown


def test_the_other_protocol_answers_and_uses_tools_too(chats: Chats) -> None:
    (chats.project / "app.py").write_text("limit = 3\n", encoding="utf-8")
    script: Iterator[Any] = iter([[Call("read", {"path": "app.py"})], "It is three."])

    def answer(body: dict[str, Any]) -> Any:
        is_chat = CHAT in str(body["messages"][0]) and FORK not in str(body["messages"])
        return next(script) if is_chat else "done"

    with OpenAIServer(answer) as server:
        chats.with_model(server.url)
        shown = chats.play(
            "what is the limit?\n", "--allow", "look", "--model", "openai:gpt-test", OPENAI_API_KEY="sk"
        ).out
        assert server.problems == []
    assert "[read app.py]" in shown and "It is three." in shown


def test_the_model_writes_memory_through_the_store(chats: Chats) -> None:
    text = "---\nname: Deploys\ndescription: Deploys happen on Tuesdays only\ntype: project\n---\n\nOn Tuesdays only.\n"
    path = str(chats.memory / "deploys.md")
    script: Iterator[Any] = iter([[Call("write", {"path": path, "content": text})], "Kept."])
    with AnthropicServer(lambda body: "done" if is_fork(body) else next(script)) as server:
        chats.with_model(server.url)
        shown = chats.play("we deploy on Tuesdays only\n/undo\n").out
        assert server.problems == []
    assert "[Memory saved: deploys.md]" in shown and "undone: change 1" in shown
    assert not (chats.memory / "deploys.md").exists()
    assert "agent" in chats("history").out


def test_the_model_deletes_a_memory_and_is_not_told_to_keep_the_index(chats: Chats) -> None:
    chats.save("yarn", "Packages are installed with yarn.")
    script: Iterator[Any] = iter([[Call("delete", {"path": str(chats.memory / "yarn.md")})], "Gone."])
    asked: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Any:
        asked.append(body)
        return "done" if is_fork(body) else next(script)

    with AnthropicServer(answer) as server:
        chats.with_model(server.url)
        shown = chats.play("forget the yarn thing\n").out
        assert server.problems == []
    assert "[Memory forgotten: yarn.md]" in shown and "Memory saved" not in shown
    assert not (chats.memory / "yarn.md").exists() and "yarn" not in (chats.memory / "MEMORY.md").read_text("utf-8")
    assert "leave it alone" in str(asked[0]["system"]) and "add a line to" not in str(asked[0]["system"])


def test_a_daily_log_is_kept_by_the_path_that_the_request_names(chats: Chats) -> None:
    asked: list[dict[str, Any]] = []

    def answer(body: dict[str, Any]) -> Any:
        if is_fork(body):
            return "done"
        asked.append(body)
        told = next((text for text in reversed(list_texts(body)) if "is logged from here on" in text), "")
        path = told.partition("goes into `")[2].partition("`")[0]
        said = last_text(body)
        return [Call("write", {"path": path, "content": f"- 10:00 {said}\n"})] if said.startswith("log") else "Logged."

    with AnthropicServer(answer) as server:
        chats.with_model(server.url)
        chats.play("/now 2026-03-02\nlog one\n/now 2026-03-03\nlog two\n", MEMDIR_DAILY_LOG="1")
        assert server.problems == []
    logs = sorted((chats.memory / "logs").rglob("*.md"))
    assert [(at.name, at.read_text("utf-8")) for at in logs] == [
        ("2026-03-02.md", "- 10:00 log one\n"), ("2026-03-03.md", "- 10:00 log two\n")
    ]  # fmt: skip
    first = list_texts(asked[0])
    assert any("Today is Monday, 2026-03-02 (time zone UTC" in text for text in first)
    assert "2026-03" not in str(asked[0]["system"]) + first[0], "the prefix carries no date"


def list_texts(body: dict[str, Any]) -> list[str]:
    return [text for message in body["messages"] for text in texts_of(message)]


@pytest.mark.parametrize("kind", ["auth", "refusal", "cut_call"])
def test_a_model_that_fails_ends_the_turn_and_not_the_chat(chats: Chats, kind: str) -> None:
    answers: Iterator[Any] = iter([Fault(kind), "Here I am."])  # type: ignore[arg-type]
    with AnthropicServer(lambda body: "done" if is_fork(body) else next(answers, "Here I am.")) as server:
        chats.with_model(server.url)
        shown = chats.play("remember that we deploy on Tuesdays\nare you there?\n/cost\n").out
        assert server.problems == []
    assert "Here I am." in answer_to(shown, "are you there?") and "tokens in" in shown
    assert "Tuesdays" in (chats.memory / "MEMORY.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_ten_turns_with_the_recorded_answers_of_a_capable_model(chats: Chats) -> None:
    """Each answer belongs to what the person said or to the results of tools: learning beside may come at any time."""
    recorded = json.loads((DATA / "chat_answers.json").read_text(encoding="utf-8"))
    places = {"private": chats.memory, "user": chats.home / ".claude" / "memory"}

    def answer(body: dict[str, Any]) -> Any:
        if is_fork(body):
            return read_blocks(recorded["learning"])
        results = [at["content"] for at in body["messages"][-1]["content"] if at["type"] == "tool_result"]
        blocks = recorded["results"]["\n".join(results)] if results else recorded["said"][last_text(body)]
        return read_blocks(blocks, **places)

    with AnthropicServer(answer) as server:
        chats.with_model(server.url)
        given = "".join(f"{line}\n" for line in ("/now 2026-11-17", *recorded["said"]))
        played = chats.real("chat", given=given.encode())
        assert server.problems == []
        assert all(find_opinion(at.body) is None for at in server.requests), "none was recorded"
    assert (played.code, played.err) == (0, "")
    names = {(at["name"], at["scope"]) for at in chats("list", "--json").json}
    assert names == {("rena-background", "user"), ("audit-freeze", "private"), ("billing-grafana-board", "private")}
    saved = ["rena-background", "short-lists", "audit-freeze", "billing-grafana-board"]
    notices = [line for line in played.lines if line.startswith("[Memory ")]
    assert sorted(notices) == sorted(
        [*(f"[Memory saved: {name}.md]" for name in saved), "[Memory forgotten: short-lists.md]"]
    )
    assert "[Memory forgotten: short-lists.md]" in answer_to(played.out, list(recorded["said"])[6])
    assert "until 9 December" in answer_to(played.out, "when is the freeze again?")
