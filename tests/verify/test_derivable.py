"""What need not be remembered, asked of real repositories."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memdir.verify.derivable import find_derivable
from tables import read_rows

ROWS = read_rows("derivable")
RULES = """# Rules
Run the whole suite before each commit.

- Use **pnpm**, not npm, in this workspace.
- Commit messages are written in the imperative
  mood and in English.

Never push to `main` directly! Ask first.
运行迁移之前必须先询问负责人。
"""


def run_git(root: Path, *arguments: str) -> None:
    names = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(("git", "-C", str(root), *names, *arguments), check=True, capture_output=True, timeout=60)


@pytest.fixture(name="root", scope="module")
def make_repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    run_git(root, "init", "-q")
    (root / "src" / "store").mkdir(parents=True)
    for name in ["src/parser.py", "src/store/files.py", "src/store/lock.py", "Makefile", "docs.md"]:
        (root / name).write_text("x\n", encoding="utf-8")
    (root / "CLAUDE.md").write_text(RULES, encoding="utf-8")
    rules = root / ".claude" / "rules" / "deep"
    rules.mkdir(parents=True)
    (rules / "sql.md").write_text("SQL keywords are written in lower case.", encoding="utf-8")
    (root / ".cursorrules").write_text("Answer every question in plain French\n", encoding="utf-8")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "fix(parser): stop dropping the last line of a file")
    run_git(root, "commit", "-q", "--allow-empty", "-m", "Replace Kafka by NATS to save cost")
    (root / "untracked.py").write_text("x\n", encoding="utf-8")
    return root


@pytest.mark.parametrize(("text", "source"), ROWS["a_sentence_of_an_instruction_file_is_derivable"])
def test_a_sentence_of_an_instruction_file_is_derivable(root: Path, text: str, source: str) -> None:
    ((what, where),) = find_derivable(text, root)
    assert where == source and "instruction file" in what


@pytest.mark.parametrize("text", ROWS["short_or_different_sentences_are_not"])
def test_short_or_different_sentences_are_not(root: Path, text: str) -> None:
    assert find_derivable(text, root) == ()


@pytest.mark.parametrize(("text", "source"), ROWS["where_a_tracked_file_lies_is_derivable"])
def test_where_a_tracked_file_lies_is_derivable(root: Path, text: str, source: str) -> None:
    assert find_derivable(text, root) == (("it only gives the path of a tracked file", source),)


@pytest.mark.parametrize("text", ROWS["a_path_beside_a_fact_is_not"])
def test_a_path_beside_a_fact_is_not(root: Path, text: str) -> None:
    assert find_derivable(text, root) == ()


@pytest.mark.parametrize("text", ROWS["a_commit_subject_is_derivable"])
def test_a_commit_subject_is_derivable(root: Path, text: str) -> None:
    ((what, where),) = find_derivable(text, root)
    assert where.startswith("commit ") and "commit" in what


def test_every_reason_is_named_once(root: Path) -> None:
    text = "Never push to main directly.\n\nNever push to main directly.\n\nReplace Kafka by NATS to save cost."
    assert [source.split()[0] for _, source in find_derivable(text, root)] == ["CLAUDE.md", "commit"]


def test_without_git_the_instruction_files_still_count(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(RULES, encoding="utf-8")
    assert find_derivable(RULES, tmp_path)[0][1] == "AGENTS.md"
    assert find_derivable("The parser is in src/parser.py", tmp_path) == ()


def test_without_time_git_is_not_waited_for(root: Path) -> None:
    assert find_derivable("Replace Kafka by NATS to save cost", root, timeout=0.0) == ()
    assert len(find_derivable("Never push to main directly", root, timeout=0.0)) == 1


def test_an_empty_repository_and_a_missing_root_say_nothing(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q")
    text = "Replace Kafka by NATS to save cost. src/parser.py"
    assert find_derivable(text, tmp_path) == ()
    assert find_derivable(text, tmp_path / "missing") == ()
    assert find_derivable(text, Path("nul\0root")) == ()


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root / ".claude", outside):
        folder.mkdir(parents=True)
    (outside / "secret.md").write_text(RULES, encoding="utf-8")
    (root / "CLAUDE.md").symlink_to(outside / "secret.md")
    (root / ".claude" / "rules").symlink_to(outside)
    (root / "GEMINI.md").symlink_to("GEMINI.md")
    assert find_derivable(RULES, root) == ()


def test_a_link_inside_the_root_is_followed(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text(RULES, encoding="utf-8")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert {source for _, source in find_derivable("Never push to main directly", tmp_path)} == {"CLAUDE.md"}


def test_special_and_broken_files_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "CLAUDE.md")
    (tmp_path / "AGENTS.md").mkdir()
    (tmp_path / "GEMINI.md").write_bytes(b"\xff\xfe\0 Never push to main directly. \xff")
    assert find_derivable("Some rule about the thing here", tmp_path) == ()


def test_only_the_head_of_a_huge_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text("x\n\n" * 100_000 + RULES, encoding="utf-8")
    (tmp_path / "AGENTS.md").write_text(RULES + "x\n\n" * 100_000, encoding="utf-8")
    assert {source for _, source in find_derivable("Never push to main directly", tmp_path)} == {"AGENTS.md"}


def test_no_program_of_the_repository_is_run(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    run_git(root, "init", "-q")
    (root / "parser.py").write_text("x", encoding="utf-8")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "Replace Kafka by NATS to save cost")
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
    trap.chmod(0o755)
    for key in ["core.fsmonitor", "core.pager", "gpg.program", "core.sshCommand"]:
        run_git(root, "config", key, str(trap))
    run_git(root, "config", "log.showSignature", "true")
    assert find_derivable("Parser: parser.py", root)
    assert find_derivable("Replace Kafka by NATS to save cost", root)
    assert not (tmp_path / "sprung").exists()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=120))
def test_any_text_is_looked_up_without_raising(root: Path, text: str) -> None:
    find_derivable(text, root)


@pytest.mark.parametrize("piece", ["a", "a ", "`", "a/", ". ", "在", "a\n"])
def test_long_text_is_looked_up_in_time(tmp_path: Path, piece: str) -> None:
    assert find_derivable(piece * 200_000, tmp_path) == ()
