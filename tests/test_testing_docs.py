"""The examples of docs/testing.md run, each as a program of its own."""

import re
import subprocess
import sys
from pathlib import Path

from loads import ROOT

PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)


def run(example: str, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(folder), "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-c", example], env=env, capture_output=True, encoding="utf-8", check=False)


def test_the_examples_run(tmp_path: Path) -> None:
    for example in EXAMPLES:
        done = run(example, tmp_path)
        assert (done.returncode, done.stdout + done.stderr) == (0, ""), example


def test_an_example_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    assert len(EXAMPLES) >= 2
    assert run(EXAMPLES[1].replace('== "Noted."', '== "Lost."'), tmp_path).returncode == 1


def test_the_module_loads_no_web_server() -> None:
    code = (
        "import memdir.testing as t, sys; t.sample_memory(); print('http.server' in sys.modules, 'ssl' in sys.modules)"
    )
    assert run(code, ROOT).stdout == "False False\n"
