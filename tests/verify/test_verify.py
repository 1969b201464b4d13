"""Verification against real repositories: verdicts, what is kept of them, and that the project is left alone."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from homes import git, make_repository, write
from loads import ROOT, bench
from memdir.errors import NotFoundError
from memdir.records import Draft, Kind, Origin
from memdir.store.files import FileStore
from memdir.verify.check import refresh, stamp, verify
from memdir.verify.claims import find_claims
from memdir.verify.lookup import LookupContext, check_claims
from memdir.verify.project import open_project
from memdir.verify.records import (
    ClaimStatus,
    VerifyState,
    find_verdicts,
    read_verdicts,
    render_caveat,
    render_signature,
)
from tables import read_rows
from verify_data import import_commits, make_project
from verify_memories import write_memories
from verify_score import Score, score_claims, score_verdicts

ROWS = read_rows("verify")

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
# However slow the machine is, history is read to its end.
look = partial(verify, seconds=300)

AUTH = "def handleAuth(request):\n    token = request.token\n    return token\n"
LATER = "def authenticate(request):\n    token = request.token\n    return token\n"
CLASS = "class Session:\n    def open(self):\n        return 1\n\n    def close_all(self):\n        return 2\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two commits: a function renamed, a file moved, another removed, a script dropped."""
    root = tmp_path / "project"
    before = {
        "src/auth.py": AUTH,
        "src/use.py": "from src.auth import handleAuth\n\nhandleAuth(None)\n",
        "src/old_place.py": "PLACE_LIMIT = 3\n\n\ndef moved_function(x):\n    return x\n",
        "src/dropped.py": "def dropped_function(x):\n    return x\n",
        "src/session.py": CLASS,
        "package.json": '{\n  "scripts": {\n    "build": "x",\n    "seed": "y"\n  }\n}\n',
        ".gitignore": "local/\n",
        "local/notes.txt": "once tracked\n",
    }
    after = {
        **before,
        "src/auth.py": LATER,
        "src/use.py": "from src.auth import authenticate\n\nauthenticate(None)\n",
        "src/new/place.py": before["src/old_place.py"],
        "src/session.py": CLASS.replace("    def close_all(self):\n        return 2\n", ""),
        "package.json": '{\n  "scripts": {\n    "build": "x"\n  }\n}\n',
        "CHANGELOG.md": "`dropped_function` and `handleAuth` went.\n",
    }
    del after["src/old_place.py"], after["src/dropped.py"], after["local/notes.txt"]
    import_commits(root, [("first", before), ("second", after)])
    return root


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FileStore]:
    with FileStore(tmp_path / "memory", clock=lambda: NOW) as opened:
        yield opened


def remember(store: FileStore, name: str, body: str, kind: Kind = Kind.PROJECT) -> str:
    body = f"{body}\n\n**Why:** because.\n\n**How to apply:** always."
    draft = Draft(kind, name, f"What the team decided about the {name} of the billing service", body, name)
    return store.write(draft).header.name


def judge(project: Path, text: str) -> list[tuple[str, str, str]]:
    """Each claim of a text with its status, and where it went or what came."""
    checked = check_claims(find_claims(text), open_project(project), LookupContext(NOW.date()), seconds=300)
    return [(at.claim.text, at.status.value, at.to or at.came) for at in checked]


@pytest.mark.parametrize(("text", "wanted"), ROWS["each_claim_gets_its_verdict"])
def test_each_claim_gets_its_verdict(project: Path, text: str, wanted: list[str]) -> None:
    assert judge(project, text) == [tuple(wanted)]


def test_the_caveat_says_what_is_gone_and_what_came(project: Path, store: FileStore) -> None:
    name = remember(store, "login", "`handleAuth()` in `src/auth.py` must stay; see `src/old_place.py`.")
    (verdict,) = look(store, project, now=NOW).verdicts
    assert verdict.state is VerifyState.PARTLY
    assert render_caveat(verdict) == (
        "`handleAuth` is gone; `authenticate` came with the commit that removed it. "
        "`src/old_place.py` is now `src/new/place.py`."
    )
    assert find_verdicts(store, {name: store.read(name).digest}).get(name) == verdict


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("`authenticate()` is slow.", VerifyState.VERIFIED),
        ("`handleAuth()` is slow, `authenticate()` is not.", VerifyState.PARTLY),
        ("`handleAuth()` is slow.", VerifyState.STALE),
        ("Freeze until 2026-03-05.", VerifyState.STALE),
        ("Freeze until 2026-03-10.", VerifyState.VERIFIED),
        ("Be brief.", VerifyState.UNCHECKED),
        ("`never_heard_of_it` is slow.", VerifyState.UNCHECKED),
    ],
)
def test_a_memory_is_as_good_as_its_claims(project: Path, store: FileStore, body: str, state: VerifyState) -> None:
    remember(store, "x", body)
    assert [at.state for at in look(store, project, now=NOW).verdicts] == [state]


def test_a_known_past_is_told_rightly(tmp_path: Path) -> None:
    """A hundred memories from one set of sentences, a hundred from another; the truth is the script's."""
    root = tmp_path / "project"
    things = make_project(root)
    for held_out in (False, True):
        score = Score()
        memories = write_memories(things, 100, held_out=held_out)
        claims = [find_claims(memory.text) for memory in memories]
        flat = [claim for found in claims for claim in found]
        answers = iter(check_claims(flat, open_project(root), LookupContext(NOW.date()), seconds=300))
        for memory, found in zip(memories, claims, strict=True):
            checked = [next(answers) for _ in found]
            score_claims(score, memory, checked)
            score_verdicts(score, memory, checked)
        assert score.precision >= 0.95 and score.recall >= 0.95, score.wrong
        assert score.accuracy >= 0.95 and score.rename_share >= 0.8, score.wrong
        assert score.false_alarms == 0, score.wrong


def test_nothing_is_looked_up_twice_while_nothing_changes(project: Path, store: FileStore) -> None:
    remember(store, "a", "`authenticate()` is slow.")
    assert look(store, project, now=NOW).fresh == 1
    again = look(store, project, now=NOW + timedelta(days=3))
    assert again.fresh == 0 and again.verdicts[0].checked == NOW
    write(project / "src" / "more.py", "x = 1\n")
    assert look(store, project, now=NOW).fresh == 1
    remember(store, "b", "`authenticate()` is fine.")
    assert look(store, project, now=NOW).fresh == 1


def test_a_file_is_read_again_when_it_is_another_and_verified_again_when_it_says_something_else(
    project: Path, store: FileStore
) -> None:
    path = store.root / "auth.md"
    write(path, "---\nname: auth\n---\n\nSee `src/auth.py`.\n")
    assert look(store, project, now=NOW).fresh == 1
    os.utime(path, ns=(1, 1))
    assert look(store, project, now=NOW).fresh == 0
    assert read_verdicts(store)["auth"].signature == render_signature(store.scan()[0].signature)
    path.write_text("---\nname: auth\n---\n\nSee `src/dropped.py`.\n", encoding="utf-8")
    assert look(store, project, now=NOW).has_stale


def test_a_deadline_is_looked_at_again_the_next_day(project: Path, store: FileStore) -> None:
    remember(store, "freeze", "Freeze until 2026-03-10.")
    assert look(store, project, now=NOW).verdicts[0].state is VerifyState.VERIFIED
    later = look(store, project, now=NOW + timedelta(days=2))
    assert later.fresh == 1 and later.verdicts[0].state is VerifyState.STALE
    assert render_caveat(later.verdicts[0]) == "The date 2026-03-10 has passed."


def test_a_name_alone_means_the_file_that_is_there(tmp_path: Path) -> None:
    one, two = "".join(f"x{at} = {at}\n" for at in range(9)), "print('another file')\n"
    import_commits(
        tmp_path / "project",
        [
            ("first", {"utils.py": one, "src/utils.py": two, "alone.py": one + "y = 1\n"}),
            ("second", {"helpers.py": one, "src/utils.py": two, "src/alone.py": one + "y = 1\n"}),
        ],
    )
    assert judge(tmp_path / "project", "`utils.py`") == [("utils.py", "present", "")]
    assert judge(tmp_path / "project", "`alone.py`") == [("alone.py", "moved", "src/alone.py")]


def test_what_ran_out_of_time_is_looked_up_again_where_there_is_more(project: Path, store: FileStore) -> None:
    remember(store, "a", "`neverThere()` is slow.")
    assert verify(store, project, now=NOW, seconds=0).fresh == 1
    assert verify(store, project, now=NOW, seconds=0).fresh == 0
    assert look(store, project, now=NOW).fresh == 1
    assert look(store, project, now=NOW).fresh == verify(store, project, now=NOW, seconds=0).fresh == 0


def test_where_git_cannot_list_what_is_known_stays(project: Path, store: FileStore) -> None:
    remember(store, "a", "`handleAuth()` is slow.")
    remember(store, "b", "`src/auth.py` is slow.")
    look(store, project, now=NOW)
    (project / ".git" / "HEAD").unlink()
    report = look(store, project, now=NOW)
    assert report.problem and refresh(store, project, now=NOW) == 0
    assert stamp(store, report, now=NOW, origin=Origin()).change is None
    assert read_verdicts(store)["a"].state is VerifyState.STALE


def test_a_link_to_a_forgotten_memory_is_gone_and_one_to_no_memory_is_not(project: Path, store: FileStore) -> None:
    remember(store, "other", "Text.")
    remember(store, "a", "See [[other]] and [[not-written-yet]].")
    assert look(store, project, ["a"], now=NOW).verdicts[0].state is VerifyState.VERIFIED
    store.delete("other")
    verdict = look(store, project, ["a"], now=NOW).verdicts[0]
    assert [at.status for at in verdict.claims] == [ClaimStatus.GONE, ClaimStatus.UNKNOWN]


def test_a_verdict_holds_for_its_text_only(project: Path, store: FileStore) -> None:
    name = remember(store, "a", "`authenticate()` is slow.")
    look(store, project, now=NOW)
    assert find_verdicts(store, {name: "another digest"}).get(name) is None
    assert find_verdicts(store, {"nobody": store.read(name).digest}).get("nobody") is None


def test_kept_verdicts_need_neither_git_nor_the_project(project: Path, store: FileStore) -> None:
    name = remember(store, "a", "`handleAuth()` is slow.")
    look(store, project, now=NOW)
    code = (
        "import sys\nfrom pathlib import Path\nfrom memdir.store.files import FileStore\n"
        "from memdir.verify.records import find_verdicts, render_caveat\n"
        "with FileStore(Path(sys.argv[1])) as store:\n"
        "    print(render_caveat(find_verdicts(store, {sys.argv[2]: sys.argv[3]})[sys.argv[2]]))\n"
        "print('subprocess' in sys.modules, 'memdir.verify.claims' in sys.modules)\n"
    )
    env = {"PYTHONPATH": str(ROOT / "src"), "PATH": "", "HOME": str(store.root)}
    command = [sys.executable, "-c", code, str(store.root), name, store.read(name).digest]
    told = subprocess.run(command, env=env, cwd=store.root, capture_output=True, check=True, encoding="utf-8").stdout
    assert told.splitlines() == [
        "`handleAuth` is gone; `authenticate` came with the commit that removed it.",
        "False False",
    ]


def test_a_broken_index_knows_nothing_and_is_made_anew(project: Path, store: FileStore) -> None:
    name = remember(store, "a", "`authenticate()` is slow.")
    look(store, project, now=NOW)
    index = store.find_index_file()
    assert index is not None
    for path in index.parent.glob("index.db*"):
        path.unlink()
    index.write_bytes(b"no database")
    assert find_verdicts(store, {name: store.read(name).digest}).get(name) is None
    assert refresh(store, project, now=NOW, seconds=60) == 1


def test_a_name_that_is_no_memory_is_refused(project: Path, store: FileStore) -> None:
    with pytest.raises(NotFoundError):
        look(store, project, ["nobody"], now=NOW)


@pytest.mark.parametrize("nested", [False, True])
def test_a_stamp_is_one_line_in_the_files_own_dialect(project: Path, store: FileStore, nested: bool) -> None:
    kind = "metadata:\n  node_type: memory\n  type: project\n" if nested else "type: project\nodd: kept # so\n"
    text = (
        f"---\nname: A\ndescription: What the auth of the billing service does\n{kind}---\r\n\nUse `authenticate()`.\n"
    )
    (store.root).mkdir(parents=True)
    (store.root / "a.md").write_bytes(text.encode())
    remember(store, "b", "`handleAuth()` is slow.")
    report = look(store, project, now=NOW)
    done = stamp(store, report, now=NOW, origin=Origin())
    assert done.names == ("a",) and done.change is not None
    moment = NOW.astimezone().isoformat(timespec="seconds")
    after = (store.root / "a.md").read_bytes().decode()
    lines = [line for line in after.split("\n") if "verified" not in line]
    assert lines == text.split("\n") and (f'verified: "{moment}"' in after or f"verified: {moment}" in after)
    assert after.count("\n  verified:") == int(nested)
    store.undo(done.change)
    assert (store.root / "a.md").read_bytes().decode() == text


def test_what_cannot_be_stamped_is_told_and_left_as_it_is(project: Path, store: FileStore) -> None:
    store.root.mkdir(parents=True)
    (store.root / "odd.md").write_bytes(b"Use `authenticate()`.\n")
    done = stamp(store, look(store, project, now=NOW), now=NOW, origin=Origin())
    assert done.change is None and done.refused == (("odd", "no frontmatter"),)


def list_bytes(root: Path) -> dict[str, tuple[bytes, int]]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_nothing_of_the_project_is_written_or_run(project: Path, store: FileStore, tmp_path: Path) -> None:
    trap = write(tmp_path / "trap", f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    write(project / ".gitattributes", "*.py filter=trap diff=trap\n")
    for key in ("filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.trap.textconv"):
        git(project, "config", key, str(trap))
    for key in ("diff.trap.command", "diff.external", "core.fsmonitor", "core.pager", "core.sshCommand"):
        git(project, "config", key, str(trap))
    for hook in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        write(project / ".git" / "hooks" / hook, trap.read_text(encoding="utf-8")).chmod(0o755)
    os.utime(project / "src" / "use.py")
    (tmp_path / "sprung").unlink(missing_ok=True)
    before = list_bytes(project)
    remember(store, "a", "`handleAuth()`, `src/old_place.py`, `src/dropped.py`, `npm run seed`, `--flag`.")
    verdict = look(store, project, now=NOW).verdicts[0]
    assert len(verdict.stale) == 4
    assert list_bytes(project) == before and not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    "body",
    [
        "`--upload-pack=touch x/y.py` and `-O/tmp/x.py` and `./--output=x.py`",
        "`:(top)x.py` `:!x.py` `src/*.py` `a//b.py` `/etc/passwd` `../../x.py` `%2e%2e/x.py`",
        "`" + "a/" * 3_000 + "b.py` `" + "x" * 5_000 + "()`",
        "`git checkout --upload-pack=x` `git switch -x` `npm run --x` `make -f x` `make \\$(id)`",
        "`a\x00b.py` `\ufffd/x.py` `naïve/ünï.py` `日本/語.py`",
        "`(?:a+)+b.py` `[[[[a.py` `handle(((((` `{{{{`",
    ],
)
def test_hostile_names_are_only_names(project: Path, store: FileStore, body: str) -> None:
    store.root.mkdir(parents=True)
    (store.root / "a.md").write_text(f"---\nname: a\ntype: project\n---\n\n{body}\n", encoding="utf-8")
    before = sorted(os.listdir(project))
    report = look(store, project, now=NOW)
    assert not report.has_stale and sorted(os.listdir(project)) == before


def test_odd_file_names_in_the_project_are_listed(project: Path) -> None:
    odd = ["new\nline.py", "tab\there.py", "-dash.py", "ünï.py", '"quoted".py', "100644 x 0\ty.py"]
    for name in odd:
        write(project / name, "x = 1\n")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "odd")
    for name in odd[:3]:
        (project / name).unlink()
    git(project, "commit", "-q", "-a", "-m", "even")
    assert set(odd[3:]) <= set(open_project(project).entries)
    assert judge(project, "`tab\there.py` and `ünï.py`")[-1] == ("ünï.py", "present", "")


def test_links_out_of_the_project_are_not_followed(project: Path, tmp_path: Path) -> None:
    write(tmp_path / "secret.py", "def onlyOutside():\n    return 1\n")
    (project / "link.py").symlink_to(tmp_path / "secret.py")
    (project / "away").symlink_to(tmp_path)
    git(project, "add", "-A")
    told = judge(project, "`onlyOutside()` in `away/secret.py`, not `away`")
    assert [status for _, status, _ in told[:2]] == ["not checkable", "not checkable"]


def test_outside_git_things_are_found_and_nothing_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "plain" / "src" / "a.py", "def here_it_is():\n    pass\n")
    told = judge(tmp_path / "plain", "`src/a.py`, `here_it_is()`, `src/b.py`, `not_here()`")
    assert [status for _, status, _ in told] == ["present", "present", "not checkable", "not checkable"]


@pytest.mark.parametrize("shape", ["empty", "no commit", "broken"])
def test_a_repository_without_history_is_no_reason_to_fail(tmp_path: Path, shape: str) -> None:
    root = tmp_path / "repo"
    root.mkdir()
    if shape != "empty":
        git(root, "init", "-q")
        write(root / "a.py", "x = 1\n")
    if shape == "broken":
        (root / ".git" / "HEAD").write_bytes(b"\xff\x00")
    told = judge(root, "`a.py` and `b.py` and `gone()`")
    assert "gone" not in [status for _, status, _ in told]


def test_user_memory_is_not_held_against_any_project(project: Path, store: FileStore) -> None:
    remember(store, "a", "`handleAuth()` until 2026-03-01.")
    verdict = look(store, None, now=NOW).verdicts[0]
    assert [at.status for at in verdict.claims] == [ClaimStatus.UNKNOWN, ClaimStatus.PASSED]


def test_real_memories_are_read_without_a_crash(tmp_path: Path, project: Path) -> None:
    memory = bench("realworld_memory", "memory")
    with FileStore(memory, state=tmp_path / "state") as store:
        report = look(store, project, now=NOW)
    assert len(report.verdicts) == len(list(memory.glob("*.md"))) - 1
    assert sum(len(at.claims) for at in report.verdicts) > 250 and not report.has_stale


def test_a_config_that_includes_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "app")
    os.mkfifo(tmp_path / "app" / "fifo")
    with (root / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write("[include]\n\tpath = ../fifo\n")
    listing = open_project(root, seconds=1)
    assert listing.problem and not listing.is_git
