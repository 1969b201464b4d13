"""What the person asks not to keep is in no request of memory's own and in no memory, and what came of it before is forgotten.

`tests/data/irony` was written by three authors who had not seen the code; its kind `dont_keep` has such requests.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from extraction_talks import NOW
from memdir.conversation.confidential import leave_out
from memdir.conversation.notes import find_notes_file, update_notes
from memdir.conversation.transcripts import search_transcripts
from memdir.dream.records import DreamProgress
from memdir.extraction import ConversationSource, extract
from memdir.extraction.turns import EndedTurn, extract_turn
from memdir.recall.prefetch import ModelSelector
from memdir.records import Header, Kind, Message, Query, Request, Scope, Signature
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.sessions import SessionFile
from memdir.testing import ScriptedModel
from tables import table

FOLDER = Path(__file__).parents[1] / "data" / "irony"
SETS = {
    path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for path in sorted(FOLDER.glob("*.jsonl"))
}


def make_talk(row: dict[str, Any]) -> list[Message]:
    return [Message(at["role"], at["text"], f"m{number}", NOW) for number, at in enumerate(row["messages"])]


def make_answer(body: str, evidence: str) -> str:
    fields = {"action": "create", "name": "a-note", "type": Kind.PROJECT.value, "title": "A note", "why": "", "how": ""}
    return json.dumps({"operations": [{**fields, "description": body, "body": body, "evidence": evidence}]})


@pytest.mark.parametrize("author", SETS)
def test_what_is_not_to_be_kept_stands_in_no_request_and_no_memory_in_six_languages(author: str) -> None:
    asked = [row for row in SETS[author] if row["kind"] == "dont_keep"]
    leaked, lost = [], []
    for row in asked:
        store, model = MemoryStore(clock=lambda: NOW), ScriptedModel(['{"operations": []}'] * 4)
        extract(store, make_talk(row), model=model, now=NOW)
        extract(MemoryStore(clock=lambda: NOW), make_talk(row), now=NOW)
        shown = "\n".join(message.text for request in model.requests for message in request.messages)
        shown += "\n".join(store.read(header.name).text for header in store.scan())
        leaked += [row["id"] for word in row["never"] if word.lower() in shown.lower()][:1]
        lost += [row["id"] for word in row["keep"] if word.lower() not in shown.lower()][:1]
    assert len({row["lang"] for row in asked}) == 6
    assert len(leaked) <= 0.1 * len(asked) and len(lost) <= 0.1 * len(asked), (leaked, lost)


def test_nothing_is_left_out_where_nobody_asks_for_it() -> None:
    rows = [row for rows in SETS.values() for row in rows]
    assert [row["id"] for row in rows if row["kind"] != "dont_keep" and leave_out(make_talk(row)).hidden] == []


@table(
    "text",
    [
        "don't save it to disk yet, keep it in the cache",
        "wir dürfen Passwörter nicht speichern",
        "n'enregistre pas le résultat en base, garde-le en cache",
        "no guardes el resultado en disco todavía, usa la caché",
        "このフィールドはデータベースに保存しないでください",
        "日志里不要记录用户的手机号",
        "we don't write down-migrations here",
    ],
)
def test_an_order_about_the_program_is_no_such_request(text: str) -> None:
    assert leave_out([Message("user", text)]).hidden == ""


TALK = [
    Message("user", "The Larkfield contract will be cancelled in March, so the export comes first.", "u1", NOW),
    Message("assistant", "I start with the export.", "a1", NOW),
    Message("user", "don't write that about Larkfield down anywhere please", "u2", NOW),
]
FACT = "The Larkfield contract will be cancelled in March"


def test_what_was_learned_before_is_forgotten_in_one_change_that_can_be_undone(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory", clock=lambda: NOW)
    place = ConversationSource("s1")
    first = extract(
        store,
        TALK[:2],
        model=ScriptedModel([make_answer(FACT, FACT), '{"follow": [1, 2, 3]}']),
        now=NOW,
        conversation=place,
    )
    assert first.written
    model = ScriptedModel([])
    done = extract(store, TALK, model=model, now=NOW, conversation=place, after=first.cursor)
    assert done.unlearned == first.written and store.scan() == ()
    assert "you asked not to keep it" in done.notice
    assert model.requests == []  # nothing else was said
    store.undo(done.change)
    assert [header.name for header in store.scan()] == [*first.written]


def test_a_model_that_writes_it_all_the_same_is_not_obeyed() -> None:
    store = MemoryStore(clock=lambda: NOW)
    done = extract(
        store, TALK, model=ScriptedModel([make_answer(FACT, FACT)] * 2 + ['{"follow": [1, 2, 3]}'] * 2), now=NOW
    )
    assert (done.written, done.waiting, store.scan()) == ((), (), ())


def test_a_request_about_the_whole_conversation_holds_for_its_later_turns_and_its_notes(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory", clock=lambda: NOW)
    session = SessionFile(store.state, "s1")
    first = EndedTurn([Message("user", "nothing from this conversation goes into memory, ok?", "u1", NOW)], 0)
    extract_turn(store, session, first, model=ScriptedModel([]), now=NOW)
    model = ScriptedModel([])
    later = EndedTurn([Message("user", "remember that the gateway listens on port 7443", "u9", NOW)], 9)
    assert extract_turn(store, session, later, model=model, now=NOW).written == () and model.requests == []
    notes = find_notes_file(tmp_path / "project", "s1")
    assert update_notes(notes, session, later.messages, now=NOW, model=model, force=True).by == ""
    assert model.requests == []


def test_notes_are_asked_for_without_it(tmp_path: Path) -> None:
    session, notes = SessionFile(tmp_path, "s1"), find_notes_file(tmp_path / "project", "s1")
    model = ScriptedModel(['{"sections": []}'] * 2)
    talk = [*TALK, Message("user", "now the import, it reads tabs", "u3", NOW)]
    update_notes(notes, session, talk, now=NOW, model=model, force=True)
    shown = model.requests[0].messages[0].text
    assert "it reads tabs" in shown and "Larkfield" not in shown


def test_the_search_of_transcripts_omits_it_for_a_dream_and_finds_it_for_the_person(tmp_path: Path) -> None:
    rows = [
        {
            "type": message.role,
            "uuid": str(number),
            "parentUuid": str(number - 1) if number else None,
            "message": {"role": message.role, "content": message.text},
        }
        for number, message in enumerate([*TALK, Message("user", "now the import, it reads tabs")])
    ]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    assert len(search_transcripts([tmp_path], "Larkfield contract", limit=5)) == 1
    assert search_transcripts([tmp_path], "Larkfield contract", limit=5, open_only=True) == ()
    assert len(search_transcripts([tmp_path], "import tabs", limit=5, open_only=True)) == 1


SECRET = "Sommer" + "wiese" + "77x"


def test_a_typed_secret_is_masked_in_every_request_of_memorys_own(tmp_path: Path) -> None:
    talk = [Message("user", f"the root password is {SECRET}, and we deploy on Tuesdays only", "u1", NOW)]
    wish = make_answer("We deploy on Tuesdays only, by hand", "we deploy on Tuesdays only")
    model = ScriptedModel([wish, '{"follow": [1, 2, 3, 4]}'])
    extract(MemoryStore(clock=lambda: NOW), talk, model=model, now=NOW)
    notes, session = find_notes_file(tmp_path / "project", "s1"), SessionFile(tmp_path, "s1")
    asked = ScriptedModel(['{"sections": []}'] * 2)
    update_notes(notes, session, talk, now=NOW, model=asked, force=True)
    selecting = ScriptedModel(['{"names": []}'] * 2)
    header = Header("a", "A", "About a", Kind.USER, Scope.PRIVATE, NOW, False, Signature(0, 0, 0, 0))
    ModelSelector(selecting, lambda query, headers, limit: ())(Query(talk[0].text, now=NOW), [header], 1)
    dreaming = ScriptedModel(["done"])
    DreamProgress().wrap(dreaming)(Request("", tuple(talk), 100))
    assert len(model.requests) == 2 and asked.requests and selecting.requests
    requests = (*model.requests, *asked.requests, *selecting.requests, *dreaming.requests)
    shown = "\n".join(message.text for request in requests for message in request.messages)
    assert SECRET not in shown and "[masked: " in shown and "Tuesdays" in shown
