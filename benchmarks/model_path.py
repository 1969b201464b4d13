"""Honest and fooled answers of a capable model, played through extraction: what is kept, trimmed, parked.

    python benchmarks/model_path.py [--by-turn] [--no-opinion] [--record FILE] [-v]

Plays `model_path` of the bench data by its own `score.py`. The second opinion is answered from recorded judgements of a
reader who saw only those requests (`tests/data/opinions.jsonl`); `--record` writes requests that have none, instead of
refusing them, so that a reader can answer them. `--no-opinion` lets every second opinion fail.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import memdir
from memdir.extraction import extract
from memdir.store.files import FileStore
from opinions import OpinionReader

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench") / "model_path"


def main() -> int:
    args = sys.argv[1:]
    if not (FOLDER / "score.py").exists():
        print(f"skipped: there is no {FOLDER}")
        return 0
    record = Path(args.pop(args.index("--record") + 1)) if "--record" in args else None
    fails = "--no-opinion" in args
    args = [arg for arg in args if arg not in ("--record", "--no-opinion")]
    spec = importlib.util.spec_from_file_location("score", FOLDER / "score.py")
    assert spec is not None and spec.loader is not None
    score = importlib.util.module_from_spec(spec)
    vars(memdir).update(extract=extract, open_store=FileStore)  # where an earlier version had them
    spec.loader.exec_module(score)
    reader = OpinionReader(fails=fails)
    score.ScriptedModel = reader.wrap  # type: ignore[attr-defined]
    sys.argv = ["score.py", str(FOLDER), *args]
    try:
        score.main()
    except SystemExit as done:
        code = done.code
    print(f"\nsecond opinions: {reader.requests} requests, {len(reader.missing)} without a recorded answer")
    if record is not None:
        rows = [json.dumps(row, ensure_ascii=False) for row in reader.missing.values()]
        record.write_text("\n".join(rows) + "\n" if rows else "", encoding="utf-8")
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
