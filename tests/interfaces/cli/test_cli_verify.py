"""`memdir verify`: what it says, and with which exit code."""

import shutil
from pathlib import Path

import pytest

from clihelp import Cli
from verify_data import import_commits


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project in which a function was renamed, with a memory of before and one of after."""
    cli = Cli(tmp_path)
    shutil.rmtree(cli.project)
    before = "def handleAuth(request):\n    return request.token\n"
    after = before.replace("handleAuth", "authenticate")
    import_commits(cli.project, [("1", {"src/auth.py": before}), ("2", {"src/auth.py": after})])
    cli.save("old", "Use `handleAuth()` of `src/auth.py`.")
    cli.save("new", "Use `authenticate()`.")
    cli.save("plain", "Be brief.")
    return cli


def test_a_pipe_gets_a_line_for_each_stale_claim_and_exit_1(cli: Cli) -> None:
    told = cli("verify")
    assert told.code == 1 and told.err == ""
    said = "`handleAuth` is gone; `authenticate` came with the commit that removed it"
    assert sorted(told.out.splitlines()) == [
        "private\tnew\tverified\t\t\t\t\t",
        f"private\told\tpartly\t7\tsymbol\thandleAuth\tgone\t{said}",
        "private\tplain\tunchecked\t\t\t\t\t",
    ]


def test_a_person_gets_a_report(cli: Cli) -> None:
    lines = cli("--color", "always", "verify", "old", "new").out
    for wanted in ("partly", "1 of 2 hold", "line 7: `handleAuth` is gone", "2 memories: 1 verified, 1 partly"):
        assert wanted in lines


def test_a_stamp_is_written_and_can_be_taken_back(cli: Cli) -> None:
    before = (cli.memory / "new.md").read_text(encoding="utf-8")
    answer = cli("verify", "--stamp", "--json").json
    assert answer["stamped"] == ["new"] and len(answer["changes"]) == 1
    assert "verified: " in (cli.memory / "new.md").read_text(encoding="utf-8")
    assert "verified: " not in (cli.memory / "old.md").read_text(encoding="utf-8")
    assert cli("undo", str(answer["changes"][0])).code == 0
    assert (cli.memory / "new.md").read_text(encoding="utf-8") == before
