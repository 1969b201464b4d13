"""The full loads as one table: what was done to memdir, how often, what came of it. Called by scripts/faults.

    scripts/faults [--only WORD]

Prints Markdown, to be kept in docs/faults.md. Ends with 1 if anything failed.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOADS = [
    ("64 processes × 1,000 mixed acts on one directory", "tests/hostile/test_processes.py", "nothing_is_lost"),
    ("the same with the lock taken out (must lose)", "tests/hostile/test_processes.py", "lock_is_taken_out"),
    ("killed around every mutating call: save", "tests/hostile/test_kills.py", "save"),
    ("killed around every mutating call: edit", "tests/hostile/test_kills.py", "edit"),
    ("killed around every mutating call: forget", "tests/hostile/test_kills.py", "forget"),
    ("killed around every mutating call: undo", "tests/hostile/test_kills.py", "undo"),
    ("order of flushes before the answer", "tests/hostile/test_durability.py", "not goes_red"),
    ("the same with either flush taken out (must show)", "tests/hostile/test_durability.py", "goes_red"),
    ("200 power cuts on ext4 after the answer", "tests/hostile/test_power.py", ""),
    ("100,000 writes against a folder swapper", "tests/hostile/test_links.py", "swapped_folder"),
    ("the same without no-follow (must escape)", "tests/hostile/test_links.py", "without_no_follow"),
    ("links, FIFOs, sockets, devices, a 10 GB file", "tests/hostile/test_links.py", "not swapped and not without"),
    ("hostile strings in every field, library", "tests/hostile/test_names.py", "not command_line"),
    ("200 hostile strings, real processes", "tests/hostile/test_names.py", "command_line"),
    ("full disk, read-only, no descriptors, every call failing", "tests/hostile/test_full_disk.py", ""),
    ("10,000 files never seen: bytes read", "tests/hostile/test_reads.py", ""),
    ("notes of 2,000 records by the real client, with a compaction", "tests/test_notes_real.py", ""),
    ("500 turns ended while host and worker are killed", "tests/hostile/test_worker_kills.py", ""),
    ("64 dreamers started together, 200 rounds", "tests/test_dream_lock.py", "64_dreamers"),
    ("8 clones × 500 changes and syncs, killed, the remote away", "tests/test_team_clones.py", ""),
    ("8 machines × 300 changes and syncs, killed, offline, wrong clocks, moved", "tests/test_team_machines.py", ""),
    (
        "8 members × 300 changes and syncs over a server, killed, offline, wrong clocks, moved",
        "tests/test_team_server.py",
        "",
    ),
    ("a hostile team remote", "tests/hostile/test_team_remote.py", ""),
    ("1,000 hooks with random breakage", "tests/test_hooks_broken.py", ""),
    ("the real Claude Code client with our hooks", "tests/test_real_hooks.py", ""),
    ("the real Codex CLI and Gemini CLI with our hooks", "tests/test_real_clients.py", ""),
    ("1,000 malformed MCP frames by each way in", "tests/test_mcp_frames.py", ""),
    ("the official MCP conformance tool", "tests/test_mcp_conformance.py", ""),
]


def run(path: str, words: str) -> tuple[int, int, int, float]:
    """Passed, failed, skipped, seconds of one selection of tests."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", path, f"--junitxml={report}", *(["-k", words] if words else [])]
        subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
        if not report.exists():
            return 0, 1, 0, 0.0
        suite = xml.parse(report).getroot()[0].attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    return int(suite["tests"]) - failed - skipped, failed, skipped, float(suite["time"])


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only the loads whose line has this word")
    only = options.parse_args().only
    print(f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    print("| load | passed | failed | skipped | seconds |\n|---|---|---|---|---|")
    worst = 0
    for line, path, words in LOADS:
        if only in line:
            passed, failed, skipped, seconds = run(path, words)
            worst |= failed
            print(f"| {line} | {passed} | {failed} | {skipped} | {seconds:.0f} |", flush=True)
    if not only:
        print()
        for timing in ("startup", "hook"):
            worst |= subprocess.run([sys.executable, f"benchmarks/{timing}.py"], cwd=ROOT, check=False).returncode
    return int(bool(worst))


if __name__ == "__main__":
    sys.exit(main())
