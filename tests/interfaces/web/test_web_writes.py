"""The page and other writers: nothing is lost, each conflict is shown; a killed server leaves a memory before or after a save."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from loads import scaled
from memdir.records import Draft, InboxItem, InboxKind, InboxState, Kind, Origin, Save
from memdir.store.inbox import render_edits
from memdir.store.open import Project, open_project
from ui_server import PageClient, serving

NAME = "shared"
JSON = {"accept": "application/json"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    made = open_project(root, environ={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    made.private.write(Draft(Kind.PROJECT, "Shared", "What two writers change at the same time", "It begins.", NAME))
    yield made
    made.close()


def save(client: PageClient, text: str, base: str, expect: str) -> tuple[int, dict[str, str]]:
    fields = [("text", text), ("base", base), ("expect", expect)]
    answer = client.post(f"/m/private/{NAME}/do/save", fields, **JSON)
    return answer.status, json.loads(answer.text)


def read(client: PageClient) -> tuple[str, str]:
    shown = json.loads(client.get(f"/m/private/{NAME}.json").text)
    return shown["text"], shown["digest"]


def test_the_page_and_memdir_edit_lose_nothing(project: Project, tmp_path: Path) -> None:
    count = scaled(200)
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import os, sys\nwith open(sys.argv[1], 'a', encoding='utf-8') as file:\n    file.write(os.environ['SAID'])\n",
        encoding="utf-8",
    )
    environ = {**dict(project.environment.inherited), "EDITOR": f"{sys.executable} {editor}"}
    conflicts, saved = {"page": 0, "cli": 0, "silent": 0}, threading.Event()

    def edit_by_command() -> None:
        for number in range(count):
            while True:
                said = {**environ, "SAID": f"\nBy the command {number}.\n"}
                command = [sys.executable, "-m", "memdir", "edit", NAME]
                done = subprocess.run(
                    command, cwd=project.places.root.path, env=said, capture_output=True, encoding="utf-8"
                )
                if done.returncode == 0:
                    saved.set()
                    break
                conflicts["cli"] += 1
                conflicts["silent"] += "your text is kept in" not in done.stderr

    with serving(project) as client:
        client.sign_in()
        writer = threading.Thread(target=edit_by_command)
        writer.start()
        for number in range(count):
            saved.clear()
            base, expect = read(client)
            text = f"{base.rstrip()}\n\nBy the page {number}.\n"
            while number % 2 and writer.is_alive() and not saved.wait(1):
                pass  # somebody types for as long as it takes the other to save
            status, answer = save(client, text, base, expect)
            while status == 409:
                conflicts["page"] += 1
                conflicts["silent"] += not answer["lines"] or f"By the page {number}." not in answer["result"]
                status, answer = save(client, answer["result"], answer["theirs"], answer["expect"])
            assert status == 200, answer
        writer.join()
    body = project.private.read(NAME).body
    lost = [f"By the {who} {number}." for who in ("page", "command") for number in range(count)]
    lost = [at for at in lost if len(re.findall(rf"^{re.escape(at)}$", body, re.MULTILINE)) != 1]
    sys.stdout.write(
        f"two writers, {count} saves each: {conflicts['page']} conflicts on the page, {conflicts['cli']} of edit\n"
    )
    assert lost == [] and conflicts["silent"] == 0 and conflicts["page"] > 0


def test_a_server_killed_in_the_middle_of_a_save_leaves_before_or_after(project: Project) -> None:
    failed = []
    for number in range(scaled(60)):
        with serving(project) as client:
            client.sign_in()
            base, expect = read(client)
            text = f"{base.rstrip()}\n\nParagraph {number}.\n"
            posting = threading.Thread(target=lambda: _save_quietly(client, text, base, expect))  # noqa: B023
            posting.start()
            posting.join(timeout=number * 0.004)
            os.kill(client.pid, signal.SIGKILL)
            posting.join()
        with open_project(project.places.root.path, environ=dict(project.environment.inherited)).private as store:
            store.scan()  # heals what was killed
            found = store.read(NAME).text
            if found not in (base, text) or len(store.index().splitlines()) != 1:
                failed.append((number, found[-80:]))
    assert failed == []


def _save_quietly(client: PageClient, text: str, base: str, expect: str) -> None:
    try:
        save(client, text, base, expect)
    except (OSError, ValueError):
        pass
    except Exception as error:
        if type(error).__module__ != "http.client":
            raise


def test_a_review_can_be_taken_back_and_done_again(project: Project) -> None:
    edits = render_edits([Save(Draft(Kind.REFERENCE, "Board", "The board the on-call watches", "See the board."))])
    origin = Origin("extractor", "by model", "s")
    store = project.private
    store.inbox_add([InboxItem(InboxKind.MEMORY, "Board", "pasted", store.clock(), "k", "", origin, {"edits": edits})])
    with serving(project) as client:
        client.sign_in()
        for _ in range(2):
            (item,) = store.inbox()
            assert client.post("/do/decide", [("item", f"private:{item.id}"), ("do", "approve")]).status == 303
            assert store.read("board").body.strip() == "See the board." and store.inbox() == ()
            assert client.post("/do/undo-review", []).status == 303
            assert [at.name for at in store.scan()] == [NAME]
        (item,) = store.inbox()
        client.post("/do/decide", [("item", f"private:{item.id}"), ("do", "reject")])
        assert [at.state for at in store.inbox(None)] == [InboxState.REJECTED]
        client.post("/do/undo-review", [])
        assert len(store.inbox()) == 1


def test_each_page_has_a_json_twin_and_errors_say_what_is_wrong(project: Project) -> None:
    with serving(project) as client:
        client.sign_in()
        for path in ("/memories", "/inbox", "/dream", "/why", "/timeline", "/health", f"/m/private/{NAME}"):
            answer = client.get(f"{path}.json")
            assert answer.status == 200 and isinstance(json.loads(answer.text), dict), (path, answer.text[:200])
            assert json.loads(client.get(path, **JSON).text).keys() == json.loads(answer.text).keys()
            assert client.get(path).status == 200, path  # the template renders, too
        wrong = json.loads(client.get("/m/private/nothing.json").text)
        assert wrong["error"] == "no memory named nothing"
        assert client.post("/do/undo", [("change", "private:999")], **JSON).status == 404
        assert client.post("/do/nothing", []).status == 404
        shutil.copy(project.private.root / f"{NAME}.md", project.private.root / "twice.md")
        made = json.loads(client.post("/do/dream-start", [], **JSON).text)
        assert made["to"].startswith("/dream/") and json.loads(client.get(f"{made['to']}.json").text)["set"]["hunks"]
        assert client.get("/dream").status == 200
        vague = [("title", "T"), ("description", "important info"), ("type", "project"), ("body", "x")]
        refused = client.post("/do/remember", vague, **JSON)
        assert refused.status == 422 and json.loads(refused.text)["hint"]


def test_a_memory_moves_is_pinned_forgotten_and_restored(project: Project) -> None:
    store = project.private
    with serving(project) as client:
        client.sign_in()
        path = f"/m/private/{NAME}/do"
        done = json.loads(client.post(f"{path}/pin", [("pinned", "1")], **JSON).text)
        assert store.read(NAME).header.pinned and done["undo"] == [f"private:{store.changes(limit=1)[0].id}"]
        moved = json.loads(client.post(f"{path}/move", [("to", "team")], **JSON).text)
        assert moved["to"] == f"/m/private/team/{NAME}" and store.read(f"team/{NAME}")
        client.post("/do/undo", [("change", key) for key in moved["undo"]])
        assert store.read(NAME).header.pinned
        client.post(f"{path}/forget", [])
        assert (
            NAME in client.get("/memories?state=forgotten").text
            and "was forgotten" in client.get(f"/m/private/{NAME}").text
        )
        client.post(f"{path}/restore", [])
        assert store.read(NAME).body.strip() == "It begins."
        said = client.post(
            "/do/remember", [("words", "we deploy on Tuesdays only, because support is there then")], **JSON
        )
        assert said.status == 200 and len(store.scan()) == 2
