import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memdir.errors import ReplyError, UnreachableError
from memdir.format.shown import show_header
from memdir.limits import MANIFEST_ENTRIES, MANIFEST_NEWEST, SELECT_TOKENS
from memdir.recall.pipeline import recall
from memdir.recall.prefetch import SCHEMA, ModelSelector, parse_selected
from memdir.records import Evidence, Header, Kind, Pick, Query, Reply, Scope, Signature
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from memdir.testing import ScriptedModel
from recall_stores import NOW, overlap, put
from tables import table

START = datetime(2026, 1, 1, tzinfo=UTC)


def header(name: str, description: str = "some words", *, day: int = 0) -> Header:
    modified = START + timedelta(days=day)
    return Header(name, name, description, Kind.PROJECT, Scope.PRIVATE, modified, False, Signature(day, 2, 3, 4))


def answer(*files: str) -> str:
    return json.dumps({"selected_memories": files})


def names(picks: Sequence[Pick]) -> list[str]:
    return [pick.header.name for pick in picks]


HEADERS = [
    header(name, day=day) for day, name in enumerate(["deploy", "team/rota", "coffee", "Terse-Replies", "x", "y"])
]


def select(model: ScriptedModel, text: str = "how do we deploy", limit: int = 5) -> Sequence[Pick]:
    return ModelSelector(model, overlap)(Query(text, now=NOW), HEADERS, limit)


def test_the_model_is_shown_rules_manifest_tools_and_query_and_its_choice_is_taken() -> None:
    model = ScriptedModel([answer("coffee.md", "deploy.md")])
    picks = ModelSelector(model, overlap)(Query("how do we deploy", ("Bash", "mcp__x"), now=NOW), HEADERS, 5)
    assert names(picks) == ["coffee", "deploy"] and picks[0].score > picks[1].score
    assert {pick.by for pick in picks} == {"model"}
    (request,) = model.requests
    assert request.max_tokens == SELECT_TOKENS and request.schema == SCHEMA and "selected_memories" in request.system
    listed, asked = (message.text for message in request.messages)
    assert listed.endswith("\n".join(show_header(at) for at in HEADERS)), "oldest first"
    assert "Bash, mcp__x" in asked and asked.endswith("how do we deploy")
    assert all(message.role == "user" for message in request.messages)


def test_the_date_is_named_and_no_tools_are_not() -> None:
    model = ScriptedModel([answer()])
    assert select(model) == []
    assert model.requests[0].messages[1].text == "Today is Wednesday 2026-05-20. The message:\n\nhow do we deploy"


@table(
    "text",
    [
        answer("deploy.md"),
        f"```json\n{answer('deploy.md')}\n```",
        f"Here you are:\n{answer('deploy.md')}\nI hope that helps {{you}}.",
        '["deploy.md"]',
        'Of [these] I take {"selected_memories": ["deploy.md", "deploy.md", 7, null, "gone.md"]}',
        answer("deploy"),
        answer("./Deploy.md"),
        answer("- [project] deploy.md (2026-01-01T00:00:00Z): some words"),
        answer("`deploy.md`", "../../etc/passwd", ""),
    ],
)
def test_a_choice_is_understood_however_it_is_wrapped(text: str) -> None:
    model = ScriptedModel([text])
    assert names(select(model)) == ["deploy"] and len(model.requests) == 1


def test_at_most_five_are_taken_and_no_more_than_asked_for() -> None:
    everything = answer(*(at.file for at in HEADERS))
    assert len(select(ScriptedModel([everything]))) == 5
    assert len(select(ScriptedModel([everything]), limit=2)) == 2
    assert len(select(ScriptedModel([everything]), limit=50)) == 5
    assert select(ScriptedModel([]), limit=0) == ()
    assert ModelSelector(ScriptedModel([]), overlap)(Query("a b", now=NOW), [], 5) == ()


@table("broken", ["", "I would take deploy.md", '{"selected": []}', '{"selected_memories": "x"}', "{" * 9999])
def test_a_broken_answer_is_sent_back_once_with_what_was_wrong(broken: str) -> None:
    model = ScriptedModel([broken, answer("coffee.md")])
    assert names(select(model)) == ["coffee"]
    first, second = model.requests
    assert second.messages[:2] == first.messages and second.system == first.system, "the prefix stays cached"
    assert second.messages[2].role == "assistant" and second.messages[3].role == "user"
    assert "could not be used" in second.messages[3].text


def test_after_a_second_broken_answer_or_an_error_the_local_selector_answers() -> None:
    for model in (
        ScriptedModel(["no", "no again"]),
        ScriptedModel([UnreachableError("no line")]),
        ScriptedModel(["no", UnreachableError("no line")]),
    ):
        picks = select(model)
        assert names(picks) == ["deploy"] and picks[0].by == ""


def test_parse_names_says_what_is_wrong() -> None:
    for text, words in (
        ("", "empty"),
        ("prose", "no JSON"),
        ("{}", "no list"),
        ('{"selected_memories": 3}', "no list"),
    ):
        with pytest.raises(ReplyError, match=words):
            parse_selected(text)


def test_of_many_the_best_by_local_score_and_the_newest_are_shown() -> None:
    many = [header(f"note-{number:03}", "deploy" if number % 2 else "other", day=number) for number in range(500)]
    asked: list[int] = []

    def local(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
        asked.append(limit)
        return [Pick(at, 1.0, Evidence()) for at in headers if at.description == "deploy"][:limit]

    model = ScriptedModel([answer("note-499.md", "note-001.md", "note-000.md")])
    picks = ModelSelector(model, local)(Query("how do we deploy", now=NOW), many, 5)
    lines = model.requests[0].messages[0].text.split("\n")[2:]
    assert asked == [MANIFEST_ENTRIES - MANIFEST_NEWEST] and len(lines) == MANIFEST_ENTRIES
    assert lines == [show_header(at) for at in many if show_header(at) in set(lines)], "oldest first"
    assert [f"note-{number}.md" in "\n".join(lines) for number in range(480, 500)] == [True] * 20
    assert names(picks) == ["note-499", "note-001"], "what is not shown cannot be chosen"


def test_surfaced_memories_are_not_in_the_list_and_the_rest_stays_the_same_to_the_byte(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = FileStore(tmp_path_factory.mktemp("p") / "memory")
    for number in range(12):
        put(store, f"deploy-{number:02}")
    session = SessionFile(store.state, "s1")
    model = ScriptedModel([answer("deploy-03.md", "deploy-07.md"), answer("deploy-03.md", "deploy-01.md"), answer()])
    selector = ModelSelector(model, overlap)
    first = recall([store], "how do we deploy", selector=selector, now=NOW, session=session, tools=["Bash"])
    assert first.selector == "model"
    second = recall([store], "and what about rollbacks", selector=selector, now=NOW, session=session)
    put(store, "deploy-zz")
    recall([store], "and who does it", selector=selector, now=NOW, session=session)
    one, two, three = model.requests
    assert one.system == two.system == three.system
    lines = [request.messages[0].text.split("\n") for request in model.requests]
    assert [line for line in lines[0] if "deploy-03" not in line and "deploy-07" not in line] == lines[1]
    assert [line for line in lines[1] if "deploy-01" not in line] == lines[2][:-1], "a new memory is added at the end"
    assert [at.header.name for at in second.memories] == ["deploy-01"], "what was surfaced cannot be chosen again"


def test_a_lambda_is_a_model() -> None:
    picks = ModelSelector(lambda request: Reply(answer("deploy.md")), overlap)(Query("a b", now=NOW), HEADERS, 5)
    assert names(picks) == ["deploy"]


def test_a_long_query_is_shown_by_its_edges() -> None:
    model = ScriptedModel([answer()])
    select(model, "start" + "x" * 100_000 + "end")
    text = model.requests[0].messages[1].text
    assert len(text) < 5000 and "start" in text and text.endswith("end")


def test_what_a_model_reads_is_the_golden_text() -> None:
    model = ScriptedModel([answer()])
    query = Query("how do we {{deploy}}", ("Bash", "Edit"), now=NOW)
    ModelSelector(model, overlap)(query, HEADERS, 5)
    (request,) = model.requests
    golden = (Path(__file__).parents[1] / "data" / "select_request.txt").read_text(encoding="utf-8")
    assert "\n=====\n".join([request.system, *(message.text for message in request.messages)]) + "\n" == golden


PROMPTS = Path(__file__).parents[1] / "data" / "prompts"
CATEGORIES = ("should", "silent", "silent_long")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def make_project(folder: Path, project: str) -> list[Header]:
    """The manifest as the reader was shown it; the days only give an order."""
    rows = [row for row in read_rows(folder / "memories.jsonl") if row["group"] == project]
    return [
        Header(
            row["id"].partition("/")[2].replace("_", "-"), row["name"], row["description"], Kind(row["type"]),
            Scope.PRIVATE, datetime(2026, 9, 1 + number % 28, tzinfo=UTC), False, Signature(number, 2, 3, 4),
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip


def test_answers_of_a_reader_in_place_of_the_model_are_right_or_silent() -> None:
    answers = {row["id"]: row["answer"] for row in read_rows(PROMPTS / "answers.jsonl")}
    count: Counter[str] = Counter()
    digests = hashlib.sha256()
    for author in "ab":
        prompts = read_rows(PROMPTS / author / "prompts.jsonl")
        projects = {row["group"]: make_project(PROMPTS / author, row["group"]) for row in prompts}
        for row in prompts:
            model = ScriptedModel([answers[row["id"]]])
            picks = ModelSelector(model, overlap)(Query(row["query"], now=NOW), projects[row["group"]], 5)
            (request,) = model.requests
            digests.update("\0".join([request.system, *(at.text for at in request.messages)]).encode())
            shown = [f"{row['group']}/{at.header.name.replace('-', '_')}" for at in picks]
            gold, fine = set(row["gold"]), {*row["gold"], *row["ok"]}
            count["right"] += len(gold & set(shown))
            count["shown"] += len([name for name in shown if name in gold or name not in fine])
            count[row["category"]] += 1
            is_good = bool(gold & set(shown)) if row["category"] == "should" else not shown
            count[f"{row['category']} good"] += is_good
    figures = [count["right"] / count["shown"], *(count[f"{at} good"] / count[at] for at in CATEGORIES)]
    assert [count[at] for at in CATEGORIES] == [100, 100, 100]
    assert figures[0] >= 0.8 and figures[1] >= 0.85 and min(figures[2:]) >= 0.9, figures
    # Another prompt or manifest needs other answers: have a reader give them, then put the new digest here. These were
    # given to the same requests without titles and without the date.
    assert digests.hexdigest()[:16] == "5944c600e9ee539e"
