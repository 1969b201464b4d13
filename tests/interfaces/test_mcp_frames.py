"""The MCP server under hostile input and under many hands: broken frames on both transports, clients at once."""

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clihelp import Cli
from loads import scaled
from mcp_client import MODERN, listening, running

FRAMES = 1_000
INTERNAL_ERROR = -32603
# A connection on pipes speaks one or the other; the newest has its share of every load on loopback.
ERAS = ["legacy", "modern"][: max(1, scaled(10) // 5)]
_VALID: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": 7, "method": "ping"},
    {"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"cursor": "x"}},
    {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": "memory_search", "arguments": {"query": "a summary at the end?", "limit": 3}},
    },
    {"jsonrpc": "2.0", "id": 7, "method": "resources/read", "params": {"uri": "memdir://private/x"}},
    {"jsonrpc": "2.0", "id": 7, "method": "prompts/get", "params": {"name": "recall", "arguments": {"question": "x"}}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}},
    {"jsonrpc": "2.0", "id": 7, "method": "server/discover", "params": {"_meta": MODERN}},
    {"jsonrpc": "2.0", "id": 7, "result": {"what": "nobody asked"}},
]
_ODD: list[Any] = [
    None, True, -1, 1e308, 10**40, "", "\u0000", "\ud800", "x" * 5_000, [], [[]], {}, {"a": {"b": [None]}},
    "../../etc/passwd", "memdir://", "\u202e", {"$ref": "#"}, "2099-01-01",
]  # fmt: skip
_RAW = [
    b"", b" ", b"{", b"}", b"[]", b"[1,2]", b"null", b"true", b"7", b'"x"', b"\xff\xfe\x00", b"\x00", b"\xc3\x28",
    b'{"jsonrpc":"2.0"', b'{"jsonrpc":"1.0","id":1,"method":"ping"}', b'{"id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":5}', b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
    b"[" * 20_000, b'{"a":' * 5_000, b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', b"\xef\xbb\xbf{}",
    b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing', b"Content-Length: 10\r\n\r\n{}", b"GET / HTTP/1.1",
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"memory_save","arguments":{"name":"\\ud800"}}}',
]  # fmt: skip


def make_frames(count: int, seed: int) -> Iterator[bytes]:
    """Broken frames, always the same for the same seed: the known nasty ones first, then valid ones taken apart."""
    dice = random.Random(seed)
    yield from _RAW[:count]
    for number in range(count - len(_RAW)):
        frame = json.loads(json.dumps(dice.choice(_VALID)))
        way = number % 4
        if way == 0:
            _swap(frame, dice)
            yield json.dumps(frame).encode()
            continue
        data = bytearray(json.dumps(frame).encode())
        if way == 1:
            del data[dice.randrange(len(data)) :]
        elif way == 2:
            for _ in range(dice.randrange(1, 6)):
                data[dice.randrange(len(data))] = dice.randrange(256)
        else:
            data[dice.randrange(len(data)) :] = dice.randbytes(dice.randrange(40))
        yield bytes(data).replace(b"\n", b" ")


def _swap(frame: dict[str, Any], dice: random.Random) -> None:
    """Put something odd in the place of one value, at any depth."""
    at: Any = frame
    while True:
        key = dice.choice(list(at))
        if isinstance(at[key], dict) and at[key] and dice.random() < 0.7:
            at = at[key]
            continue
        at[key] = dice.choice(_ODD)
        return


@pytest.mark.parametrize("era", ERAS)
def test_broken_frames_on_pipes_neither_end_the_server_nor_dirty_its_output(tmp_path: Path, era: str) -> None:
    cli = Cli(tmp_path)
    meta = {} if era == "legacy" else {"_meta": MODERN}
    with running(cli) as wire:
        if era == "legacy":
            wire.shake_hands()
        else:
            assert wire.ask("server/discover", **meta)["result"]["supportedVersions"]
        for number, frame in enumerate(make_frames(scaled(FRAMES), seed=len(era)), 1):
            wire.send(frame)
            if number % 10 == 0:
                answer = wire.ask("tools/call", name="memory_list", arguments={}, **meta)
                assert answer["result"]["structuredContent"]["memories"] == []
        code, rest, complaints = wire.end()
    assert code == 0 and complaints == b""
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert "Traceback" not in json.dumps(wire.heard)
    # An argument of the wrong kind is the caller's mistake, and is said to be one.
    assert [at for at in wire.heard if at.get("error", {}).get("code") == INTERNAL_ERROR] == []


def test_broken_bodies_on_loopback_are_answered_and_the_server_lives(tmp_path: Path) -> None:
    with listening(Cli(tmp_path)) as server:
        for number, frame in enumerate(make_frames(scaled(FRAMES), seed=3), 1):
            version = {"MCP-Protocol-Version": "2026-07-28"} if number % 2 else {}
            status, _, data = server.request(frame, version)
            assert 200 <= status < 500 and b"Traceback" not in data, (frame[:200], status, data[:200])
            assert str(INTERNAL_ERROR).encode() not in data, (frame[:200], data[:200])
        assert server.call("memory_list")["structuredContent"]["total"] == 0
        server.process.kill()
        assert server.process.stderr and server.process.stderr.read() == b""


def test_two_clients_at_once_lose_nothing(tmp_path: Path) -> None:
    """One server on pipes, and one on loopback with two clients, write into one directory together."""
    cli = Cli(tmp_path)
    each = scaled(250) // 5
    kept: list[str] = []
    with running(cli) as wire, listening(cli) as server:

        def write(who: str, call: Any) -> None:
            for number in range(each):
                name = f"{who}-{number}"
                row = call(
                    "memory_save",
                    type="reference",
                    name=name,
                    description=f"Where the {who} report number {number} is filed",
                    body=f"Shelf {number} of {who}.",
                )
                assert not row["isError"], row
                kept.append(name)
                call("memory_log", text=f"{name} saved")

        calls = {"one": wire.call, "other": server.call, "third": server.call}
        wire.shake_hands()
        threads = [threading.Thread(target=write, args=pair) for pair in calls.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(kept) == 3 * each
    assert {row["name"] for row in cli("list", "--json").json} == set(kept)
    index = (cli.memory / "MEMORY.md").read_text(encoding="utf-8")
    assert all(index.count(f"({name}.md)") == 1 for name in kept)
    log = cli("log", "show").out
    assert all(log.count(f"{name} saved") == 1 for name in kept)
    assert len(cli("history", "--limit", "10000", "--json").json) == 3 * each
