"""What the servers say was read from a prompt cache and put into one."""

from collections.abc import Iterator
from typing import Any

import pytest

from servers import AnthropicServer, OpenAIServer
from servers.cache import Block, PrefixCache, PromptCache, Spent
from wire import CHAT_HEAD, MESSAGES_HEAD, post

Body = dict[str, Any]
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Asked:
    """A server, a clock, and the figures of one request after the other: fresh, read, put in."""

    def __init__(self, server: AnthropicServer, clock: Clock) -> None:
        self.server, self.clock = server, clock

    def __call__(self, **fields: object) -> tuple[int, int, int]:
        body = {"model": "claude-opus-4-8", "max_tokens": 10, **fields}
        status, answer = post(f"{self.server.url}/v1/messages", body, MESSAGES_HEAD)
        assert status == 200, answer
        usage = answer["usage"]
        assert usage == self.server.usages[-1]
        return usage["input_tokens"], usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]


@pytest.fixture
def asked() -> Iterator[Asked]:
    clock = Clock()
    # A token is a character: the figures below can be read off the texts.
    with AnthropicServer(lambda body: "ok", count=len, clock=clock) as server:
        yield Asked(server, clock)
    assert server.problems == []


def block(size: int, letter: str = "a", mark: object = None) -> Body:
    return {"type": "text", "text": letter * size, **({"cache_control": mark} if mark else {})}


def user(*blocks: Body) -> Body:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Body) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def test_nothing_is_cached_without_a_mark(asked: Asked) -> None:
    for _ in range(2):
        assert asked(messages=[user(block(3000))]) == (3000, 0, 0)


def test_a_marked_prefix_is_put_in_once_and_then_read(asked: Asked) -> None:
    first = [user(block(2000, mark=MARK), block(30, "b"))]
    assert asked(messages=first) == (30, 0, 2000)
    assert asked(messages=first) == (30, 2000, 0)


def test_the_mark_is_not_part_of_the_key(asked: Asked) -> None:
    assert asked(messages=[user(block(2000, mark=MARK))]) == (0, 0, 2000)
    assert asked(messages=[user(block(2000), block(100, "b", MARK))]) == (0, 2000, 100)


def test_a_string_and_one_block_of_text_are_the_same_prompt(asked: Asked) -> None:
    assert asked(system="s" * 2000, messages=[user(block(10, mark=MARK))]) == (0, 0, 2010)
    assert asked(system=[block(2000, "s")], messages=[user(block(10, mark=MARK))]) == (0, 2010, 0)


def test_a_prefix_below_the_minimum_is_not_cached(asked: Asked) -> None:
    for _ in range(2):
        assert asked(messages=[user(block(1023, mark=MARK))]) == (1023, 0, 0)
    assert asked(messages=[user(block(1024, mark=MARK))]) == (0, 0, 1024)


def test_a_conversation_that_grows_reads_what_it_was(asked: Asked) -> None:
    talk = [user(block(2000, mark=MARK))]
    assert asked(messages=talk) == (0, 0, 2000)
    talk = [user(block(2000)), assistant(block(50, "b")), user(block(70, "c", MARK))]
    assert asked(messages=talk) == (0, 2000, 120)
    assert asked(messages=[*talk, assistant(block(5, "d")), user(block(6, "e"))]) == (11, 2120, 0)


def test_a_fork_that_changes_nothing_before_the_mark_reads_all_of_it(asked: Asked) -> None:
    tools = [{"name": "read", "description": "d" * 3000, "input_schema": {"type": "object"}}]
    parent: Body = {"system": [block(2000, "s", MARK)], "tools": tools}
    talk = [user(block(9000)), assistant(block(500, "b")), user(block(800, "c", MARK))]
    _, _, stored = asked(**parent, messages=talk)
    fresh, read, new = asked(**parent, messages=[*talk, assistant(block(40, "d")), user(block(60, "task"[0], None))])
    assert (fresh, read, new) == (100, stored, 0) and read / (fresh + read) > 0.99


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"model": "claude-opus-5"}, 0),
        ({"tools": [{"name": "other", "input_schema": {"type": "object"}}]}, 0),
        ({"system": [block(2000, "S", MARK)]}, 1500),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "string"}}}}, 1500),
        ({"speed": "fast"}, 1500),
        ({"tool_choice": {"type": "any"}}, 3500),
        ({"thinking": {"type": "adaptive"}}, 3500),
        ({"output_config": {"effort": "low"}}, 3500),
        ({"messages": [user(block(1000, "z", MARK))]}, 3500),
        ({"tool_choice": {"type": "auto"}, "thinking": {"type": "disabled"}}, 4500),
        ({"max_tokens": 99, "metadata": {"user_id": "u"}, "stop_sequences": ["x"]}, 4500),
    ],
    ids=str,
)
def test_each_change_spoils_the_cache_from_its_level_on(asked: Asked, change: Body, kept: int) -> None:
    tool: Body = {"name": "read", "input_schema": {"type": "object"}}
    size = len('{"name": "read", "input_schema": {"type": "object"}, "description": ""}')
    tool = {**tool, "description": "d" * (1500 - size), "cache_control": MARK}
    body: Body = {"tools": [tool], "system": [block(2000, "s", MARK)], "messages": [user(block(1000, mark=MARK))]}
    assert asked(**body) == (0, 0, 4500)
    assert asked(**{**body, **change})[1] == kept


def test_an_image_spoils_the_messages(asked: Asked) -> None:
    body: Body = {"system": [block(2000, "s", MARK)], "messages": [user(block(1000, mark=MARK))]}
    assert asked(**body) == (0, 0, 3000)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
    assert asked(**{**body, "messages": [user(block(1000, mark=MARK), image)]})[1] == 2000


def test_a_mark_looks_twenty_blocks_back_and_no_further(asked: Asked) -> None:
    first = user(block(2000, mark=MARK))
    assert asked(messages=[first]) == (0, 0, 2000)
    for more, read in ((19, 2000), (20, 0)):
        blocks = [block(10, letter) for letter in "bcdefghijklmnopqrstuv"[:more]]
        blocks[-1] = {**blocks[-1], "cache_control": MARK}
        asked.clock.now += 400
        assert asked(messages=[first]) == (0, 0, 2000)
        assert asked(messages=[user(block(2000), *blocks)])[1] == read


def test_an_earlier_mark_looks_from_where_it_stands(asked: Asked) -> None:
    first = user(block(2000, mark=MARK))
    assert asked(messages=[first]) == (0, 0, 2000)
    blocks = [block(10, chr(98 + at)) for at in range(24)]
    blocks[-1] = {**blocks[-1], "cache_control": MARK}
    assert asked(messages=[user(block(2000, mark=MARK), *blocks)]) == (0, 2000, 240)


def test_only_marked_blocks_are_put_in(asked: Asked) -> None:
    assert asked(messages=[user(block(1500), block(1500, "b", MARK))]) == (0, 0, 3000)
    assert asked(messages=[user(block(1500, mark=MARK), block(1500, "c"))]) == (1500, 0, 1500), (
        "nobody marked the first"
    )


def test_entries_live_for_minutes_or_an_hour_and_a_read_renews_them(asked: Asked) -> None:
    short, long = [user(block(2000, mark=MARK))], [user(block(2000, "b", HOUR))]
    assert asked(messages=short)[2] == asked(messages=long)[2] == 2000
    assert asked.server.usages[1]["cache_creation"]["ephemeral_1h_input_tokens"] == 2000
    for _ in range(3):
        asked.clock.now += 299
        assert asked(messages=short)[1] == 2000
    asked.clock.now += 301
    assert asked(messages=short) == (0, 0, 2000) and asked(messages=long) == (0, 2000, 0)
    asked.clock.now += 3601
    assert asked(messages=long) == (0, 0, 2000)


def test_an_hour_and_minutes_in_one_request_are_counted_apart(asked: Asked) -> None:
    assert asked(system=[block(2000, "s", HOUR)], messages=[user(block(500, mark=MARK), block(7, "b"))]) == (7, 0, 2500)
    made = asked.server.usages[0]["cache_creation"]
    assert made == {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 2000}


def test_a_mark_on_the_request_stands_for_its_last_block(asked: Asked) -> None:
    talk = [user(block(2000))]
    assert asked(cache_control=MARK, messages=talk) == (0, 0, 2000)
    assert asked(cache_control=MARK, messages=[*talk, assistant(block(8, "b")), user(block(9, "c"))]) == (0, 2000, 17)


def test_a_key_called_like_a_mark_in_a_tools_input_stays(asked: Asked) -> None:
    def talk(value: int) -> list[Body]:
        call = {"type": "tool_use", "id": "a", "name": "read", "input": {"cache_control": value}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": [block(5, "r", MARK)]}
        return [user(block(2000)), assistant(call), user(result)]

    tools = [{"name": "read", "input_schema": {"type": "object"}}]
    stored = asked(tools=tools, messages=talk(1))[2]
    assert stored > 2000 and asked(tools=tools, messages=talk(1)) == (0, stored, 0)
    assert asked(tools=tools, messages=talk(2)) == (0, 0, stored)


def test_a_deferred_tool_is_not_in_the_prompt(asked: Asked) -> None:
    late = {"name": "late", "input_schema": {"type": "object"}, "defer_loading": True}
    assert asked(messages=[user(block(2000, mark=MARK))]) == (0, 0, 2000)
    assert asked(messages=[user(block(2000, mark=MARK))], tools=[late]) == (0, 2000, 0)


def test_a_refused_request_puts_nothing_in() -> None:
    with AnthropicServer(["a"], count=len) as server:
        body = {"model": "m", "messages": [user(block(2000, mark=MARK))]}
        assert post(f"{server.url}/v1/messages", body, MESSAGES_HEAD)[0] == 400
        post(f"{server.url}/v1/messages", {**body, "max_tokens": 1}, MESSAGES_HEAD)
    assert server.usages[0]["cache_read_input_tokens"] == 0


def test_the_caches_alone_give_the_same_figures() -> None:
    cache = PromptCache(clock=lambda: 0.0, minimum=10)
    row = [Block(b"1", 8), Block(b"2", 8, "5m"), Block(b"3", 4)]
    assert [cache.spend(row) for _ in range(2)] == [Spent(4, 0, 16), Spent(4, 16)]
    prefixes = PrefixCache(clock=lambda: 0.0, minimum=4, step=2)
    assert prefixes.spend(["abcd", "efgh"], len) == Spent(8)
    assert prefixes.spend(["abcd", "efxx"], len) == Spent(2, 6)
    assert prefixes.spend(["abxx", "efgh"], len) == Spent(8)


def test_a_completion_reads_the_longest_beginning_in_whole_steps() -> None:
    clock = Clock()

    def ask(*texts: str, model: str = "m") -> tuple[int, int]:
        body = {"model": model, "messages": [{"role": "user", "content": text} for text in texts]}
        usage = post(f"{server.url}/chat/completions", body, CHAT_HEAD)[1]["usage"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]

    with OpenAIServer(lambda body: "ok", count=len, clock=clock) as server:
        around = len('m{"role": "user", "content": ""}')
        assert ask("a" * 2000) == (2000 + around, 0)
        assert ask("a" * 2000) == (2000 + around, 1024 + 128 * 7)
        assert ask("a" * 2000, "b")[1] == 1024 + 128 * 7
        assert ask("a" * 1200 + "z" * 800)[1] == 1024 + 128, "to where the texts part"
        assert ask("a" * 900 + "y" * 1100)[1] == 0, "too short a beginning"
        assert ask("a" * 2000, model="n")[1] == 0
        clock.now += 601
        assert ask("a" * 2000)[1] == 0
