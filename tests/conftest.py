"""Every test lives in a throw-away home: no test may touch the person's own memory."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from clihelp import Cli
    from postgres import Postgres

# The same examples in every run, however slow the machine: a red run is somebody's change. The full loads look further.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.register_profile("searching", deadline=None, database=None, max_examples=1000)
settings.load_profile("searching" if os.environ.get("MEMDIR_LOAD") == "full" else "steady")

SKIPPED: list[str] = []
# `scripts/test --quick` leaves these out: they need a browser, a database, a real client or load, or take long. In the
# other files it leaves out single tests that are marked as slow.
SLOW_FOLDER = "hostile"
SLOW_FILES = frozenset(
    """
test_adapters_langgraph test_adapters_sdks test_agreement test_bench test_chat_terminal test_docs test_docs_commands
test_dream_answers test_dream_planted test_examples test_extract_server test_extraction_answers
test_extraction_attacks test_frozen test_hooks_beside test_import_real test_install test_language_dates
test_local_model test_main test_mcp test_mcp_claude test_mcp_frames test_models_faults test_models_host_cli
test_packaging test_proof test_real_claude test_real_clients test_real_hooks test_recall_select
test_server_oidc test_server_operations test_server_page test_team_clones test_team_machines test_team_own
test_team_sync test_upgrade test_verify test_verify_claims test_web_hostile test_web_listen
test_web_page test_web_writes
""".split()
)


def pytest_configure(config: pytest.Config) -> None:
    """A folder that all processes of this session share; the first of them makes it and removes it."""
    if "MEMDIR_TEST_SHARED" not in os.environ:
        made = os.environ["MEMDIR_TEST_SHARED"] = tempfile.mkdtemp(prefix="memdir-session-")
        os.chmod(made, 0o755)  # PostgreSQL runs as another user
        config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Read no slow file where none of its tests would run: three processes would each import it."""
    is_slow = collection_path.stem in SLOW_FILES or collection_path.name == SLOW_FOLDER
    return True if is_slow and config.option.markexpr == "not slow" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow tests; those that use a database have it as a fixture or in the name of a parameter."""
    for item in items:
        is_slow = item.path.stem in SLOW_FILES or item.path.parent.name == SLOW_FOLDER
        has_database = "postgres" in item.name or "postgres" in getattr(item, "fixturenames", ())
        if is_slow or has_database or item.get_closest_marker("load"):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    """A real PostgreSQL with the schema, started when a test first needs it."""
    from postgres import open_postgres

    with open_postgres() as found:
        yield found


@pytest.fixture(autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of its own, and nothing inherited that would steer memdir or git."""
    home = tmp_path_factory.mktemp("home")
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("MEMDIR_", "CLAUDE", "XDG_", "GIT_")) and name not in ("MEMDIR_BENCH", "MEMDIR_LOAD"):
            del os.environ[name]
    os.environ.update(HOME=str(home), GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull)
    yield home
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """The path of a memory directory that does not exist yet."""
    return tmp_path / "project" / "memory"


@pytest.fixture
def cli(tmp_path: Path) -> "Cli":
    """The command line in a project and a home of its own."""
    from clihelp import Cli

    return Cli(tmp_path)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        SKIPPED.append(str(report.longrepr[2]).removeprefix("Skipped: "))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    absent = [reason for reason in SKIPPED if reason.startswith("bench data absent")]
    terminalreporter.write_line(f"skipped: {len(SKIPPED)}, of these for missing bench data: {len(absent)}")
