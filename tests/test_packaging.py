"""What `pipx install memdir` and `uvx memdir` get: a wheel that works with its required dependencies alone."""

import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest

from loads import ROOT, scaled

# Without this nothing could be built; tests/models/test_local_model.py skips for its reasons likewise.
pytest.importorskip("hatchling", reason="hatchling absent: the extra `dev` brings it")

SECONDS = 300.0


def run(*command: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [str(part) for part in command], env=env, cwd=cwd, capture_output=True, encoding="utf-8", timeout=SECONDS
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (path,) = folder.glob("*.whl")
    return path


def make_venv(folder: Path) -> Path:
    """A fresh environment without anything; answers its python."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def copy_package(name: str, site: Path) -> None:
    """A distribution of this environment, file by file, as an installer would lay it there."""
    for file in distribution(name).files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(Path(str(file.locate())).read_bytes())


def try_out(*program: str | Path, home: Path) -> None:
    """A person's first minute."""
    project = home / "work"
    (project / ".git").mkdir(parents=True)
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    assert run(*program, "--version", env=env, cwd=project).startswith("memdir ")
    options = ("--type", "reference", "--name", "tracker", "--description", "Bugs of the billing service are in Linear")
    run(*program, "save", *options, "--body", "Project BILL.", env=env, cwd=project)
    assert "Project BILL." in run(*program, "recall", "where are billing bugs tracked?", env=env, cwd=project)


def test_everything_the_package_needs_is_in_the_wheel_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("memdir/")}
        (found,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(found).decode("utf-8"))
        scripts = archive.read(found.replace("METADATA", "entry_points.txt")).decode("utf-8")
    source = ROOT / "src"
    files = {path.relative_to(source).as_posix() for path in (source / "memdir").rglob("*") if path.is_file()}
    assert names == {name for name in files if "__pycache__" not in name}
    assert {
        "memdir/py.typed",
        "memdir/recall/words.bin",
        "memdir/recall/gate_semantic.json",
        "memdir/models/prompts/select.md",
    } <= names
    assert "memdir = memdir.__main__:main" in scripts
    needed = [at for at in metadata.get_all("Requires-Dist", []) if "extra ==" not in at]
    assert sorted(at.split(">")[0].split("<")[0].lower() for at in needed) == [
        "click",
        "google-re2",
        "pystemmer",
        "pyyaml",
        "tomlkit",
    ]


def test_the_wheel_works_with_its_required_dependencies_alone(wheel: Path, tmp_path: Path) -> None:
    python = make_venv(tmp_path / "venv")
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in ("click", "PyStemmer", "PyYAML", "tomlkit"):
        copy_package(name, site)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    try_out(python, "-m", "memdir", home=tmp_path / "home")


def test_an_installer_fetches_what_it_needs_and_an_upgrade_keeps_the_memories(wheel: Path, tmp_path: Path) -> None:
    if scaled(10) < 10:
        pytest.skip("an installation from the package index: full load only")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python = tmp_path / "venv" / "bin" / "python"
    install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*install, wheel)
    program, home = python.parent / "memdir", tmp_path / "home"
    try_out(program, home=home)
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    assert "tracker" in run(program, "prompt", env=env, cwd=home / "work")
    run(program, "export", "-o", home / "m.tar", env=env, cwd=home / "work")
    assert "known already" in run(program, "import", home / "m.tar", env=env, cwd=home / "work")
    served = subprocess.run([program, "mcp"], env=env, capture_output=True, encoding="utf-8", timeout=SECONDS)
    assert served.returncode == 1 and "Traceback" not in served.stderr and "-m pip install 'mcp" in served.stderr
    run(*install, "--force-reinstall", "--no-deps", wheel)
    assert "tracker" in run(program, "list", env=env, cwd=home / "work")


def test_the_source_archive_can_build_the_wheel_again(wheel: Path, tmp_path: Path) -> None:
    if scaled(10) < 10:
        pytest.skip("a second build: full load only")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path, cwd=ROOT)
    (path,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "src", filter="data")
    (source,) = (tmp_path / "src").iterdir()
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", cwd=source)
    (again,) = (tmp_path / "again").glob("*.whl")
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(again) as other:
        assert one.namelist() == other.namelist()


def fetch(*command: str | Path, env: dict[str, str]) -> None:
    """An installation; skipped where no package index can be reached."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **env},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    if any(words in done.stderr for words in _UNREACHED):
        pytest.skip("package index not reached")
    assert done.returncode == 0, (command, done.stdout, done.stderr)


_UNREACHED = ("Could not find a version", "Failed to fetch", "Connection refused", "dns error", "NewConnectionError")
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("tool", ["pip", "pipx", "uv"])
def test_a_clean_environment_gets_it_by_pip_pipx_and_uv_with_a_hint_that_fits(
    wheel: Path, tmp_path: Path, tool: str
) -> None:
    program = tmp_path / "bin" / "memdir"
    if tool == "pip":
        run(sys.executable, "-m", "venv", tmp_path)
        fetch(tmp_path / "bin" / "python", "-m", "pip", "install", "--quiet", wheel, env={})
        hint = f"{tmp_path / 'bin' / 'python'} -m pip install 'mcp"
    elif tool == "pipx":
        env = {"PIPX_HOME": str(tmp_path / "home"), "PIPX_BIN_DIR": str(program.parent)}
        fetch(BIN / "pipx", "install", "--python", sys.executable, wheel, env=env)
        hint = "pipx inject memdir 'mcp"
    else:
        env = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(program.parent)}
        fetch(BIN / "uv", "tool", "install", "--python", sys.executable, wheel, env=env)
        hint = "uv pip install --python "
    try_out(program, home=tmp_path / "person")
    env = {"HOME": str(tmp_path / "person"), "PATH": os.defpath}
    served = subprocess.run([program, "mcp"], env=env, capture_output=True, encoding="utf-8", timeout=SECONDS)
    assert served.returncode == 1 and "Traceback" not in served.stderr and hint in served.stderr


@pytest.mark.parametrize("extra", ["anthropic", "langgraph", "mcp", "openai", "openai-agents", "pydantic-ai", "server", "sync"])  # fmt: skip
def test_each_extra_installs_beside_the_wheel_and_can_be_imported(wheel: Path, tmp_path: Path, extra: str) -> None:
    if scaled(10) < 10 and extra != "mcp":
        pytest.skip("an installation of every extra: full load only")
    python = make_venv(tmp_path / "venv")
    fetch(BIN / "uv", "pip", "install", "--quiet", "--python", python, f"memdir[{extra}] @ file://{wheel}", env={})
    modules = {"langgraph": "memdir.interfaces.sdk.langgraph", "openai-agents": "memdir.interfaces.sdk.openai_agents", "pydantic-ai": "memdir.interfaces.sdk.pydantic_ai", "mcp": "memdir.interfaces.mcp", "server": "memdir.postgres.store", "sync": "pyrage"}  # fmt: skip
    run(python, "-c", f"import {modules.get(extra, extra)}")
    try_out(python, "-m", "memdir", home=tmp_path / "home")
