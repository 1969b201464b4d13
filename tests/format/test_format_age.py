"""Ages in words, half-lives, and links between memories."""

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from memdir.format.age import (
    days_old,
    find_link_target,
    find_links,
    make_targets,
    render_age,
    render_freshness,
    resolve_links,
)
from memdir.records import Header, Kind, Scope, Signature
from tables import table

BERLIN = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 15, 9, 0, tzinfo=BERLIN)
ZONES = st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])


@table(
    "modified words",
    [
        (NOW, "today"),
        (NOW - timedelta(hours=9), "today"),
        (NOW - timedelta(hours=9, seconds=1), "yesterday"),
        (NOW - timedelta(days=1), "yesterday"),
        (NOW - timedelta(days=2), "2 days ago"),
        (NOW - timedelta(days=400), "400 days ago"),
        (NOW + timedelta(days=3), "today"),
    ],
)
def test_age_is_told_in_calendar_days(modified: datetime, words: str) -> None:
    assert render_age(modified, NOW) == words


def test_the_day_is_that_of_the_reader() -> None:
    late = datetime(2026, 11, 14, 23, 30, tzinfo=UTC)
    assert days_old(late, NOW) == 0
    assert days_old(late, NOW.astimezone(UTC)) == 1


@table("days", [0, 1])
def test_today_and_yesterday_need_no_caveat(days: int) -> None:
    assert render_freshness(NOW - timedelta(days=days), NOW) == ""


def test_an_older_memory_says_how_old_it_is_and_asks_to_be_checked() -> None:
    caveat = render_freshness(NOW - timedelta(days=47), NOW)
    assert "47 days" in caveat
    assert "check" in caveat
    assert caveat.count(".") == 1
    assert "\n" not in caveat


@given(st.datetimes(timezones=ZONES), st.datetimes(timezones=ZONES))
def test_any_two_moments_have_an_age(modified: datetime, now: datetime) -> None:
    assert days_old(modified, now) >= 0
    assert bool(render_freshness(modified, now)) == (days_old(modified, now) > 1)


def header(name: str, title: str = "") -> Header:
    moment = datetime(2026, 5, 1, tzinfo=UTC)
    return Header(name, title or name, "", Kind.USER, Scope.PRIVATE, moment, False, Signature(1, 2, 3, 4))


def test_links_in_code_are_no_links() -> None:
    text = "[[a]] `[[b]]`\n```\n[[c]]\n```\n[[d|shown]] [[ e ]]\n"
    assert list(find_links(text)) == [("a", 1), ("d", 5), ("e", 5)]


def test_a_link_means_a_name_then_a_last_part_then_a_title() -> None:
    targets = make_targets([header("sub/deploy"), header("other", "Deploy"), header("Terse_Replies")])
    assert find_link_target("deploy", targets) == "sub/deploy"
    assert find_link_target("sub/deploy.md", targets) == "sub/deploy"
    assert find_link_target("terse replies", targets) == "Terse_Replies"
    assert find_link_target("nothing", targets) is None


def test_a_map_of_links_leaves_out_itself_doubles_and_what_leads_nowhere() -> None:
    headers = [header("a"), header("b", "The B"), header("c"), header("d")]
    texts = {"a": "[[the b]] [[B]] [[a]] [[gone]] [[c]]", "b": "[[gone]]", "c": "no link"}
    assert resolve_links(headers, texts) == {"a": ("b", "c")}
