"""Play a life of 30 sessions and 60 memories through the hooks, and write what was shown and told as Markdown.

    python benchmarks/life.py [--memdir PROGRAM] [FOLDER …] > docs/life.md

FOLDER has memories.jsonl and prompts.jsonl with calls, as `tests/data/moments` and the public `action_prompts`; by default the two
whose authors no gate has seen. Two memories are saved before each session, as Claude Code writes them, with the cues and `when` of their
authors. Each session has four prompts, of which those that need a memory come after it was saved, and the calls of each prompt. Right
means needed or acceptable by the marks. A notice is what a hook tells the person.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BENCH = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
FOLDERS = [ROOT / "tests" / "data" / "moments" / "logistics", BENCH / "action_prompts"]
SESSIONS, MEMORIES, PROMPTS = 30, 60, 4
START = datetime(2026, 3, 2, 9, tzinfo=UTC)
VERBS = {"SessionStart": "session-start", "UserPromptSubmit": "user-prompt", "PreToolUse": "before-tool", "PostToolUse": "after-tool", "Stop": "stop", "SessionEnd": "session-end"}  # fmt: skip


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def plan_life(folders: list[Path]) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return the new memories and the prompts of each session."""
    pick = random.Random(29)
    memories = [row for folder in folders for row in read_rows(folder, "memories")][:MEMORIES]
    pick.shuffle(memories)
    saved = {row["id"]: number // (MEMORIES // SESSIONS) for number, row in enumerate(memories)}
    prompts = [row for folder in folders for row in read_rows(folder, "prompts") if set(row["gold"]) <= saved.keys()]
    pick.shuffle(prompts)
    days: list[list[dict[str, Any]]] = [[] for _ in range(SESSIONS)]
    for row in sorted(prompts, key=lambda row: not row["gold"]):  # those that need a memory choose first
        free = [
            number
            for number in range(max(map(saved.__getitem__, row["gold"]), default=0), SESSIONS)
            if len(days[number]) < PROMPTS
        ]
        if free:
            days[pick.choice(free)].append(row)
    size = MEMORIES // SESSIONS
    return [(memories[number * size : (number + 1) * size], days[number]) for number in range(SESSIONS)]


def render_memory(row: dict[str, Any]) -> str:
    triggers = row.get("triggers") or {}
    when = {key: triggers[key] for key in ("paths", "commands", "content") if triggers.get(key)}
    when |= {"always": True} if triggers.get("when") == "always" else {}
    head = {
        "name": row["name"],
        "description": row["description"],
        "type": row["type"],
        "cues": row["cues"],
        "when": when,
    }
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in head.items() if value)
    return f"---\n{lines}---\n\n{row['text']}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    parser.add_argument("--memdir", default=str(Path(sys.executable).with_name("memdir")))
    options = parser.parse_args()
    counts, notices, lines = Counter[str](), Counter[str](), list[str]()
    known: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="memdir-life-") as top:
        home, repo = Path(top) / "home", Path(top) / "app"
        home.mkdir()
        repo.mkdir()
        env = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "MEMDIR_MODEL": "none",
            "MEMDIR_HOOK_PATIENCE": "20",
        }

        def run(*argv: str, data: str = "") -> str:
            done = subprocess.run(
                [options.memdir, *argv], cwd=repo, env=env, input=data, capture_output=True, text=True, check=False
            )
            return done.stdout

        def hook(event: str, session: str, **values: Any) -> str:
            body = {"session_id": session, "cwd": str(repo), "transcript_path": "", "hook_event_name": event, **values}
            table = json.loads(run("hook", VERBS[event], data=json.dumps(body)) or "{}")
            if notice := table.get("systemMessage"):
                told.append(notice)
            return str(table.get("hookSpecificOutput", {}).get("additionalContext", ""))

        def find_shown(text: str) -> list[dict[str, Any]]:
            return [row for row in known.values() if f"{row['file']}" in text]

        subprocess.run(["git", "init", "-q", "."], cwd=repo, env=env, check=True)
        memory = Path(json.loads(run("where", "--json"))["private"]["path"])
        memory.mkdir(parents=True)
        for number, (new, prompts) in enumerate(plan_life(options.folders)):
            env["MEMDIR_NOW"] = (START + timedelta(days=2 * number)).isoformat()
            told: list[str] = []
            for row in new:
                row["file"] = row["id"].split("/")[-1].replace("_", "-") + ".md"
                known[row["id"]] = row
                (memory / row["file"]).write_text(render_memory(row), encoding="utf-8")
                stamp = (START + timedelta(days=2 * number, minutes=-5)).timestamp()
                os.utime(memory / row["file"], (stamp, stamp))  # ages count by the clock of the hooks
                with (memory / "MEMORY.md").open("a", encoding="utf-8") as index:
                    index.write(f"- [{row['name']}]({row['file']}) — {row['description'][:110]}\n")
            session = f"00000000-0000-4000-8000-{number:012d}"
            lines.append(f"\n## Session {number + 1}\n\nSaved before: {', '.join(row['name'] for row in new)}.\n")
            hook("SessionStart", session, source="startup")
            for prompt in prompts:
                fine, seen = {*prompt["gold"], *prompt.get("ok", [])}, list[str]()
                shown = [
                    ("prompt", row) for row in find_shown(hook("UserPromptSubmit", session, prompt=prompt["query"]))
                ]
                for call in prompt["calls"]:
                    path = str(repo / call.get("path", "").lstrip("/"))
                    values = (
                        {"command": call["command"]} if call["tool"] == "Bash" else {"file_path": path, "path": path}
                    )
                    values |= {"content": call.get("content", "")} if call["tool"] == "Write" else {}
                    values |= (
                        {"old_string": "", "new_string": call.get("content", "")} if call["tool"] == "Edit" else {}
                    )
                    act = {"tool_name": call["tool"], "tool_input": values}
                    text = hook("PreToolUse", session, **act)
                    shown += [(call.get("command") or call["path"], row) for row in find_shown(text)]
                    hook("PostToolUse", session, **act, tool_response={})
                for where, row in shown:
                    is_right = row["id"] in fine
                    moment = "prompt" if where == "prompt" else "action"
                    counts.update({moment: 1, f"{moment} right": is_right})
                    at = "" if where == "prompt" else f" at `{where.splitlines()[0][:60]}`"
                    seen.append(f"  - {'right' if is_right else 'wrong'}{at}: {row['name']}")
                kind = "needs a memory" if prompt["gold"] else "needs none"
                lines += [f"- {' '.join(prompt['query'].split())[:160]} ({kind})", *(seen or ["  - nothing shown"])]
            hook("Stop", session)
            hook("SessionEnd", session)
            standing = [text for text in told if not text.startswith(("memdir: recalled", "memdir: reminded"))]
            notices.update(standing)
            lines += [f"\nTold the person: {text}" for text in standing]
    total, right = (counts[f"prompt{word}"] + counts[f"action{word}"] for word in ("", " right"))
    twice = [text for text, count in notices.items() if count > 1]
    print(
        "# A life of 30 sessions\n\nWritten by `python benchmarks/life.py`; "
        + " ".join(str(__doc__).split("\n\n")[2].split())
        + "\n"
    )
    print(
        f"Shown {total}, right {right} ({right / total:.2f}): at prompts {counts['prompt right']} of {counts['prompt']}, at actions {counts['action right']} of {counts['action']}."
    )
    print(
        f"Notices to the person besides lists of what was recalled: {sum(notices.values())}, told twice: {len(twice)}."
    )
    print("\n".join(lines))
    return int(right * 2 < total or bool(twice))


if __name__ == "__main__":
    sys.exit(main())
