"""The full loads as one table: what was done to memdir, how often, what came of it. Called by scripts/faults.

    scripts/faults [--only G9] [--small] [--no-mutations]

Prints Markdown, to be kept in docs/faults.md: each gate with its load, its result, and whether it turns red when its safety
is taken out of a copy of the code. Ends with 1 if anything failed, or a gate did not turn red.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOADS: list[tuple[str, str, str, str, str]] = [
    # gate, load, test file, words of the test, mutation: the key in MUTATIONS, or the test that shows it itself
    (
        "G1",
        "64 processes × 1,000 mixed changes of one directory",
        "hostile/test_processes.py",
        "nothing_is_lost",
        "lock_is_taken_out",
    ),
    (
        "G2",
        "killed before, after and in the middle of every mutating call: save",
        "hostile/test_kills.py",
        "save",
        "heal",
    ),
    ("G2", "the same: edit", "hostile/test_kills.py", "edit", "heal"),
    ("G2", "the same: forget", "hostile/test_kills.py", "forget", "heal"),
    ("G2", "the same: undo", "hostile/test_kills.py", "undo", "heal"),
    ("G2", "a dream killed at its calls", "hostile/test_dream_kills.py", "", ""),
    ("G3", "500 turns ended while host and worker are killed", "hostile/test_worker_kills.py", "", "queue"),
    (
        "G3",
        "all interfaces at once for ten minutes, with kills and an editor",
        "hostile/test_mixed_load.py",
        "",
        "heal",
    ),
    ("G4", "order of flushes before the answer", "hostile/test_durability.py", "not goes_red", "goes_red"),
    ("G4", "200 power cuts on ext4 after the answer", "hostile/test_power.py", "", "fsync"),
    ("G5", "full disk, read-only, no descriptors, every call failing", "hostile/test_full_disk.py", "", ""),
    ("G6", "64 dreamers started together, 200 rounds", "test_dream_lock.py", "64_dreamers", ""),
    (
        "G7",
        "bad files in place of memories, indexes and each file of memdir's own",
        "hostile/test_neighbours.py",
        "",
        "neighbour",
    ),
    ("G7", "damaged, deleted and replaced history", "test_store_history.py", "", "digest"),
    ("G8", "damaged transcripts", "hostile/test_transcripts.py", "", ""),
    ("G8", "2,000 spoiled files for each parser", "hostile/test_fuzz.py", "", "fuzz"),
    ("G9", "1,000 turns ended by hooks at load 20", "hostile/test_ended_turns.py", "", "kept"),
    ("G10", "faults of providers", "test_models_faults.py", "", ""),
    ("G11", "gates of a dream with clock and mtime jumps", "test_dream_gates.py", "", ""),
    ("G12", "8 clones × 500 changes and syncs, killed, the remote away", "test_team_clones.py", "", ""),
    (
        "G12",
        "8 machines × 300 changes and syncs, killed, offline, wrong clocks, moved",
        "test_team_machines.py",
        "",
        "",
    ),
    ("G12", "the same of 8 members over a server", "test_team_server.py", "", ""),
    ("G12", "a hostile team remote", "hostile/test_team_remote.py", "", ""),
    ("G13", "1,000 hooks with random breakage", "test_hooks_broken.py", "", ""),
    ("G13", "the end of a turn is kept before anything is imported", "test_main.py", "", "kept"),
    ("S1", "hostile strings in every field, library", "hostile/test_names.py", "not command_line", "names"),
    ("S1", "200 hostile strings, real processes", "hostile/test_names.py", "command_line", ""),
    ("S2", "100,000 writes against a folder swapper", "hostile/test_links.py", "swapped_folder", "without_no_follow"),
    (
        "S3",
        "links, FIFOs, sockets, devices, a 10 GB file",
        "hostile/test_links.py",
        "not swapped and not without",
        "without_no_follow",
    ),
    ("S3", "10,000 files never seen: bytes read", "hostile/test_reads.py", "", ""),
    ("S4", "tools of a model, what they may write", "test_toolset.py", "", ""),
    ("S6", "secrets, known and held-out kinds", "test_store_secrets.py", "", ""),
    (
        "S7",
        "poisoned transcripts, a model that obeys",
        "test_extract_attacks.py test_extraction_attacks.py",
        "",
        "room",
    ),
    ("S7", "foreign text of earlier turns, repeated by the agent", "test_extraction_attacks.py", "digest", "earlier"),
    ("S9", "outside edits are recorded", "test_store_files.py", "outside or notice", ""),
    ("S11", "text that imitates our frame", "test_recall_reminder.py", "", ""),
    ("S12", "broken frontmatter", "test_format_frontmatter.py", "", ""),
    (
        "S13",
        "the page: foreign requests, hostile memories in Chromium",
        "test_web_access.py test_web_hostile.py",
        "",
        "",
    ),
    (
        "S14",
        "hostile repositories and instruction files",
        "hostile/test_instruction_files.py test_import_hostile.py",
        "",
        "",
    ),
    ("S15", "tenants of the server's store", "test_store_postgres.py", "", ""),
    ("S16", "1,000 malformed MCP frames by each way in", "test_mcp_frames.py", "", ""),
    ("S16", "the official MCP conformance tool", "test_mcp_conformance.py", "", ""),
    ("", "the real Claude Code client with our hooks", "test_real_hooks.py test_notes_real.py", "", ""),
    ("", "the real Codex CLI and Gemini CLI with our hooks", "test_real_clients.py", "", ""),
]
# What is taken out of the code so that a gate must turn red: file, text, what stands there instead.
MUTATIONS = {
    "heal": ("store/files.py", "            heal(root, past)\n", ""),
    "queue": (
        "interfaces/hook_events.py",
        "        enqueue(project.private.state",
        "        print(project.private.state",
    ),
    "fsync": ("guard.py", "        os.fsync(handle)\n", "        pass\n"),
    "neighbour": (
        "store/plan.py",
        '    except (PathError, DiskError):\n        return b""\n',
        '    except ZeroDivisionError:\n        return b""\n',
    ),
    "digest": ("store/history.py", "if digest_of(data := bytes(row[0])) != digest:", "if not (data := bytes(row[0])):"),
    "fuzz": (
        "store/state.py",
        "    except (ValueError, RecursionError):\n        return {}\n",
        "    except ZeroDivisionError:\n        return {}\n",
    ),
    "kept": ("__main__.py", "given, kept = keep_ended_turn(sys.argv[2:])", 'given, kept = b"", ""'),
    "room": (
        "extraction/by_model.py",
        'message.answers or message.is_meta:\n        return ""\n',
        "message.answers or message.is_meta:\n        return message.text\n",
    ),
    "earlier": ("extraction/provenance.py", "dict.fromkeys(earlier)", "dict.fromkeys(list(earlier)[:0])"),
    "names": ("guard.py", "        if reason := find_refusal(segment):", '        if reason := "":'),
}


def run(
    files: str, words: str, *, root: Path = ROOT, load: str = "full", seconds: float = 3_600
) -> tuple[int, int, int, float, str]:
    """Passed, failed, skipped, seconds of one selection of tests, and what they recorded as their result."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        paths = [f"tests/{name}" for name in files.split()]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *paths,
            f"--junitxml={report}",
            *(["-k", words] if words else []),
        ]
        env = {**os.environ, "MEMDIR_LOAD": load, "PYTHONPATH": str(root / "src")}
        try:
            subprocess.run(command, cwd=root, env=env, stdout=sys.stderr, check=False, timeout=seconds)
        except subprocess.TimeoutExpired:
            return 0, 1, 0, seconds, f"not done in {seconds:,.0f} s"
        if not report.exists():
            return 0, 1, 0, 0.0, "no report"
        suite = xml.parse(report).getroot()[0]
    failed = int(suite.attrib["failures"]) + int(suite.attrib["errors"])
    skipped = int(suite.attrib["skipped"])
    said = "; ".join(at.attrib["value"] for at in suite.iter("property") if at.attrib["name"] == "result")
    return int(suite.attrib["tests"]) - failed - skipped, failed, skipped, float(suite.attrib["time"]), said


def mutate(key: str, files: str, words: str) -> str:
    """Run a gate at the small load with its safety taken out; says whether it turned red."""
    if key not in MUTATIONS:
        return f"`{key}`, in the tests themselves" if key else "not tried"
    path, old, new = MUTATIONS[key]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "memdir"
        leave = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, root, symlinks=True, ignore=leave)
        target = root / "src" / "memdir" / path
        text = target.read_text(encoding="utf-8")
        if old not in text:
            return f"`{key}`: THE TEXT IS NOT THERE"
        target.write_text(text.replace(old, new, 1), encoding="utf-8")
        failed = run(files, words, root=root, load="", seconds=600)[1]
    return f"`{key}`: {'red' if failed else 'NOT RED'}"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only the gates or loads whose line has this text")
    options.add_argument("--small", action="store_true", help="a tenth of the load, as CI runs it")
    options.add_argument("--no-mutations", action="store_true", help="do not try whether each gate can turn red")
    given = options.parse_args()
    print(f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    print(
        "| gate | load | passed | failed | skipped | seconds | result | mutation |\n|---|---|---|---|---|---|---|---|"
    )
    worst = 0
    tried: dict[tuple[str, str], str] = {}
    for gate, line, files, words, key in LOADS:
        if given.only and given.only != gate and given.only not in line:
            continue
        passed, failed, skipped, seconds, said = run(files, words, load="" if given.small else "full")
        if (key, files) not in tried:
            tried[key, files] = "" if given.no_mutations else mutate(key, files, words)
        red = tried[key, files]
        worst |= failed or "NOT" in red
        print(f"| {gate} | {line} | {passed} | {failed} | {skipped} | {seconds:.0f} | {said} | {red} |", flush=True)
    if not given.only and not given.small:
        print()
        for timing in ("startup", "hook"):
            worst |= subprocess.run([sys.executable, f"benchmarks/{timing}.py"], cwd=ROOT, check=False).returncode
    return int(bool(worst))


if __name__ == "__main__":
    sys.exit(main())
