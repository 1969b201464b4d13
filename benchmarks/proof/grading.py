"""Grade episodes: the source difference is applied to a clean copy, in which the tests run."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_SECONDS = 180


def grade(state: Path) -> dict[str, Any] | None:
    """Return the grade of an episode, None if it has not ended. Writes it beside the log."""
    facts = json.loads((state / "episode.json").read_text(encoding="utf-8"))
    if not (state / "log.jsonl").exists():
        return None
    rows = [json.loads(line) for line in (state / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    if not any(row["verb"] == "done" for row in rows):
        return None
    task = Path(facts["source"])
    result = grade_difference(task, (state / "source.diff").read_text(encoding="utf-8"), facts["python"])
    (state / "grade.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def grade_difference(task: Path, difference: str, python: str) -> dict[str, Any]:
    tests = json.loads((task / "task.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="grade-") as top:
        repo = Path(top) / "repo"
        shutil.copytree(task / "repo", repo, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        applied = True
        if difference:
            done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=repo, input=difference, text=True)
            applied = done.returncode == 0
        shutil.copytree(task / "hidden", repo, dirs_exist_ok=True)
        result: dict[str, Any] = {"applied": applied}
        for kind in ("visible", "keep", "hidden"):
            if tests.get(kind):
                argv = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *tests[kind]]
                try:
                    done = subprocess.run(argv, cwd=repo, capture_output=True, text=True, timeout=_SECONDS)
                    result[kind], result[f"{kind}_output"] = done.returncode == 0, done.stdout[-1500:]
                except subprocess.TimeoutExpired:
                    result[kind], result[f"{kind}_output"] = False, "out of time"
        result["solved"] = applied and all(result.get(kind, True) for kind in ("visible", "keep", "hidden"))
    return result
