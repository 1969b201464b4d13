"""Every parser of files that others may have written, fed with bytes that are almost right.

Each either returns or raises a MemdirError: no other exception, no hang. The bytes are made from real examples by a seeded
loop: cut, doubled, spliced, replaced by what breaks parsers.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hooking import Hooks
from loads import scaled
from memdir.conversation.transcripts import read_messages, read_slice
from memdir.errors import MemdirError
from memdir.extraction.find import split_message
from memdir.format.age import find_links
from memdir.format.frontmatter import decode, parse_fields, split_frontmatter
from memdir.format.index import clip_index, parse_index
from memdir.project.hosts import read_install_record
from memdir.project.paths import parse_config
from memdir.project.settings import read_environment, read_settings
from memdir.store.secrets import find_secrets
from memdir.store.sessions import open_session, parse_cursor, parse_record, read_ended, read_queue
from memdir.store.state import read_authors, read_events, read_problems, read_set
from memdir.team.state import read_membership, read_sync_record, read_team_news

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
TOML = b"[budget]\nrun_tokens = 5\n[history]\nkeep_days = 3\nkeep_mb = 4\n"
POISON = (
    b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"{" * 2_000, b"[" * 2_000, b"\"" * 9, b"9" * 5_000, b"1e999", b"NaN", b"null", b"true", b"-1",
    b"\r", b"\x85", b"\xe2\x80\xa8", b"---\n", b"...\n", b"&a *a", b"!!python/object:x", b"<<: *a", b"2026-13-45", b"%00", b"[[", b"](",
    b"```\n", b"\\ud800", b"\\u0000", b'{"a":' * 500, b": ", b"\t", b"9999-99-99T99:99:99", b"0001-01-01T00:00:00+23:59",
)  # fmt: skip


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
    session = open_session(state, "s")
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


PARSERS: list[tuple[str, bytes, Callable[[Path], object]]] = [
    ("frontmatter", HEAD, read_text),
    ("nested", NESTED, read_text),
    ("index", INDEX, read_text),
    ("tables", TABLE, lambda path: list(read_all_tables(path))),
    ("claude", CLAUDE, lambda path: (list(read_messages(path)), read_slice(path, after="u1", window=5))),
    ("codex", CODEX, lambda path: (list(read_messages(path)), read_slice(path, after="", window=5))),
    ("settings", TOML, read_toml),
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
