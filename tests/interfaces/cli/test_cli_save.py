"""`save`: what it takes, refuses, warns of and reports."""

from clihelp import Cli, Result, memory_text

GOOD = ("--type", "feedback", "--description", "No summary at the end of a reply", "--body", "Leave it out.")


def project_memory(cli: Cli, *more: str, description: str = "Merge freeze for the mobile release") -> Result:
    return cli("save", "--type", "project", "--description", description, *more)


def test_cues_are_kept_in_the_file_and_find_the_memory(cli: Cli) -> None:
    cli("save", "--name", "terse", *GOOD, "--cue", "wrap up the refactoring for me", "--cue", "what did you change?")
    text = (cli.memory / "terse.md").read_text(encoding="utf-8")
    assert "cues:" in text and "wrap up the refactoring for me" in text
    (found,) = cli("recall", "please wrap up the refactoring", "--json").json["memories"]
    assert found["name"] == "terse"
    many = [part for number in range(6) for part in ("--cue", f"question number {number}?")]
    refused = cli("save", "--name", "other", *GOOD, *many)
    assert refused.code == 1 and "too many cues: 6" in refused.err
    assert "`cues` contains the character U+0007" in cli("edit", "terse", "--cue", "be\a").refusal
    header = cli("edit", "terse", "--cue", " what\n changed?  ", "--pin", "--json").json
    assert '  - "what changed?"\n' in (cli.memory / "terse.md").read_text(encoding="utf-8") and header["pinned"]
    cli("edit", "terse", "--cue", "", "--not-pin")
    assert not {"cues:", "pinned:"} & {*(cli.memory / "terse.md").read_text(encoding="utf-8").split()}


def test_name_or_title_must_be_there_and_one_flag_at_most(cli: Cli) -> None:
    assert cli("save", *GOOD).code == 2
    assert cli("save", "--name", "n", *GOOD, "--new", "--replace").code == 2


def test_an_existing_name_is_refused_with_the_difference_and_the_flags(cli: Cli) -> None:
    cli.save()
    again = cli.save("terse-replies", "Keep the closing summary.")
    assert "-Leave out the closing summary." in again.lines and "+Keep the closing summary." in again.lines
    assert "--replace" in again.refusal and "--new" in again.refusal
    assert "Leave out" in (cli.memory / "terse-replies.md").read_text(encoding="utf-8")
    quiet = cli.save("terse-replies", "Keep the closing summary.", "--json")
    assert quiet.refusal and quiet.out == ""


def test_a_long_difference_is_shortened(cli: Cli) -> None:
    cli.save("long", "\n".join(f"line {number}" for number in range(200)))
    told = cli.save("long", "\n".join(f"other {number}" for number in range(200)))
    assert len(told.lines) == 41 and "more lines" in told.lines[-1]


def test_replace_replaces_what_is_there_and_nothing_else(cli: Cli) -> None:
    assert "memory not found" in cli.save("terse-replies", "Text.", "--replace").refusal
    cli.save()
    row = cli.save("terse-replies", "Keep the closing summary.", "--replace", "--json").json
    assert (row["action"], row["change"]) == ("replaced", 2)
    same = cli.save("terse-replies", "Keep the closing summary.", "--replace", "--json").json
    assert (same["action"], same["change"]) == ("unchanged", None)


def test_replace_by_title_finds_the_file_with_the_suffix(cli: Cli) -> None:
    cli("save", "--title", "One thing", "--name", "a-b", *GOOD)
    first = cli("save", "--title", "A b", *GOOD, "--json").json
    assert first["name"] == "a-b-2", "two titles never share a file"
    row = cli("save", "--title", "A b", *GOOD[:-1], "Another text.", "--replace", "--json").json
    assert (row["name"], row["action"]) == ("a-b-2", "replaced")


def test_new_takes_the_next_free_name(cli: Cli) -> None:
    cli.save()
    assert cli.save("terse-replies", "Keep it.", "--new", "--json").json["name"] == "terse-replies-2"
    assert cli.save("Terse-Replies", "Keep it.", "--new", "--json").json["name"] == "Terse-Replies-3"
    assert cli("save", "--title", "Terse replies", *GOOD, "--new", "--json").json["name"] == "terse-replies-4"
    assert cli.save("fresh", "Keep it.", "--new", "--json").json["name"] == "fresh"


def test_relative_dates_of_project_memories_become_absolute_and_are_told(cli: Cli) -> None:
    told = project_memory(
        cli, "--name", "freeze", "--body", "No merges from tomorrow.", "--why", "The release is on Friday.",
        "--how", "Ask before next Monday.", description="Merge freeze for the mobile release from tomorrow",
    )  # fmt: skip
    text = (cli.memory / "freeze.md").read_text(encoding="utf-8")
    assert "2026-03-06" in text and "2026-03-09" in text and "tomorrow" not in text and "Friday" not in text
    assert sum(" -> " in line for line in told.lines) == 4
    row = project_memory(cli, "--name", "other", "--body", "Due tomorrow.", "--json").json
    assert row["dates"][0]["was"] == "tomorrow" and "2026-03-06" in row["dates"][0]["now"]


def test_a_body_comes_from_standard_input(cli: Cli) -> None:
    told = cli.real("save", "--name", "n", *GOOD[:-1], "-", given="\ufeffZeile eins\r\nZeile zwei\r\n".encode())
    assert told.code == 0
    assert b"\nZeile eins\nZeile zwei\n" in (cli.memory / "n.md").read_bytes()


def test_standard_input_that_is_not_text_or_endless_is_refused(cli: Cli) -> None:
    assert "not UTF-8" in cli.real("save", "--name", "n", *GOOD[:-1], "-", given=b"\xff\xfe").refusal
    assert "bytes" in cli.real("save", "--name", "n", *GOOD[:-1], "-", given="é".encode() * 600_000).refusal
    assert "body" in cli.real("save", "--name", "n", *GOOD[:-1], "-").refusal


def test_a_nearly_full_index_is_reported_with_proposals(cli: Cli) -> None:
    lines = "".join(f"- [M{number}](m{number}.md) — {'x' * 140}\n" for number in range(165))
    for number in range(165):
        cli.file(f"m{number}", memory_text(f"M{number}"))
    cli.file("MEMORY", lines)
    told = cli.save()
    assert "full" in told.err and "shorten the longest lines" in told.err
    row = cli.save("other", "Text.", "--json").json
    assert row["index"]["share"] > 0.8 and any("full" in warning for warning in row["warnings"])
