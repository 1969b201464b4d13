"""How old a memory is said to be, and when it carries a caveat."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.format.age import days_old, render_age, render_freshness

BERLIN = timezone(timedelta(hours=1))
NOW = datetime(2026, 11, 15, 9, 0, tzinfo=BERLIN)
ZONES = st.sampled_from([UTC, BERLIN, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))])


@pytest.mark.parametrize(
    ("modified", "words"),
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


def test_a_moment_to_come_counts_as_now() -> None:
    assert days_old(NOW + timedelta(days=30), NOW) == 0


@pytest.mark.parametrize("days", [0, 1])
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
