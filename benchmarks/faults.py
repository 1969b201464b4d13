"""The full loads as one table: what was done to memdir, how often, what came of it. Called by scripts/faults.

    scripts/faults [--only G9] [--small] [--no-mutations] [--at-once 4]

Prints Markdown, to be kept in docs/faults.md: each gate with its load, its result, and whether it turns red when its safety
is taken out of a copy of the code. Ends with 1 if anything failed, or a gate did not turn red. Several rows run at a time,
the long ones after the mutations; those that need the machine run alone at the end. Temporary files lie in memory where that is possible, except for the rows
about disks.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MEMORY = Path("/dev/shm")


class Row(NamedTuple):
    """One gate: `words` choose its tests, `key` its mutation in MUTATIONS (or the test that shows it by itself).

    `red` are the words for the run with the mutation, where fewer tests do; `place` says what the row needs.
    """

    gate: str
    load: str
    files: str
    words: str = ""
    key: str = ""
    red: str = ""
    place: str = ""


LOADS = [
    Row("G7", "bad files in place of memories, indexes and each file of memdir's own", "hostile/test_neighbours.py", "",
        "neighbour", place="long"),
    Row("S1", "hostile strings in every field, library", "hostile/test_names.py", "not command_line", "names", place="long"),
    Row("G1", "64 processes × 1,000 mixed changes of one directory", "hostile/test_processes.py", "nothing_is_lost", "lock", place="long"),
    Row("G12", "8 clones × 200 changes and syncs, killed, the remote away", "sync/test_team_clones.py sync/test_team_sync.py",
        "clones or only_reads", "merge", place="long"),
    Row("G12", "8 machines × 300 changes and syncs, killed, offline, wrong clocks, moved, plain and encrypted",
        "sync/test_team_machines.py", "", "both", "plain", place="long"),
    Row("G12", "the same of 8 members over a server", "sync/test_team_server.py", "", "conflict", "members_end_equal or offline", place="long"),
    Row("G3", "all interfaces at once for ten minutes, with kills and an editor", "hostile/test_mixed_load.py", "", "spool", place="long"),
    Row("G14", "8 agents in one long-lived process: memory, descriptors, temporary files", "hostile/test_soak.py", "", "leak", place="long"),
    Row("G2", "killed before, after and in the middle of every mutating call: save", "hostile/test_kills.py", "save", "heal"),
    Row("G2", "the same: edit", "hostile/test_kills.py", "edit", "heal"),
    Row("G2", "the same: forget", "hostile/test_kills.py", "forget", "heal"),
    Row("G2", "the same: undo", "hostile/test_kills.py", "undo", "heal"),
    Row("G2", "the same: promote, a batch of two stores", "hostile/test_kills.py", "promote", "heal", "undo"),
    Row("G2", "a dream killed at its calls", "hostile/test_dream_kills.py", "", "heal"),
    Row("G3", "500 turns ended while host and worker are killed", "hostile/test_worker_kills.py", "", "spool", place="long"),
    Row("G4", "order of flushes before the answer", "hostile/test_durability.py", "not goes_red", "goes_red"),
    Row("G4", "1,000 power cuts on ext4 after the answer", "hostile/test_power.py", "", "fsync", "", "disk"),
    Row("G5", "full disk, read-only, no descriptors, every call failing", "hostile/test_full_disk.py", "", "disk", "any_call",
        "disk"),
    Row("G6", "64 dreamers started together, killed, stopped, with wrong clocks, 200 rounds", "dream/test_dream_lock.py",
        "64_dreamers", "held"),
    Row("G7", "damaged, deleted and replaced history", "store/test_store_history.py", "", "digest"),
    Row("G8", "damaged transcripts", "hostile/test_damaged_transcripts.py", "", "record"),
    Row("G8", "2,000 spoiled files for each parser", "hostile/test_fuzz.py", "", "fuzz"),
    Row("G7", "each zeroed page of a history, missing tables, a lock held by another process: seen and rebuilt",
        "store/test_store_rebuild.py", "", "damage", "zeroed or missing"),
    Row("G12", "no change: only stats; one change: little is sent; conflicts: each side can be taken", "sync/test_team_own.py sync/test_team_sync.py",
        "opens_no_memory or sends_little or clash", "still", "opens_no_memory"),
    Row("S6", "no clear text where there is a key", "sync/test_team_own.py", "clear_text", "clear"),
    Row("S6", "secrets by position, hashes, recovery codes", "store/test_store_secrets.py", "by_their_position", "position"),
    Row("S3", "FIFOs and devices in import; any umask; names in any encoding", "test_main.py", "fifo or umask or encoding", "umask", "umask"),
    Row("S4", "variables that a project's settings hand to the hooks", "project/test_project_paths.py", "env_table", "steering"),
    Row("S4", "memories that came with a project: no pins, no rules, no state of their own", "store/test_store_open.py", "came_with",
        "label"),
    Row("G7", "a memory directory moved, deleted or replaced while it is in use", "store/test_store_history.py", "was_moved", "place"),
    Row("G12", "age and author by every way: pin, undo, restore, moves, export and import", "store/test_scopes.py", "age_and_author",
        "writer"),
    Row("G14", "50,000 files: list and save", "hostile/test_reads.py", "large_directory", "", place="long"),
    Row("G10", "faults of providers", "models/test_models_faults.py", "", "passing", "its_reason"),
    Row("G11", "gates of a dream with clock and mtime jumps", "dream/test_dream_gates.py", "", "clock"),
    Row("G12", "a hostile team remote", "hostile/test_team_remote.py", "", "mode", "plain_file or may_not_come"),
    Row("G13", "1,000 hooks with random breakage", "interfaces/test_hooks_broken.py", "", "catch"),
    Row("G13", "the end of a turn is kept before anything is imported", "test_main.py", "", "kept"),
    Row("S1", "200 hostile strings, real processes", "hostile/test_names.py", "command_line", "complain"),
    Row("S2", "100,000 writes against a folder swapper", "hostile/test_links.py", "swapped_folder", "without_no_follow"),
    Row("S3", "links, FIFOs, sockets, devices, a 10 GB file", "hostile/test_links.py", "not swapped and not without", "without_no_follow"),
    Row("S3", "10,000 files never seen: bytes read", "hostile/test_reads.py", "", "head"),
    Row("S4", "tools of a model, what they may write", "interfaces/test_toolset.py", "", "names", "lead_elsewhere"),
    Row("S5", "a model that asks for 50 places outside: no file outside is opened", "hostile/test_confinement.py", "", "outside"),
    Row("S6", "secrets, known and held-out kinds", "store/test_store_secrets.py", "", "secrets"),
    Row("S7", "poisoned transcripts, a model that obeys", "extraction/test_extract_attacks.py extraction/test_extraction_attacks.py", "", "room"),
    Row("S7", "foreign text of earlier turns, repeated by the agent", "extraction/test_extraction_attacks.py", "digest", "earlier"),
    Row("S8", "poisoned and honest transcripts, recorded answers of a capable model", "extraction/test_extraction_answers.py", "",
        "keep"),
    Row("S9", "outside edits are recorded", "store/test_store_files.py", "outside or notice", "notice"),
    Row("S10", "1,000 hidden and 300 terminal texts, 2,000 benign ones, by every way in and out", "hostile/test_unicode.py",
        "", "forbidden"),
    Row("S11", "10,000 texts that imitate our frame", "recall/test_recall_reminder.py", "", "frame"),
    Row("S12", "broken frontmatter", "format/test_format_frontmatter.py", "", "yaml"),
    Row("S13", "the page: foreign requests, hostile memories in Chromium", "interfaces/web/test_web_access.py interfaces/web/test_web_hostile.py", "",
        "foreign", "not_ours"),
    Row("S14", "hostile repositories and instruction files", "hostile/test_instruction_files.py interfaces/test_import_hostile.py", "",
        "include", "opens_a_secret", place="disk"),
    Row("S15", "tenants of the server's store", "postgres/test_store_postgres.py", "", "tenant", "statement"),
    Row("S15", "10,000 random requests to the server", "interfaces/server/test_server_requests.py", "", "refused"),
    Row("S16", "1,000 malformed MCP frames by each way in", "interfaces/test_mcp_frames.py", "", "log", "pipes"),
    Row("S16", "the official MCP conformance tool", "interfaces/test_mcp_conformance.py", "", "prompts"),
    Row("", "the real Claude Code client with our hooks", "interfaces/test_real_hooks.py", "", "reply", "hooks"),
    Row("", "the real Codex CLI and Gemini CLI with our hooks", "interfaces/test_real_clients.py", "", "reply"),
    Row("G9", "1,000 turns ended by hooks at load 20", "hostile/test_ended_turns.py", "", "spool", "", "alone"),
]  # fmt: skip
# What is taken out of the code so that a gate must turn red: file, text, what stands there instead.
MUTATIONS = {
    "lock": ("files.py", "            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),
    "held": ("files.py", "            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),
    "heal": (
        "store/files.py",
        "    pending = past.find_pending()\n    for change",
        "    pending = past.find_pending()[:0]\n    for change",
    ),
    "leak": (
        "store/files.py",
        "    def scan(self) -> tuple[Header, ...]:\n",
        "    def scan(self, kept: list[bytes] = []) -> tuple[Header, ...]:\n        kept.append(bytes(9_000))\n",
    ),
    "spool": ("store/sessions.py", "    write_table(folder, leaf, table)\n    return folder / leaf", "    return folder / leaf"),
    "fsync": ("files.py", "    else:\n        os.fsync(handle)\n", "    else:\n        pass\n"),
    "disk": ("files.py", "        raise disk_error(error, path) from None\n", "        raise\n"),
    "neighbour": (
        "store/plan.py",
        '    except (PathError, DiskError):\n        return b""\n',
        '    except ZeroDivisionError:\n        return b""\n',
    ),
    "digest": ("store/history.py", "if digest_of(data := bytes(row[0])) != digest:", "if not (data := bytes(row[0])):"),
    "record": (
        "conversation/lines.py",
        "        except (ValueError, RecursionError):\n            break\n",
        "        except ZeroDivisionError:\n            break\n",
    ),
    "fuzz": (
        "text.py",
        "    except (ValueError, RecursionError):\n        return None\n",
        "    except ZeroDivisionError:\n        return None\n",
    ),
    "damage": ("store/history.py", 'if row[0] != "ok" or', "if"),
    "still": ("sync/sync.py", "if here and here == before.here and", "if here and"),
    "clear": ("sync/own.py", "elif encrypt is None and known is None and", "elif known is not None and"),
    "position": ("store/secrets.py", "    yield from _find_arguments(text, low)\n", ""),
    "umask": ("__main__.py", "os.umask((os.umask(0o077) | 0o022) & ~0o700)", "os.umask(os.umask(0o077))"),
    "steering": ("project/paths.py", "    if not dropped:\n", "    if True:\n"),
    "label": ("store/open.py", "Scope.PROJECT if place.path.is_relative_to(project.places.root.path) else Scope.AGENT", "Scope.AGENT"),
    "place": ("store/files.py", "        self._check_place()\n", ""),
    "writer": ("store/history.py", "_find_writer(db, path, digest) or who", "who"),
    "passing": ("models/connection.py", "is_transient=reason in TRANSIENT", "is_transient=False"),
    "clock": ("dream/__init__.py", "None if recorded is None or recorded - now > wait else recorded", "recorded"),
    "merge": ("sync/plan.py", "            data = None if merged is None else encode(merged)\n", ""),
    "both": (
        "sync/plan.py",
        "        if entry is not None and entry.sha != base:\n            self._merge(path, target, data)\n",
        "        if False:\n            pass\n",
    ),
    "conflict": (
        "sync/server.py",
        "return PushState(PushResult.QUICKER, find_message(answer))",
        "return PushState(PushResult.DONE)",
    ),
    "mode": ("sync/plan.py", "    if mode != state.PLAIN_MODE:\n", '    if mode == "":\n'),
    "catch": ("interfaces/hooks.py", "    except Exception as error:\n", "    except ZeroDivisionError as error:\n"),
    "kept": ("__main__.py", 'keep_ended_turn(sys.argv[2:], table) if is_ending and table else ""', '""'),
    "names": ("files.py", "        if reason := find_refusal(segment):", '        if reason := "":'),
    "head": ("files.py", 'len(data) < HEADER_BYTES and data.count(b"\\n") < HEADER_LINES and ', ""),
    "outside": ("models/agent.py", "file = guard.read_file(root, path)", "file = (self.root / path).read_bytes(), None"),
    "forbidden": ("text.py", "(_FORBIDDEN_LINES if lines else _FORBIDDEN_INLINE).search(text)", "None"),
    "secrets": ("store/secrets.py", "_drop_overlaps(islice(_find_matches(text, extra), most))", "[]"),
    "room": (
        "extraction/by_model.py",
        'message.answers or message.is_meta:\n        return ""\n',
        "message.answers or message.is_meta:\n        return message.text\n",
    ),
    "earlier": ("conversation/typed.py", "dict.fromkeys(earlier)", "dict.fromkeys(list(earlier)[:0])"),
    "keep": ("extraction/provenance.py", "                kept.append(verdict.staged)\n", "                pass\n"),
    "notice": (
        "store/files.py",
        "                if path not in recorded or recorded[path][1] != signature:\n",
        "                if path not in recorded:\n",
    ),
    "frame": ("format/shown.py", "    lines = text.splitlines()\n", "    lines: list[str] = []\n"),
    "yaml": ("format/frontmatter.py", "    except YamlError as error:\n", "    except ZeroDivisionError as error:\n"),
    "foreign": ("interfaces/web/access.py", "if why := find_foreign(headers, self._port, _NAMES):", 'if why := "":'),
    "include": ("conversation/includes.py", "    folded = os.path.normpath(path).casefold()\n", "    return False\n"),
    "tenant": (
        "postgres/migrations/0003_rows.sql",
        "CREATE POLICY own_tenant ON memdir.files AS RESTRICTIVE USING (tenant = (SELECT current_setting('app.tenant')::uuid))",
        "CREATE POLICY own_tenant ON memdir.files AS RESTRICTIVE USING (true)",
    ),
    "log": ("interfaces/mcp.py", "    log.addHandler(logging.NullHandler())\n    log.propagate = False\n", ""),
    "complain": (
        "interfaces/cli/__init__.py",
        "    except MemdirError as error:\n        complain(render_error(error))\n",
        "    except ZeroDivisionError as error:\n        complain(str(error))\n",
    ),
    "refused": (
        "interfaces/server/app.py", '    (FormatError, 400, "format"),\n', '    (FormatError, 500, "format"),\n'
    ),
    "prompts": ("interfaces/mcp.py", "        on_list_prompts=list_prompts,\n", ""),
    "reply": ("interfaces/hooks.py", 'specific["additionalContext"] = reply.context', 'specific["additional"] = reply.context'),
}  # fmt: skip


def run(
    row: Row, *, root: Path = ROOT, load: str = "full", words: str = "", seconds: float = 3_600
) -> tuple[int, int, int, float, str]:
    """Passed, failed, skipped, seconds of one selection of tests, and what they recorded as their result."""
    in_memory = MEMORY if row.place != "disk" and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=in_memory, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)  # PostgreSQL runs as another user
        report = Path(folder) / "report.xml"
        paths = [f"tests/{name}" for name in row.files.split()]
        options = [
            "-q",
            "-p",
            "no:cacheprovider",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
            f"--basetemp={folder}/tests",
        ]
        command = [sys.executable, "-m", "pytest", *options, *paths, *(["-x"] if root != ROOT else [])]
        command += ["-k", words or row.words] if words or row.words else []
        bench = os.environ.get("MEMDIR_BENCH") or str(ROOT.parent / "shared" / "bench")
        env = {
            **os.environ,
            "MEMDIR_LOAD": load,
            "PYTHONPATH": str(root / "src"),
            "TMPDIR": folder,
            "MEMDIR_BENCH": bench,
        }
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


def mutate(row: Row) -> str:
    """Run a gate at the small load with its safety taken out; says whether it turned red."""
    if row.key not in MUTATIONS:
        return f"`{row.key}`, in the tests themselves" if row.key else "none that turns it red was found"
    path, old, new = MUTATIONS[row.key]
    with tempfile.TemporaryDirectory(
        dir=MEMORY if os.access(MEMORY, os.W_OK) else None, ignore_cleanup_errors=True
    ) as folder:
        root = Path(folder) / "memdir"
        leave = shutil.ignore_patterns(".git", ".venv", "node_modules", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, root, symlinks=True, ignore=leave)
        (root / ".venv").symlink_to(ROOT / ".venv")
        target = root / "src" / "memdir" / path
        text = target.read_text(encoding="utf-8")
        if text.count(old) != 1:
            return f"`{row.key}`: THE TEXT IS NOT THERE ONCE"
        target.write_text(text.replace(old, new, 1), encoding="utf-8")
        # The rows of real clients have no small load.
        failed = run(row, root=root, load="" if row.gate else "full", words=row.red, seconds=600)[1]
    return f"`{row.key}`: {'red' if failed else 'NOT RED'}"


def find_spoiled(row: Row) -> tuple[str, ...]:
    """What a run with a mutation depends on: rows that share it are tried once."""
    return row.files, row.key, row.red or row.words


def make_line(row: Row, result: tuple[int, int, int, float, str] | None, red: str) -> str:
    if result is None:
        return f"| {row.gate} | {row.load} | | | | | | {red} |"
    passed, failed, skipped, seconds, said = result
    said = "; ".join(["FAILED", *([said] if said else [])]) if failed else said
    return f"| {row.gate} | {row.load} | {passed} | {failed} | {skipped} | {seconds:.0f} | {said} | {red} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="only the gates or loads whose line has this text")
    options.add_argument("--small", action="store_true", help="a tenth of the load, as CI runs it")
    options.add_argument("--no-mutations", action="store_true", help="do not try whether each gate can turn red")
    options.add_argument("--no-load", action="store_true", help="only try whether each gate can turn red")
    options.add_argument("--at-once", type=int, default=4, help="how many rows run at a time")
    given = options.parse_args()
    began = time.monotonic()
    print(f"Linux {platform.release().split('-')[0]}, Python {platform.python_version()}, {os.cpu_count()} cores.\n")
    print(
        "| gate | load | passed | failed | skipped | seconds | result | mutation |\n|---|---|---|---|---|---|---|---|",
        flush=True,
    )
    rows = [row for row in LOADS if not given.only or given.only == row.gate or given.only in row.load]
    results: dict[Row, tuple[int, int, int, float, str]] = {}
    red: dict[tuple[str, ...], str] = {}

    def tell(*said: object) -> None:
        print(f"*** {time.monotonic() - began:,.0f} s:", *said, file=sys.stderr, flush=True)

    def play(row: Row) -> None:
        results[row] = run(row, load="" if given.small else "full")
        tell(make_line(row, results[row], ""))

    def spoil(row: Row) -> None:
        red[find_spoiled(row)] = mutate(row)
        tell(row.gate, row.files, red[find_spoiled(row)])

    with ThreadPoolExecutor(given.at_once) as pool:
        if not given.no_load:
            list(pool.map(play, [row for row in rows if row.place not in ("long", "alone")]))
        if not given.no_mutations:
            list(pool.map(spoil, {find_spoiled(row): row for row in rows}.values()))
        if not given.no_load:
            list(pool.map(play, [row for row in rows if row.place == "long"]))
            for row in rows:
                if row.place == "alone":
                    play(row)
    lines = {}
    for row in sorted(rows, key=lambda at: (at.gate == "", at.gate[:1], int(at.gate[1:] or 0))):
        lines[row] = make_line(row, results.get(row), red.get(find_spoiled(row), ""))
        print(lines[row], flush=True)
    worst = any(word in line for line in lines.values() for word in ("FAILED", "NOT"))
    if not given.only and not given.small and not given.no_load:
        print()
        for timing in ("startup", "hook"):
            code = subprocess.run([sys.executable, f"benchmarks/{timing}.py"], cwd=ROOT, check=False).returncode
            worst = worst or bool(code)
    print(f"\nThe whole took {(time.monotonic() - began) / 60:.0f} minutes.")
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
