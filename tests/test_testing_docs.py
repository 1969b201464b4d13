"""The examples of docs/testing.md run, each as a program of its own."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from loads import ROOT
from memdir import testing
from memdir.testing import FAULTS

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number: int, tmp_path: Path) -> None:
    for name in ("anthropic", "openai"):
        if f"import {name}\n" in EXAMPLES[number] and find_spec(name) is None:
            pytest.skip(f"the extra `{name}` is not installed")
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[number], encoding="utf-8")
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_an_example_that_is_wrong_would_be_seen(tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 5
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[1].replace('== "Noted."', '== "Lost."'), encoding="utf-8")
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    assert subprocess.run([sys.executable, str(script)], env=env, capture_output=True, check=False).returncode == 1


def test_every_fault_and_every_public_name_is_on_the_page() -> None:
    for name in (*FAULTS, *testing.__all__):
        if name not in ("Answer", "FaultKind", "Part", "Script"):  # types, for those who write them down
            assert f"`{name}" in PAGE or f"import {name}" in PAGE or f", {name}" in PAGE, name


def test_the_names_load_on_first_use_and_nothing_else_does() -> None:
    assert set(testing.__all__) == set(testing._HOMES) <= set(dir(testing))
    code = (
        "import sys, memdir.testing as t; t.sample_memory(); print('http.server' in sys.modules, 'ssl' in sys.modules)"
    )
    env = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "False False\n"
    with pytest.raises(AttributeError):
        _ = testing.nothing_like_this
