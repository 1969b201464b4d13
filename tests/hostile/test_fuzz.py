"""Every parser of files that others may have written, fed with bytes that are almost right.

Each either returns or raises a MemdirError: no other exception, no hang. The bytes are made from real examples by a seeded
loop: cut, doubled, spliced, replaced by what breaks parsers.
"""

import io
import json
import random
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hook_calls import Hooks
from loads import scaled
from memdir.conversation.includes import (
    expand_braces,
    find_mentions,
    looks_secret,
    match_any,
    parse_rule,
    split_blocks,
    strip_comments,
)
from memdir.conversation.notes_file import cut_notes, parse_notes, render_notes
from memdir.conversation.transcripts import read_messages
from memdir.conversation.typed import split_message
from memdir.errors import MemdirError
from memdir.format.age import find_links
from memdir.format.frontmatter import decode, parse_fields, split_frontmatter
from memdir.format.index import clip_index, parse_index
from memdir.interfaces.import_formats import ImportContext, parse_items, read_sources
from memdir.interfaces.imports import ImportFormat
from memdir.interfaces.json_edit import parse_json_text, parse_toml_text
from memdir.models.staged import parse_operations
from memdir.project.hosts import read_install_record
from memdir.project.paths import parse_config
from memdir.project.settings import read_environment, read_settings
from memdir.store.secrets import find_secrets, read_own_rules
from memdir.store.sessions import SessionFile, parse_cursor, parse_record, read_ended, read_queue
from memdir.store.state import OWN_SETUP, find_own_sync, read_authors, read_events, read_problems, read_set
from memdir.sync.merge import merge_memory
from memdir.sync.own import read_setup
from memdir.sync.state import read_membership, read_point, read_sync_record, read_team_news
from memdir.text import find_json
from memdir.verify.claims import find_claims
from slices import read_slice

HEAD = (
    b"---\nname: Ferry\ndescription: When it leaves\ntype: project\npinned: true\ncues:\n  - a\n---\n\nAt six. [[x]]\n"
)
NESTED = b"---\nname: F\ndescription: |\n  two\n  lines\nmetadata:\n  type: user\n  modified: 2026-03-01\n---\ntext\n"
INDEX = b"# Memory\n\n- [Ferry](ferry.md) \xe2\x80\x94 when it leaves\n- [[tram]]: ends\n\n## More\n- ferry.md: x\n"
TABLE = json.dumps({
    "session": "s", "transcript": "/t.jsonl", "cwd": ["/"], "host": "claude-code", "surfaced": {"a": {"digest": "x", "bytes": 3}},
    "cursor": {"id": "a", "digest": "b", "position": 3}, "day": "2026-03-01", "read": ["b"], "at": "2026-03-01T00:00:00+00:00",
    "text": "t", "index": "- [a](a.md)", "pending": {"index": "x"}, "files": {"/a": {"host": "x", "digest": "y", "since": "2026-03-01"}},
    "remote": "r", "branch": "b", "a": {"name": "n", "email": "e", "when": "2026-03-01T00:00:00"}, "outcome": "denied", "refused": {"a": "b"},
}).encode()  # fmt: skip
CLAUDE = b"".join(
    json.dumps({
        "type": role, "uuid": f"u{at}", "parentUuid": f"u{at - 1}" if at else None, "sessionId": "s", "cwd": "/x",
        "timestamp": "2026-03-05T11:00:00.000Z", "message": {"role": role, "content": [{"type": "text", "text": "hi"}]},
    }).encode() + b"\n"
    for at, role in enumerate(("user", "assistant", "user"))
)  # fmt: skip
CODEX = b'{"timestamp":"2026-03-05T11:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/x"}}\n' + (
    b'{"timestamp":"2026-03-05T11:00:01Z","type":"response_item","payload":{"type":"message","role":"user",'
    b'"content":[{"type":"input_text","text":"hi"}]}}\n'
)
TOML = b"[budget]\nrun_tokens = 5\nday_tokens = 6\n"
DATA = Path(__file__).parent.parent / "data"
QWEN = b"".join(
    b'{"uuid":"%d","sessionId":"s","type":"user","message":{"role":"user","parts":[{"text":"say %d"}]}}\n' % (n, n)
    for n in range(9)
)
GEMINI = (DATA / "clients" / "gemini-chat.jsonl").read_bytes()[:6_000]
CHATS = json.dumps([{
    "title": "t", "create_time": 1_700_000_000.5, "conversation_id": "c", "current_node": "b", "uuid": "u", "name": "n",
    "mapping": {"a": {"id": "a", "parent": None, "children": ["b"]}, "b": {"id": "b", "parent": "a", "children": [], "message": {
        "id": "m", "author": {"role": "user"}, "create_time": 1.0, "content": {"content_type": "text", "parts": ["remember that x"]}}}},
    "chat_messages": [{"uuid": "m", "sender": "human", "text": "hi", "created_at": "2026-03-05T11:00:00Z", "content": []}],
}]).encode()  # fmt: skip
ROWS = b"".join(json.dumps(row).encode() + b"\n" for row in (
    {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["owns billing"]},
    {"type": "relation", "from": "Ana", "to": "billing", "relationType": "owns"},
    {"id": "1", "memory": "Likes tea", "created_at": "2026-03-05T11:00:00Z", "metadata": {"a": 1}},
    {"name": "a", "type": "project", "modified": "2026-03-05", "text": HEAD.decode()},
))  # fmt: skip
RULES = b"""---\npaths: ["src/**/*.{ts,tsx}", "!a"]\n---\n# Rules <!-- hidden -->\n@docs/a.md and `@not` see @~/b.md\n```\n@c\n```\n
- Deploys on 2026-03-05 by Ana, see src/app.py:12 and `make deploy`.\n## Notes\n* one\n"""
ANSWER = b"""Here it is:\n```json\n{"operations": [{"action": "create", "name": "a", "type": "project", "title": "t",
"description": "d", "body": "b", "why": "", "how": "", "evidence": "e", "cues": ["q"]}]}\n```\n"""
MANIFEST = json.dumps({
    "remote": "r", "branch": "b", "recipients": ["age1"], "key_file": "k", "names": "n", "head": "1" * 40, "files": {"a": "b"},
    "pending": {"head": "x", "files": {"c": "d"}},
}).encode()  # fmt: skip
POISON = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"{" * 2_000, b"[" * 2_000, b"\"" * 9, b"9" * 5_000, b"1e999", b"NaN", b"null", b"true", b"-1",
    b"\r", b"\x85", b"\xe2\x80\xa8", b"---\n", b"...\n", b"&a *a", b"!!python/object:x", b"<<: *a", b"2026-13-45", b"%00", b"[[", b"](",
    b"```\n", b"\\ud800", b"\\u0000", b'{"a":' * 500, b": ", b"\t", b"9999-99-99T99:99:99", b"0001-01-01T00:00:00+23:59",
)  # fmt: skip


def make_archive() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (
            ("memory/ferry.md", HEAD),
            ("memory/MEMORY.md", INDEX),
            ("conversations.json", CHATS),
            ("../out.md", HEAD),
        ):
            archive.writestr(name, data)
    return packed.getvalue()


ARCHIVE = make_archive()


def spoil(seed: bytes, chance: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chance.randrange(1, 5)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                del data[at : at + chance.randrange(1, 40)]
            case 1:
                data[at:at] = chance.choice(POISON)
            case 2:
                data[at:at] = bytes(data[: chance.randrange(len(data) + 1)])[:4_000]
            case 3:
                del data[at:]
            case _:
                data[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(data[:100_000])


def read_all_tables(path: Path) -> Iterator[object]:
    """Every reader of a file of memdir's own, each finding the same bytes at its own place."""
    data, state = path.read_bytes(), path.parent / "state"
    leaves = ("sessions/s.json", "queue/1.json", "ended/1.json", "dreams/1-a.json", "problems.jsonl", "installed.json")
    names = ("team.json", "team-point.json", "team-sync.json", "team-news.json", "team-authors.json", "events/a.b")
    for leaf in (*leaves, *names):
        (state / leaf).parent.mkdir(parents=True, exist_ok=True)
        (state / leaf).write_bytes(data)
    session = SessionFile(state, "s")
    readers: tuple[Callable[[Path], object], ...] = (
        read_queue, read_ended, read_problems, read_install_record, read_authors, read_events, read_membership,
        read_sync_record, read_team_news,
    )  # fmt: skip
    yield from (reader(state) for reader in readers)
    yield (
        session.read(),
        session.read_foreign(),
        read_set(state, "1-a"),
        parse_cursor(session.read().extra.get("cursor")),
    )
    try:
        table = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(table, dict):
        yield parse_record(table), parse_cursor(table)


def read_toml(path: Path) -> object:
    environment = read_environment({"HOME": str(path.parent), "XDG_CONFIG_HOME": str(path.parent / "config")})
    environment.config_file.parent.mkdir(parents=True, exist_ok=True)
    environment.config_file.write_bytes(path.read_bytes())
    return read_settings(environment, root=None)


def read_text(path: Path) -> object:
    text = decode(path.read_bytes())
    return (
        parse_fields(text), split_frontmatter(text), parse_index(text), clip_index(text, []), list(find_links(text)),
        find_secrets(text), list(split_message(text)), list(parse_config(text, "user")),
    )  # fmt: skip


def read_import(path: Path) -> object:
    """Whatever a person may name after `memdir import`, by looking at it and by a format's name."""
    environment = read_environment({"HOME": str(path.parent)})
    context = ImportContext(environment, datetime(2026, 3, 5, tzinfo=UTC))
    found = []
    for format in (None, list(ImportFormat)[zlib.crc32(path.read_bytes()) % len(ImportFormat)]):
        with suppress(MemdirError):
            found.append(read_sources(str(path), format, cwd=path.parent, context=context))
    return found


def read_instructions(path: Path) -> object:
    text = decode(path.read_bytes())
    notes = parse_notes(text)
    rule = parse_rule(text)
    return (
        find_mentions(text), strip_comments(text), list(split_blocks(text)), match_any(expand_braces(rule.globs), "src/a.py"),
        [find_mentions(text)], looks_secret(text), cut_notes(notes),
        render_notes(notes), find_claims(text), list(parse_items(text)),
    )  # fmt: skip


def read_merge(path: Path) -> object:
    """Three versions of a memory, of which each may be the spoiled one."""
    text, good = path.read_bytes().decode("utf-8", "surrogateescape"), HEAD.decode()
    sides = [(text, good, good + "x\n"), (good, text, good + "x\n"), (good, good + "x\n", text), (None, text, good)]
    return [merge_memory(*at) for at in sides]


def read_answers(path: Path) -> object:
    """What a model answers, what an SDK's tool is given, and files of settings that are edited in place."""
    text, found = decode(path.read_bytes()), list[object]()
    for read in (parse_operations, parse_json_text, parse_toml_text, lambda at: list(find_json(at))):
        with suppress(MemdirError):
            found.append(read(text))
    (path.parent / "secrets.toml").write_text(text, encoding="utf-8", errors="replace")
    with suppress(MemdirError):
        found.append(read_own_rules(path.parent / "secrets.toml"))
    return found


def read_manifest(path: Path) -> object:
    """The files of a sync of one's own: its setup and its point."""
    environment = read_environment({"HOME": str(path.parent)})
    state = find_own_sync(environment)
    state.mkdir(parents=True, exist_ok=True)
    for leaf in (OWN_SETUP, "team-point.json"):
        (state / leaf).write_bytes(path.read_bytes())
    return read_setup(environment), read_point(state)


PARSERS: list[tuple[str, bytes, Callable[[Path], object]]] = [
    ("frontmatter", HEAD, read_text),
    ("nested", NESTED, read_text),
    ("index", INDEX, read_text),
    ("tables", TABLE, lambda path: list(read_all_tables(path))),
    ("claude", CLAUDE, lambda path: (list(read_messages(path)), read_slice(path, after="u1", window=5))),
    ("codex", CODEX, lambda path: (list(read_messages(path)), read_slice(path, after="", window=5))),
    ("gemini", GEMINI, lambda path: (list(read_messages(path)), read_slice(path, after="", window=5))),
    ("qwen", QWEN, lambda path: (list(read_messages(path)), read_slice(path, after="5", window=5))),
    ("settings", TOML, read_toml),
    ("import of a chat export", CHATS, read_import),
    ("import of rows", ROWS, read_import),
    ("import of an archive", ARCHIVE, read_import),
    ("instructions", RULES, read_instructions),
    ("merge", HEAD, read_merge),
    ("answers", ANSWER, read_answers),
    ("sync", MANIFEST, read_manifest),
]


@pytest.mark.parametrize(("name", "seed", "parse"), PARSERS, ids=[row[0] for row in PARSERS])
def test_bytes_that_are_almost_right_raise_nothing_but_our_own_errors(
    tmp_path: Path, name: str, seed: bytes, parse: Callable[[Path], object]
) -> None:
    chance, failed = random.Random(name), {}
    path = tmp_path / "some.jsonl"
    for number in range(scaled(2_000)):
        path.write_bytes(data := spoil(seed, chance))
        try:
            parse(path)
        except MemdirError:
            continue
        except Exception as error:
            failed[f"{type(error).__name__}: {str(error)[:80]}"] = (number, data[:200])
    assert failed == {}


def test_hooks_take_bytes_that_are_almost_right(tmp_path: Path) -> None:
    hooks, chance = Hooks(tmp_path), random.Random(4)
    seed = json.dumps({"session_id": "s", "cwd": str(hooks.cli.project), "transcript_path": "/t.jsonl", "prompt": "hi"})
    for event in ("stop", "session-end", "session-start", "user-prompt") * (scaled(100) // 10):
        done = hooks.cli.real("hook", event, given=spoil(seed.encode(), chance))
        assert done.code == 0 and "Traceback" not in done.err, done.err
