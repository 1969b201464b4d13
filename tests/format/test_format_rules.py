"""Which memories are standing rules."""

from datetime import UTC, datetime, timedelta

import pytest

from memdir.format.fields import FrontmatterFields
from memdir.format.index import clip_index
from memdir.format.rules import find_rules, judge_rule
from memdir.limits import INDEX_LINES, RECOGNISED_RULES, RULES
from memdir.records import Header, Kind, Scope, Signature, When
from tables import read_rows

NO_WHEN = When()
START = datetime(2026, 1, 1, tzinfo=UTC)


def header(
    name: str,
    description: str = "No summary at the end of an answer",
    *,
    kind: Kind = Kind.FEEDBACK,
    scope: Scope = Scope.PRIVATE,
    day: int = 0,
    pinned: bool = False,
    when: When = NO_WHEN,
) -> Header:
    modified = START + timedelta(days=day)
    signature = Signature(day, 2, 3, 4)
    return Header(name, name, description, kind, scope, modified, pinned, signature, when=when)


def names(rules: tuple[Header, ...]) -> list[str]:
    return [rule.name for rule in rules]


def test_rules_are_recognised_by_their_header() -> None:
    wrong = []
    for kind, title, description, is_rule in read_rows("format_rules")["headers"]:
        fields = FrontmatterFields(title=title, description=description, kind=Kind(kind))
        wrong += [f"{title}: {description}"] if bool(judge_rule(fields)) != is_rule else []
    assert not wrong


def test_feedback_with_triggers_is_shown_at_the_action_and_is_no_rule() -> None:
    triggers = When(commands=("push.*--force",))
    assert names(find_rules([header("a", when=triggers), header("b", kind=Kind.USER, when=triggers)])) == ["b"]
    assert names(find_rules([header("c", when=When(always=True, commands=("push",)))])) == ["c"]


@pytest.mark.parametrize("scope", [Scope.TEAM, Scope.PROJECT])
def test_nobody_else_writes_a_rule(scope: Scope) -> None:
    assert find_rules([header("a", scope=scope, when=When(always=True)), header("b", scope=scope)]) == ()


def test_written_rules_come_first_then_pinned_ones_then_the_newest() -> None:
    always = When(always=True)
    headers = [
        header("old", day=1), header("new", day=9), header("pinned", day=2, pinned=True),
        header("me", kind=Kind.USER, day=1), header("written", kind=Kind.PROJECT, day=1, when=always),
        header("written-later", kind=Kind.REFERENCE, day=2, when=always),
        header("written-pinned", day=0, pinned=True, when=always), header("other", kind=Kind.PROJECT, day=20),
    ]  # fmt: skip
    expected = ["written-pinned", "written-later", "written", "me", "pinned", "new", "old"]
    assert names(find_rules(headers)) == expected


def test_there_are_at_most_thirty_and_few_that_are_only_recognised() -> None:
    recognised = [header(f"r{number}", day=number) for number in range(40)]
    written = [header(f"w{number}", day=number, when=When(always=True)) for number in range(40)]
    assert len(find_rules(recognised)) == RECOGNISED_RULES
    assert names(find_rules([*recognised, *written])) == [f"w{number}" for number in range(39, 39 - RULES, -1)]
    assert len(find_rules([*recognised, *written[:5]])) == 5 + RECOGNISED_RULES


def test_when_an_index_is_cut_the_lines_of_rules_stay() -> None:
    headers = [
        header(f"p{number}", "A fact", kind=Kind.PROJECT, day=100 + number) for number in range(INDEX_LINES + 20)
    ]
    headers += [header(f"f{number}", "No tabs in tables", day=50) for number in range(INDEX_LINES)]
    headers.append(header("rule", day=0))
    text = "".join(f"- [{one.name}]({one.name}.md) — {one.description}\n" for one in headers)
    loaded = clip_index(text, headers)
    assert loaded.over_lines and "(rule.md)" in loaded.text
