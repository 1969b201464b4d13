"""How many secrets the scanner finds, and how often it cries wolf.

    python benchmarks/secret_scan.py

Public cases, our own hundred sentences (of one half no miss was ever looked at), a hundred kinds that were written down
without a look at the rules, two thousand ordinary sentences of the public sets, and the time a text takes. Sets that are
absent are left out and named.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from memdir.store.secrets import find_secrets, mask
from secret_cases import find_others, read_cases, read_kinds, read_sentences, read_told

# Not `secrets.py`: run as a program, it would stand in the way of the standard library's room of that name.
BENCH = Path(os.environ.get("MEMDIR_BENCH") or Path(__file__).resolve().parents[2] / "shared" / "bench")
TEXT = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"


def print_row(name: str, hits: int, total: int) -> None:
    print(f"| {name} | {total} | {hits} | {hits / total:.1%} |")


def measure_cases(folder: Path) -> None:
    cases = read_cases(folder)
    others = find_others(cases, folder)
    leaks = [case for case in cases if case.is_leak]
    clean = [case for case in cases if not case.is_leak]
    missed = Counter(case.rule for case in leaks if not find_secrets(case.text))
    flagged = [case for case in clean if find_secrets(case.text)]
    print_row("public leak cases found", len(leaks) - missed.total(), len(leaks))
    counted = [case for case in clean if case.text not in others]
    print_row("public clean cases flagged", sum(case.text not in others for case in flagged), len(counted))
    print_row("the same with other rules' leaks", len(flagged), len(clean))
    print(f"\nmissed: {dict(missed)}; flagged: {dict(Counter(at.rule for at in flagged if at.text not in others))}\n")


def measure_told() -> None:
    rows = read_told()
    found = {row: find_secrets(row.text) for row in rows}
    groups = [("our sentences", rows), *((f"… {lang}", [at for at in rows if at.lang == lang]) for lang in LANGUAGES)]
    groups += [(f"… {kind}", [at for at in rows if at.kind == kind]) for kind in sorted({at.kind for at in rows})]
    groups += [("… the half never looked at", [at for at in rows if at.is_measured])]
    for name, part in groups:
        print_row(name, sum(bool(found[at]) for at in part), len(part))
    whole = sum(all(value not in mask(at.text, found[at]) for value in at.values) for at in rows)
    print_row("… masked whole", whole, len(rows))


def measure_kinds() -> None:
    rows = read_kinds()
    found = {row.rule: bool(find_secrets(row.text)) for row in rows if row.is_leak}
    clean = [row for row in rows if not row.is_leak]
    print_row("held-out kinds found", sum(found.values()), len(found))
    print_row("sentences beside them flagged", sum(bool(find_secrets(row.text)) for row in clean), len(clean))
    print(f"\nmissed: {', '.join(kind for kind, is_found in found.items() if not is_found)}\n")


def measure_time() -> None:
    text = (TEXT.read_text(encoding="utf-8") * 3)[:10_000]
    find_secrets(text)
    times = []
    for _ in range(30):
        begin = time.perf_counter()
        find_secrets(text)
        times.append(time.perf_counter() - begin)
    code = (
        "import sys, time; begin = time.perf_counter(); from memdir.store.secrets import find_secrets\n"
        "find_secrets(open(sys.argv[1], encoding='utf-8').read()); print(time.perf_counter() - begin)"
    )
    command = [sys.executable, "-c", code, str(TEXT)]
    runs = [subprocess.run(command, capture_output=True, encoding="utf-8", check=True) for _ in range(5)]
    cold = min(float(run.stdout) for run in runs)
    print(f"\n10,000 characters warm: {min(times) * 1000:.1f} ms; import and a first text, cold: {cold * 1000:.0f} ms")


LANGUAGES = ("en", "de", "zh", "fr", "es", "ja")


def main() -> None:
    print("| | n | hits | share |\n|---|---|---|---|")
    folder = BENCH / "security" / "secrets"
    if folder.exists():
        measure_cases(folder)
    else:
        print("bench data absent: security/secrets")
    measure_told()
    measure_kinds()
    if (BENCH / "locomo_observations").exists():
        sentences = read_sentences(BENCH)
        print_row("ordinary sentences flagged", sum(bool(find_secrets(at)) for at in sentences), len(sentences))
    else:
        print("bench data absent: sentences")
    measure_time()


if __name__ == "__main__":
    main()
