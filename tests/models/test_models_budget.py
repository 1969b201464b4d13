"""The hard stop and the record behind it: kept on disk, right with many processes at once, clear in its words."""

import multiprocessing
import os
import stat
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from clihelp import Cli
from homes import make_environment
from loads import scaled
from memdir.errors import BudgetError, UnreachableError
from memdir.frozen import replace
from memdir.models.connection import as_count, sum_usage
from memdir.models.open import new_run
from memdir.models.usage import (
    TokenCaps,
    UsageMeter,
    UsageRow,
    ask_metered,
    count_tokens_spent,
    describe_cost,
    estimate_input,
    find_cost,
    find_price,
    open_book,
    read_usage_report,
)
from memdir.records import Message, Reply, Request, Tool, Usage
from memdir.testing import ScriptedModel
from scripted_models import NOW, ask, open_at, rows
from servers import AnthropicServer

SECRET = "the passphrase is tangerine"


def make_meter(tmp_path: Path, *, run: int = 0, day: int = 0, **more: object) -> UsageMeter:
    meter = UsageMeter(
        tmp_path / "state" / "usage.db", "openai:gpt-4.1", TokenCaps(run, day), lambda: NOW, "run-1", "/work/app"
    )
    return replace(meter, **more)


def answer(fresh: int = 0, cached: int = 0, output: int = 0) -> Reply:
    return Reply("ok", Usage(fresh, cached, output))


def test_a_cached_token_counts_a_tenth() -> None:
    assert count_tokens_spent(Usage(fresh=100, cached=1000, output=50, stored=30)) == 280


def test_the_estimate_covers_everything_that_is_sent() -> None:
    plain = estimate_input(ask("word " * 1000))
    assert 600 < plain < 1500
    tool = Tool("read", "Read a file " * 50, {"type": "object"})
    assert estimate_input(ask("word " * 1000, tools=(tool,))) > plain + 100
    parent = {"messages": [{"role": "user", "content": "word " * 40_000}]}
    assert 4000 < estimate_input(Request("", (Message("user", "x"),), 10, parent=parent)) < 6000


def test_a_request_over_the_run_cap_is_not_sent_and_the_words_say_what_to_do(tmp_path: Path) -> None:
    with AnthropicServer(["One.", "Two."]) as server:
        model = open_at(server.url, "anthropic:claude-test", tmp_path, MEMDIR_BUDGET_RUN_TOKENS="400")
        assert model(ask(max_tokens=300)).text == "One."
        with pytest.raises(BudgetError) as caught:
            model(ask("word " * 300, max_tokens=300))
        assert len(server.requests) == 1
        assert new_run(model)(ask(max_tokens=300)).text == "Two."
    assert "token limit for one run reached" in str(caught.value) and "\n" not in str(caught.value)
    assert "memdir config set budget.run_tokens" in caught.value.hint


def test_the_day_cap_holds_for_every_run_and_says_when_it_begins_anew(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, day=1000)
    ask_metered(lambda request: answer(700), ask(), meter)
    with pytest.raises(BudgetError) as caught:
        ask_metered(lambda request: answer(), ask(max_tokens=400), replace(meter, run="run-2"))
    assert "700 of 1,000 spent" in str(caught.value) and "is reset at 2026-03-0" in caught.value.hint
    tomorrow = replace(meter, clock=lambda: NOW + timedelta(days=1))
    assert ask_metered(lambda request: answer(1), ask(max_tokens=400), tomorrow).text == "ok"


def test_what_was_set_aside_is_given_back(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, day=1000)
    for _ in range(5):
        ask_metered(lambda request: answer(10, 0, 10), ask(max_tokens=800), meter)
    report = read_usage_report(meter.path, now=NOW)
    assert report.today == 100 and {row.outcome for row in report.last} == {"done"}


def test_a_request_that_was_never_read_costs_nothing_and_one_that_broke_off_does(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, day=100_000)
    for reason in ("offline", "timeout"):
        model = ScriptedModel([UnreachableError("x", reason=reason)])
        with pytest.raises(UnreachableError):
            ask_metered(model, ask("word " * 100), meter)
    timeout, offline = read_usage_report(meter.path, now=NOW).last
    assert offline.counted == 0 and timeout.counted > 50


def test_a_cost_that_cannot_be_recorded_stops_everything_unless_there_is_no_cap(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")
    with pytest.raises(BudgetError, match="cannot record"):
        ask_metered(lambda request: answer(), ask(), make_meter(tmp_path, day=1000))
    assert ask_metered(lambda request: answer(), ask(), make_meter(tmp_path)).text == "ok"


def test_a_damaged_record_stops_with_the_place_to_mend(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, day=1000)
    meter.path.parent.mkdir()
    meter.path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(BudgetError) as caught:
        ask_metered(lambda request: answer(), ask(), meter)
    assert str(meter.path) in caught.value.hint


def spend(path: Path, results: "multiprocessing.Queue[int]") -> None:
    meter = UsageMeter(path, "openai:x", TokenCaps(0, 10_000), lambda: NOW, str(os.getpid()))
    sent = 0
    for _ in range(20):
        try:
            ask_metered(lambda request: answer(300, 0, 200), ask(max_tokens=480), meter)
            sent += 1
        except BudgetError:
            continue
    results.put(sent)


@pytest.mark.load
def test_many_processes_never_spend_more_than_the_cap_together(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    path = tmp_path / "state" / "usage.db"
    count = scaled(8)
    workers = [context.Process(target=spend, args=(path, results)) for _ in range(max(3, count))]
    for worker in workers:
        worker.start()
    sent = sum(results.get(timeout=60) for _ in workers)
    for worker in workers:
        worker.join()
    assert 15 <= sent <= 20
    assert read_usage_report(path, now=NOW).today == sent * 500


def test_a_killed_process_leaves_what_it_had_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "state" / "usage.db"
    code = (
        "import os, signal, sys; from datetime import datetime; from pathlib import Path;"
        "from memdir.models.usage import TokenCaps; from memdir.models.usage import UsageMeter, ask_metered;"
        "from memdir.records import Message, Request;"
        f"now = datetime.fromisoformat({NOW.isoformat()!r});"
        f"meter = UsageMeter(Path({str(path)!r}), 'openai:x', TokenCaps(0, 1000), lambda: now, 'r');"
        "request = Request('', (Message('user', 'x'),), 900);"
        "ask_metered(lambda asked: os.kill(os.getpid(), signal.SIGKILL), request, meter)"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(source)})
    assert done.returncode == -9
    report = read_usage_report(path, now=NOW)
    assert report.last[0].outcome == "open" and report.today >= 900


def test_a_row_holds_figures_and_no_text(tmp_path: Path) -> None:
    with AnthropicServer([SECRET]) as server:
        model = open_at(server.url, "anthropic:claude-haiku-4-5", tmp_path, project="/work/app")
        model(ask(SECRET, system=SECRET, purpose="select"))
        model = replace(model, model=lambda request: answer())
        model(ask(SECRET, purpose=SECRET))
    first, second = rows(tmp_path)
    assert (first.project, first.purpose, first.model) == ("/work/app", "select", "anthropic:claude-haiku-4-5")
    assert first.usage.input > 0 and first.usage.dollars and first.counted == count_tokens_spent(first.usage)
    assert second.purpose == "other"
    folder = make_environment(tmp_path).state_home
    for path in folder.rglob("*"):
        assert b"tangerine" not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_weeks_are_summed_by_project_and_purpose(tmp_path: Path) -> None:
    meter = make_meter(tmp_path)
    for days, project, purpose in ((0, "/a", "extract"), (0, "/a", "extract"), (7, "/a", "select"), (200, "/b", "x")):
        at = NOW - timedelta(days=days)
        ask_metered(
            lambda request: answer(100, 900, 10),
            ask(purpose=purpose),
            replace(meter, clock=lambda at=at: at, project=project),
        )
    totals = read_usage_report(meter.path, now=NOW).totals
    assert [(at.week, at.project, at.purpose, at.requests, at.usage.input) for at in totals] == [
        ("2026-03-02", "/a", "extract", 2, 2000),
        ("2026-02-23", "/a", "select", 1, 1000),
    ]
    assert totals[0].usage.dollars == pytest.approx(2 * (100 * 2 + 900 * 0.5 + 10 * 8) / 1e6)


def test_old_rows_are_left_out_in_time(tmp_path: Path) -> None:
    book = open_book(tmp_path / "state" / "usage.db")
    try:
        for days in (500, 10):
            entry = UsageRow(NOW - timedelta(days=days), "", "", "x:y", "done", Usage(), 5)
            book.begin(entry, "r", TokenCaps())
        book.prune(NOW)
        assert [row.at for row in book.read_last(10)] == [NOW - timedelta(days=10)]
    finally:
        book.close()


def test_a_price_is_found_by_name_with_or_without_a_date_and_never_guessed() -> None:
    assert find_price("claude-haiku-4-5-20251001") == find_price("anthropic/claude-haiku-4-5") != ()
    assert find_price("gpt-4o-2024-08-06") == [2.5, 10, 1.25] and find_price("claude-sonnet-5[1m]")
    assert not any(map(find_price, ("claude-haiku-9", "gpt-4o-audio", "")))
    assert find_cost("gpt-4.1", Usage(1_000_000, 1_000_000, 1_000_000)) == pytest.approx(10.5)
    assert find_cost("unknown", Usage(1)) is None


def test_status_shows_usage_by_week_and_what_was_never_recalled(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.save("one")
    cli.save("two")
    cli("recall", "no summary at the end of a one reply", "--session", "s")
    path = cli.home / ".local" / "state" / "memdir" / "usage.db"
    meter = UsageMeter(path, "anthropic:claude-haiku-4-5", TokenCaps(), lambda: NOW, "r", str(cli.project))
    ask_metered(lambda request: answer(100, 900, 50), ask(purpose="extract"), meter)
    ask_metered(lambda request: answer(10, 0, 5), ask(purpose="select"), replace(meter, project="/elsewhere"))
    facts = cli("status", "--json").json
    usage = facts["usage"]
    assert usage["today_tokens"] == 255 and usage["caps"]["day_tokens"] == 1_000_000
    assert [(row["project"], row["purpose"]) for row in usage["weeks"]] == [
        ("/elsewhere", "select"),
        (str(cli.project), "extract"),
    ]
    assert usage["requests"][0]["purpose"] == "select" and usage["requests"][1]["cached"] == 900
    recalled = facts["scopes"][0]["recalled"]
    assert recalled["times"] >= 1 and recalled["never"] == 2 - recalled["memories"]
    told = cli("status", "--usage").out
    assert "2026-03-02" in told and "other projects" in told
    assert "cached 900 (90.0%)" in told and "settings" not in told


def test_status_says_so_when_no_model_was_ever_asked(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert cli("status", "--json").json["usage"]["requests"] == []
    assert "no model has been asked" in cli("status", "--usage").out


def test_status_survives_a_damaged_record(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    path = cli.home / ".local" / "state" / "memdir" / "usage.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not a database at all" * 100)
    done = cli("status")
    assert done.code == 0 and "usage.db" in done.out


def test_an_endpoint_that_reports_nothing_is_not_free_of_the_caps(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, run=3000)
    with pytest.raises(BudgetError):
        for _ in range(10):
            reply = ask_metered(lambda request: Reply("word " * 500), ask("word " * 500), meter)
            assert reply.usage.dollars is None  # nobody knows, so nothing is made up


def test_what_a_wrong_clock_wrote_into_another_year_does_not_count_today(tmp_path: Path) -> None:
    ahead = make_meter(tmp_path, day=1000, clock=lambda: NOW + timedelta(days=900))
    ask_metered(lambda request: answer(fresh=900), ask(max_tokens=10), ahead)
    now = replace(ahead, clock=lambda: NOW)
    assert ask_metered(lambda request: answer(fresh=900), ask(max_tokens=10), now).text == "ok"
    with pytest.raises(BudgetError):
        ask_metered(lambda request: answer(fresh=900), ask(max_tokens=100), now)


def test_a_count_that_no_file_can_hold_is_cut() -> None:
    assert 10**9 < as_count(10**30) < 2**53


def test_a_record_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    meter = make_meter(tmp_path, run=1000)
    meter.path.parent.mkdir(parents=True, exist_ok=True)
    meter.path.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(BudgetError):
        ask_metered(lambda request: answer(5), ask("one"), meter)
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_cost_is_never_zero_because_a_price_is_unknown() -> None:
    known, unknown = Usage(fresh=100, cached=300, output=20, dollars=0.5), Usage(fresh=7, output=1)
    rows = [
        (known, 0, "400 tokens in (75% cached), 20 out, about $0.50"),
        (unknown, 1, "7 tokens in (0% cached), 1 out, price unknown"),
        (sum_usage(known, unknown), 1, "407 tokens in (74% cached), 21 out, about $0.50 and more"),
        (replace(known, dollars=0.00123), 0, "400 tokens in (75% cached), 20 out, about $0.0012"),
        (sum_usage(), 0, "0 tokens in, 0 out, nothing spent"),
    ]
    assert [describe_cost(usage, unpriced=unpriced) for usage, unpriced, _ in rows] == [text for *_, text in rows]
