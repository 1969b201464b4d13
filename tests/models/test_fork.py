"""The fork: ask, act, stop."""

import pytest

from memdir.errors import ReplyError
from memdir.models.agent import ForkEnd, ToolResult, run_fork
from memdir.records import Message, Reply, Request, StopReason, ToolCall, Usage
from memdir.testing import ScriptedModel

PARENT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "tools": [{"name": "Write"}]}
REQUEST = Request("", (Message("user", "task"),), 100, parent=PARENT)


def call(number: int, name: str = "Read", **values: object) -> ToolCall:
    return ToolCall(f"c{number}", name, values)


def calls(*made: ToolCall, text: str = "", usage: Usage | None = None) -> Reply:
    return Reply(text, usage or Usage(), made, StopReason.CALLS)


def allow(_: ToolCall) -> ToolResult:
    return ToolResult("ok")


def test_a_run_ends_when_the_model_calls_no_more() -> None:
    model = ScriptedModel([calls(call(1, path="a"), call(2, path="b")), calls(call(3, "Write", path="a")), "done"])
    ran = run_fork(model, REQUEST, allow)
    assert (ran.end, ran.turns, ran.calls, ran.refused, ran.text) == (ForkEnd.DONE, 3, 3, 0, "done")


def test_a_refusal_is_told_and_counted_and_the_run_goes_on() -> None:
    model = ScriptedModel([calls(call(1, "Bash", command="rm -rf /")), "sorry"])
    ran = run_fork(model, REQUEST, lambda _: ToolResult("Refused: no shell", refused=True))
    assert (ran.end, ran.refused) == (ForkEnd.DONE, 1)
    told = model.requests[1].messages[-1]
    assert told.failed and told.text == "Refused: no shell"


def test_the_identical_call_twice_ends_the_run() -> None:
    model = ScriptedModel([calls(call(1, path="a", limit=1)), calls(call(2, limit=1, path="a"))])
    ran = run_fork(model, REQUEST, allow)
    assert (ran.end, ran.calls) == (ForkEnd.REPEATED, 1)


def test_a_run_has_so_many_turns_and_no_more() -> None:
    model = ScriptedModel([calls(call(number, path=str(number))) for number in range(9)])
    ran = run_fork(model, REQUEST, allow)
    assert (ran.end, ran.turns, len(model.requests)) == (ForkEnd.TURNS, 5, 5)


def test_a_run_has_so_many_calls_and_no_more() -> None:
    done: list[ToolCall] = []

    def change(made: ToolCall) -> ToolResult:
        done.append(made)
        return ToolResult("ok")

    model = ScriptedModel([calls(*(call(number, path=str(number)) for number in range(30)))])
    ran = run_fork(model, REQUEST, change)
    assert (ran.end, ran.calls, len(done)) == (ForkEnd.CALLS, 20, 20)


def test_a_call_cut_by_the_token_limit_is_not_made() -> None:
    done: list[ToolCall] = []

    def change(made: ToolCall) -> ToolResult:
        done.append(made)
        return ToolResult("ok")

    cut = Reply("", Usage(), (call(1, "Write", path="a"),), StopReason.LENGTH)
    with pytest.raises(ReplyError):
        run_fork(ScriptedModel([cut]), REQUEST, change)
    assert done == []


def test_a_model_that_declines_ends_the_run() -> None:
    assert run_fork(ScriptedModel([Reply("", stop=StopReason.REFUSED)]), REQUEST, allow).end is ForkEnd.DECLINED


def test_the_usage_of_all_requests_is_added_and_that_of_the_first_kept() -> None:
    model = ScriptedModel([calls(call(1), usage=Usage(10, 990, 5, 7, 0.5)), Reply("done", Usage(1, 2, 3, 4, 0.25))])
    ran = run_fork(model, REQUEST, allow)
    assert ran.usage == Usage(11, 992, 8, 11, 0.75)
    assert ran.first == Usage(10, 990, 5, 7, 0.5)
