from datetime import UTC, datetime

from memdir.format.age import find_link_target, find_links, make_targets, resolve_links
from memdir.records import Header, Kind, Scope, Signature


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
