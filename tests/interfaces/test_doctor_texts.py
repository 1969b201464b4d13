"""What doctor says of what memories say: stale claims, secrets, memories never recalled, history."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from homes import git, make_repository, write
from loads import ROOT
from memdir.interfaces.doctor import DoctorFinding, examine, repair
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.store.secrets import OwnSecretRules, find_secrets
from memdir.testing import sample_memory
from memdir.verify.check import verify

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
TOKEN = "ghp_" + "aZ3kQ9vX2mR7tY5wB1nC8dF4gH6jL0pS2uEi"


def put(memory: Path, name: str, body: str, kind: str = "reference", title: str = "") -> Path:
    head = f"---\nname: {title or name}\ndescription: what {name} is about, in short\ntype: {kind}\n---\n\n"
    path = write(memory / f"{name}.md", f"{head}{body}\n")
    lines = [f"- [{at.stem}]({at.name}) — about {at.stem}\n" for at in sorted(memory.glob("*.md")) if at.stem.islower()]
    write(memory / "MEMORY.md", "".join(lines))
    return path


def find(store: FileStore, kind: str, own: OwnSecretRules | None = None) -> list[DoctorFinding]:
    if own is not None:
        finder = partial(find_secrets, allow=own.allow, extra=own.rules)
        store = FileStore(store.root, find_secrets=finder, clock=store.clock)
    return [finding for finding in examine(store) if finding.kind == kind]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository in which one file was moved and one function removed."""
    root = make_repository(tmp_path / "app")
    write(root / "src" / "login.py", "def handle_auth():\n    return True\n\n\ndef render_login():\n    return 1\n" * 3)
    write(root / "src" / "other.py", "def keep_alive():\n    return True\n")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "mv", "src/login.py", "src/entry.py")
    git(root, "commit", "-q", "-m", "two")
    return root


def test_a_claim_that_no_longer_holds_is_told_with_what_became_of_it(memory: Path, project: Path) -> None:
    put(memory, "gone", "The login is in `src/login.py`.")
    put(memory, "mixed", "See `src/login.py` and `src/other.py`.")
    put(memory, "sound", "Sessions are kept in `src/other.py`.")
    with FileStore(memory) as store:
        assert find(store, "stale") == [] == find(store, "partly_stale")
        verify(store, project, now=NOW)
        (stale,) = find(store, "stale")
        (partly,) = find(store, "partly_stale")
    assert stale.where == "gone.md" and "src/entry.py" in stale.message and stale.line == 7
    assert stale.level == "warning" and "memdir edit gone" in stale.fix
    assert partly.where == "mixed.md" and partly.level == "advice"


def test_a_verdict_on_an_older_text_is_not_told(memory: Path, project: Path) -> None:
    put(memory, "gone", "The login is in `src/login.py`.")
    with FileStore(memory) as store:
        verify(store, project, now=NOW)
        put(memory, "gone", "The login is in `src/entry.py`.")
        assert find(store, "stale") == []


def test_a_secret_is_told_by_rule_and_line_and_never_by_value(memory: Path) -> None:
    put(memory, "pipeline", f"The pipeline pulls with {TOKEN} from the mirror.")
    store = FileStore(memory)
    (found,) = find(store, "secret")
    assert found.where == "pipeline.md" and found.line == 7 and found.level == "warning"
    assert TOKEN not in repr(examine(store)) and "github" in found.message.lower()


HOLD = """
import sys
from functools import partial
from pathlib import Path
from memdir.store.files import FileStore
with FileStore(Path(sys.argv[1])) as store, store._holding():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_an_edit_that_history_could_not_see_is_told_and_recorded_by_fix(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(sample_memory())
        store.write(Draft(Kind.USER, "Role", "A data scientist who reads logs", "Reads logs all day."))
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(memory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        assert holder.stdin is not None and holder.stdout is not None
        with holder:
            assert holder.stdout.readline() == b"held\n"
            path = memory / "terse-replies.md"
            path.write_text(path.read_text(encoding="utf-8") + "\nBy hand.\n", encoding="utf-8")
            (memory / "role.md").unlink()
            found = find(store, "out_of_step")
            holder.stdin.close()
            assert holder.wait(timeout=60) == 0
        assert [(at.where, at.fixable) for at in found] == [("role.md", True), ("terse-replies.md", True)]
        assert repair(store, found) == 2
        assert find(store, "out_of_step") == []
        assert [change.verb for change in store.changes("terse-replies")] == ["outside", "save"]


def test_an_edit_by_hand_is_recorded_by_looking_and_nothing_wrong(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(sample_memory())
        path = memory / "terse-replies.md"
        path.write_text(path.read_text(encoding="utf-8") + "\nBy hand.\n", encoding="utf-8")
        assert examine(store) == ()
        assert [change.verb for change in store.changes("terse-replies")] == ["outside", "save"]
