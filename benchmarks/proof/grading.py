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
    if (task / "check.py").exists():
        result = check(task, Path(facts["folder"]) / "repo", rows, facts["python"])
    else:
        result = grade_difference(task, (state / "source.diff").read_bytes(), facts["python"])
    (state / "grade.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    return result


def check(task: Path, repo: Path, rows: list[dict[str, Any]], python: str) -> dict[str, Any]:
    """Grade by the task's own `check.py REPO LOG`, which prints `rule_kept` and `task_done`. Asks the repository as the
    agent left it; LOG has the commands and the texts written."""
    log = []
    for row in rows:
        if row["verb"] == "run" and not any(hook.get("decision") for hook in row["hooks"]):
            log.append({"kind": "run", "text": " ".join(row["arguments"])})
        elif row["verb"] in ("write", "edit") and row["code"] == 0:
            text = row["input"].rpartition("\n=======\n")[2].partition("\n>>>>>>> NEW")[0]
            log.append(
                {"kind": "write", "path": row["arguments"][0], "text": text if row["verb"] == "edit" else row["input"]}
            )
    with tempfile.TemporaryDirectory(prefix="grade-") as top:
        path = Path(top) / "log.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
        argv = [python, str(task / "check.py"), str(repo), str(path)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=True)
    found = {key: f'"{key}": true' in done.stdout.lower() for key in ("rule_kept", "task_done")}
    return {**found, "output": done.stdout[-1500:], "solved": all(found.values())}


def grade_difference(task: Path, difference: bytes, python: str) -> dict[str, Any]:
    tests = json.loads((task / "task.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="grade-") as top:
        repo = Path(top) / "repo"
        shutil.copytree(task / "repo", repo, ignore=shutil.ignore_patterns(".git", "__pycache__"))
        applied = True
        if difference:
            done = subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], cwd=repo, input=difference)
            applied = done.returncode == 0
        shutil.copytree(task / "hidden", repo, dirs_exist_ok=True)
        result: dict[str, Any] = {"applied": applied}
        for kind in ("visible", "keep", "hidden"):
            if tests.get(kind):
                argv = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *tests[kind]]
                try:
                    ran = subprocess.run(argv, cwd=repo, capture_output=True, text=True, timeout=_SECONDS)
                    result[kind], result[f"{kind}_output"] = ran.returncode == 0, ran.stdout[-1500:]
                except subprocess.TimeoutExpired:
                    result[kind], result[f"{kind}_output"] = False, "out of time"
        result["solved"] = applied and all(result.get(kind, True) for kind in ("visible", "keep", "hidden"))
    return result
