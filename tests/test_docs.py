"""The documentation: every command and snippet of it runs, the site builds with every link checked, nothing is missing."""

import ast
import os
import re
import subprocess
import sys
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT, PyCF_ONLY_AST
from pathlib import Path

import pytest

from doc_pages import BIN, DOCS, list_blocks
from loads import ROOT
from memdir.project.hosts import HOSTS

SECONDS = 180.0  # for one command


def make_env(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"}


def play(script: str, home: Path) -> str:
    """What a shell prints for a script; it must end well and without a traceback."""
    done = subprocess.run(
        ["sh", "-eu", "-c", script],
        cwd=home,
        env=make_env(home),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS * max(script.count("memdir "), 1),
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, (done.stdout[-2000:], done.stderr)
    return done.stdout


def test_every_command_of_the_tutorial_runs_and_prints_what_the_page_says(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    blocks = list_blocks(DOCS / "tutorial.md")
    commands = "".join(text for language, text in blocks if language == "sh")
    assert commands.count("memdir ") >= 25 and {language for language, _ in blocks} == {"sh", "text"}
    printed = play(commands, home).splitlines()
    for line in "".join(text for language, text in blocks if language == "text").splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("…"))
        assert any(re.fullmatch(pattern, at) for at in printed), line


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "mkdocs.yml"])
def test_every_host_has_a_page_and_the_overviews_link_to_it(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [key for key in HOSTS if f"hosts/{key}.md" not in text or not (DOCS / "hosts" / f"{key}.md").is_file()] == []


@pytest.mark.parametrize("page", ["README.md", "docs/mem0.md", "docs/library.md"])
def test_snippets_run_twice(tmp_path: Path, page: str) -> None:
    code = "\n".join(text for language, text in list_blocks(ROOT / page) if language == "python")
    assert "memdir" in code
    script, project = tmp_path / "page.py", tmp_path / "project"
    script.write_text(code, encoding="utf-8")
    (project / ".git").mkdir(parents=True)
    for _ in range(2):
        command, env = [sys.executable, str(script)], make_env(tmp_path / "home")
        done = subprocess.run(command, cwd=project, env=env, capture_output=True, encoding="utf-8", timeout=SECONDS)
        assert (done.returncode, done.stderr) == (0, "")


def test_snippets_that_lean_on_a_program_of_yours_import_what_there_is() -> None:
    """Pages whose snippets continue somebody's own program: they compile, and every import in them works."""
    for page in ("sdk", "models", "extraction"):
        for code in (text for language, text in list_blocks(DOCS / f"{page}.md") if language == "python"):
            tree = compile(code.replace("…", "..."), page, "exec", PyCF_ALLOW_TOP_LEVEL_AWAIT | PyCF_ONLY_AST)
            lines = [ast.unparse(at) for at in ast.walk(tree) if isinstance(at, ast.Import | ast.ImportFrom)]
            assert lines, (page, code)
            exec("\n".join(lines), {})


def test_the_page_of_the_library_is_in_step() -> None:
    # In a process of its own: `frozen` gives a record its signature when it is first used.
    command = [sys.executable, str(ROOT / "scripts" / "api_reference.py")]
    wanted = subprocess.run(command, capture_output=True, encoding="utf-8", check=True, timeout=SECONDS).stdout
    assert (DOCS / "api.md").read_text(encoding="utf-8") == wanted, "run: python scripts/api_reference.py > docs/api.md"
    assert " at 0x" not in wanted


def test_the_site_builds_without_warnings_and_fetches_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="mkdocs-material absent: the extra `dev` brings it")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path / "site")]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    env.pop("PYTHONWARNDEFAULTENCODING", None)
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, encoding="utf-8", timeout=SECONDS)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    remote = r"<(?:link|script|img)[^>]*(?:href|src)=\"?https?://"
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 30
    assert [at.name for at in pages if re.search(remote, at.read_text(encoding="utf-8"))] == []


def test_every_page_is_one_or_two_clicks_from_the_readme() -> None:
    index, readme = (path.read_text(encoding="utf-8") for path in (DOCS / "index.md", ROOT / "README.md"))
    assert "docs/index.md" in readme
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    linked = index + (DOCS / "howto.md").read_text(encoding="utf-8")
    missing = [page for page in pages if f"({page})" not in linked and not page.startswith(("decisions/0", "index"))]
    assert missing == []


def test_pages_for_users_cite_nothing_that_they_do_not_have() -> None:
    pages = [
        ROOT / "README.md",
        *(at for at in DOCS.rglob("*.md") if at.name != "log.md" and at.parent.name != "decisions"),
    ]
    assert [page.name for page in pages if "../shared" in page.read_text(encoding="utf-8")] == []
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
