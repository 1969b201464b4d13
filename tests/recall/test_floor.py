"""The floor on a directory a person might have: what fits is said, what does not gets nothing."""

from pathlib import Path

import pytest

from memdir.recall.pipeline import recall
from memdir.store.files import FileStore
from search_stores import ask, write_memory
from tables import read_rows

ROWS = read_rows("floor")
MEMORIES = {
    "terse-replies": ("No summary paragraph at the end of a reply", "Leave out the closing summary."),
    "merge-freeze": ("Release branch is frozen from 2026-03-05 for the mobile release", "No merges to it."),
    "role": ("Data scientist who looks after the observability of the pipeline", "Knows pandas well, new to Go."),
    "tracker": ("Pipeline bugs are tracked in Linear under INGEST", "Look there first."),
    "real-database": ("Integration tests use a real PostgreSQL, never mocks", "A migration failed once."),
    "auth-rewrite": ("Login middleware is rewritten for compliance, not for tech debt", "Legal flagged tokens."),
    "latency-board": ("Latency of the API is on the Grafana board api-latency", "Check it after changes."),
    "package-manager": ("Use pnpm, not npm, for all JavaScript packages", "CI caches pnpm."),
    "commit-style": ("Commit messages say why, in the imperative, without emoji", "Reviewers read them."),
    "deploys": ("Deploys to production happen on Tuesdays by the platform team", "Ask in the deploy channel."),
}


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    folder = tmp_path / "project" / "memory"
    folder.mkdir(parents=True)
    for name, (description, body) in MEMORIES.items():
        write_memory(folder, name, description, body, title=name.replace("-", " "))
    return folder


@pytest.mark.parametrize(("question", "name"), ROWS["what_fits_comes_first"])
def test_what_fits_comes_first(memory: Path, question: str, name: str) -> None:
    assert ask(memory, question)[0] == name


@pytest.mark.parametrize("question", ROWS["what_does_not_fit_gets_nothing"])
def test_what_does_not_fit_gets_nothing(memory: Path, question: str) -> None:
    with FileStore(memory) as store:
        assert list(recall(store, question)) == []
