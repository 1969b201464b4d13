"""`memdir export`, and that what was exported comes back the same."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from clihelp import Cli, memory_text
from homes import write
from importers import BILLING, DEPLOYS, TOKEN, make_source, read_tree
from memdir.format.frontmatter import follow_dialect, parse_fields
from memdir.records import Dialect


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project with a directory in both dialects, something a team shares, and bytes that are no UTF-8."""
    cli = Cli(tmp_path)
    make_source(cli.memory)
    cli.file("team/tracker", memory_text("Tracker"))
    cli.file("crlf", BILLING.replace("\n", "\r\n").replace("BILL", "CRLF"))
    cli.save("mine", "Text.")
    return cli


def other(cli: Cli, name: str) -> Cli:
    """The same person on another machine."""
    return Cli(cli.home.parent / name)


def members(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {at.name: found.read() for at in archive if (found := archive.extractfile(at)) is not None}


def test_what_was_exported_and_imported_into_an_empty_place_is_the_same(cli: Cli) -> None:
    away = other(cli, "away")
    path = str(cli.home / "m.tar")
    assert cli("export", "-o", path).code == 0
    assert away("import", path, "--apply", "--with-team").code == 0
    wanted = read_tree(cli.memory)
    lines = [line for line in wanted["MEMORY.md"].splitlines(keepends=True) if b"gone.md" not in line]
    wanted["MEMORY.md"] = b"".join(lines)
    assert set(read_tree(away.memory)) == set(wanted) | {"team/MEMORY.md"}
    assert {path: data for path, data in read_tree(away.memory).items() if path in wanted} == wanted
    ages = [
        {row["name"]: row["since"][:16] for row in each("recall", "billing bugs", "--json").json["memories"]}
        for each in (cli, away)
    ]
    assert ages[0] == ages[1] and ages[0]["billing"].startswith("2020-09-13")


def test_the_same_memories_give_the_same_bytes_whoever_reads_them_and_whenever(cli: Cli) -> None:
    first = cli("export", MEMDIR_NOW="2100-01-01T00:00:00+00:00").data
    os.utime(cli.memory / "MEMORY.md")
    assert cli("export", MEMDIR_NOW="2100-02-02T00:00:00+00:00").data == first
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        found = archive.getmembers()
    assert [at.name for at in found] == sorted(at.name for at in found)
    assert {(at.uid, at.gid, at.uname, at.gname, at.mode) for at in found} == {(0, 0, "", "", 0o600)}
    packed = [cli("export", "-o", name).code or (cli.project / name).read_bytes() for name in ("a.tar.gz", "b.tar.gz")]
    assert packed[0] == packed[1]


def test_a_file_follows_the_dialect_and_one_that_has_it_or_cannot_be_read_keeps_every_byte() -> None:
    for kept, dialect in ((DEPLOYS, Dialect.NESTED), (BILLING, Dialect.FLAT), ("no head\n", Dialect.NESTED)):
        assert follow_dialect(kept, dialect) == kept
    before, after = parse_fields(BILLING), parse_fields(follow_dialect(BILLING, Dialect.NESTED))
    assert (after.dialect, after.kind, after.title) == (Dialect.NESTED, before.kind, before.title)


def test_scope_says_which(cli: Cli) -> None:
    cli.save("ours", "Text.", "--scope", "user")
    assert set(members(cli("export", "--scope", "team").data)) == {"team/tracker.md"}
    assert "team/tracker.md" not in members(cli("export", "--scope", "private").data)
    assert set(members(cli("export", "--scope", "user").data)) == {"MEMORY.md", "ours.md"}


def test_secrets_and_unread_files_are_warned_of_by_place_alone(cli: Cli) -> None:
    cli.file("token", memory_text("Token", "How the payment gateway is reached", f"The token is {TOKEN}.\n"))
    (cli.memory / "link.md").symlink_to("billing.md")
    told = cli("export", "-o", "m.tar", "--json")
    assert TOKEN not in told.out + told.err
    assert any("token.md" in at and "secret" in at for at in told.json["warnings"])
    assert any(at.startswith("link.md was left out") for at in told.json["warnings"])
    assert TOKEN.encode() in (cli.project / "m.tar").read_bytes()


def test_a_file_that_is_there_is_not_replaced_unasked_and_is_for_its_owner_alone(cli: Cli) -> None:
    write(cli.project / "m.tar", "mine\n")
    assert "--force" in cli("export", "-o", "m.tar").refusal
    assert (cli.project / "m.tar").read_text(encoding="utf-8") == "mine\n"
    assert cli("export", "-o", "m.tar", "--force").code == 0
    assert (cli.project / "m.tar").stat().st_mode & 0o777 == 0o600


def test_nothing_to_export_is_said_and_wrong_use_is_2(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert "no memories" in cli("export").refusal
    assert cli("export", "--json").code == 2


def test_no_folder_is_made_for_a_place_that_is_not_there(cli: Cli) -> None:
    place = cli.home / "misspelled"
    assert f"folder {place}" in cli("export", "-o", str(place / "m.tar")).refusal
    assert not place.exists()
