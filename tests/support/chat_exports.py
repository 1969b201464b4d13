"""Data exports of ChatGPT and Claude in the shapes their services document, generated, of any number of conversations.

Shapes: conversations.json of ChatGPT is a list of trees (`mapping`, `current_node`), with custom instructions as
`user_editable_context` and memories as calls of the tool `bio`; Claude's is a list with `chat_messages`, beside
memories.json, projects.json and users.json. Every tenth conversation asks to remember something.
"""

import json
import random
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

START = 1_700_000_000.0  # 2023-11-14
WORDS = (
    "parser invoice garden recipe kernel poem travel budget chess router novel tax violin sensor bakery museum "
    "compiler marathon orchard lighthouse"
).split()
ASKED = "Remember that the {word} of project {number} is reviewed by the team in room {room}"
MEMORY = "User is learning the violin and practises every Sunday."


def say(number: int, turn: int) -> tuple[str, str]:
    random.seed(number * 100 + turn)
    words = random.choices(WORDS, k=40)
    question = f"How would you explain {words[0]} and {words[1]} number {number}.{turn}?"
    if number % 10 == 0 and turn == 0:
        question = ASKED.format(word=words[0], number=number, room=100 + number % 900)
    return question, f"One way to see it: {' '.join(words)}."


def node(id: str, parent: str | None, children: list[str], message: object = None) -> dict[str, Any]:
    return {"id": id, "parent": parent, "children": children, "message": message}


def message(
    id: str, role: str, at: float, content: object, recipient: str = "all", **metadata: object
) -> dict[str, Any]:
    author: dict[str, object] = {"role": role, "name": None, "metadata": {}}
    facts = {"status": "finished_successfully", "weight": 1.0, "recipient": recipient, "metadata": metadata}
    return {"id": id, "author": author, "create_time": at, "content": content, **facts}


def text(*parts: object) -> dict[str, Any]:
    return {"content_type": "text", "parts": list(parts)}


def make_chatgpt(number: int, turns: int = 3) -> dict[str, Any]:
    at = START + number * 3600
    context = {
        "content_type": "user_editable_context",
        "user_profile": "The user provided this information:\n```I teach physics at a school in Graz.```",
        "user_instructions": f"The user wants answers like this:\n```Answer in short sentences. Version {number}.```",
    }
    nodes = {"root": node("root", None, ["ctx"])}
    nodes["ctx"] = node(
        "ctx", "root", ["u0"], message("ctx", "user", at, context, is_visually_hidden_from_conversation=True)
    )
    last = "ctx"
    for turn in range(turns):
        question, answer = say(number, turn)
        ids = f"u{turn}", f"a{turn}"
        nodes[ids[0]] = node(ids[0], last, [ids[1]], message(f"{number}-{ids[0]}", "user", at + turn, text(question)))
        nodes[ids[1]] = node(ids[1], ids[0], [], message(f"{number}-{ids[1]}", "assistant", at + turn, text(answer)))
        nodes[last]["children"] = [ids[0]]
        last = ids[1]
    if number % 7 == 3:
        nodes["bio"] = node("bio", last, ["bio2"], message("bio", "assistant", at + 9, text(MEMORY), "bio"))
        nodes["bio2"] = node("bio2", "bio", [], message("bio2", "tool", at + 9, text("Model set context updated.")))
        last = "bio2"
    # A branch that the person left by editing a question: it is not the conversation.
    nodes["old"] = node("old", "ctx", [], message("old", "user", at, text("Remember that the moon is made of cheese")))
    facts = {"title": f"Talk {number}", "create_time": at, "update_time": at + 60, "current_node": last}
    return {**facts, "mapping": nodes, "id": f"c-{number}", "conversation_id": f"c-{number}"}


def make_claude(number: int, turns: int = 3) -> dict[str, Any]:
    at = f"2024-{number % 12 + 1:02}-10T10:00:00.000000Z"
    said = [(f"{turn}{sender[0]}", sender, words) for turn in range(turns) for sender, words in zip(("human", "assistant"), say(number, turn), strict=True)]  # fmt: skip
    messages = [
        {
            "uuid": f"{number}-{id}",
            "text": words,
            "content": [{"type": "text", "text": words, "citations": []}],
            "sender": sender,
            "created_at": at,
            "updated_at": at,
            "attachments": [],
            "files": [],
        }
        for id, sender, words in said
    ]
    facts = {"uuid": f"k-{number}", "name": f"Talk {number}", "summary": "", "created_at": at, "updated_at": at}
    return {**facts, "account": {"uuid": "acc"}, "chat_messages": messages}


def make_told(chats: list[dict[str, Any]]) -> dict[str, Any]:
    """The files of an export of Claude with these conversations: title, date and messages by role."""
    rows = []
    for number, chat in enumerate(chats, 1):
        at = f"{chat['date']}T10:00:00.000000Z"
        said = [("human" if row["role"] == "user" else "assistant", row["text"]) for row in chat["messages"]]
        messages = [
            {"uuid": f"{number}-{turn}", "sender": sender, "text": words, "created_at": at, "attachments": []}
            for turn, (sender, words) in enumerate(said)
        ]
        rows.append({"uuid": f"k-{number}", "name": chat["title"], "created_at": at, "chat_messages": messages})
    return {"conversations.json": rows}


def make_files(service: str, count: int) -> dict[str, Any]:
    """The files of an export, by name."""
    if service == "chatgpt":
        user = {"id": "user-1", "email": "me@example.org", "chatgpt_plus_user": True}
        chats = [make_chatgpt(number) for number in range(count)]
        return {
            "conversations.json": chats,
            "user.json": user,
            "message_feedback.json": [],
            "chat.html": "<html></html>",
        }
    memory = "**Work context**\n\nThe person is a nurse in Lyon who builds a rota app.\n\n**Personal context**\n\nThey row on Sundays.\n"
    return {
        "conversations.json": [make_claude(number) for number in range(count)],
        "memories.json": [
            {
                "conversations_memory": memory,
                "project_memories": {"p-1": "The rota app is due in June 2026."},
                "account_uuid": "acc",
            }
        ],
        "projects.json": [
            {"uuid": "p-1", "name": "Rota app", "description": "", "prompt_template": "Answer in French.", "docs": []}
        ],
        "users.json": [{"uuid": "acc", "full_name": "A Person", "email_address": "me@example.org"}],
    }


def write_zip(path: Path, files: Mapping[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in files.items():
            archive.writestr(name, value if isinstance(value, str | bytes) else json.dumps(value))
    return path


def write_folder(path: Path, files: Mapping[str, Any]) -> Path:
    path.mkdir(parents=True)
    for name, value in files.items():
        (path / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path
