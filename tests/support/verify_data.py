"""A project with a known past, and memories that name what was there at its beginning, with the truth about each claim.

Three languages in one repository. Every change is made by the script, so it knows what became of each thing; the
memories are sentences from templates, so it knows what each of them claims, and where.
"""

import random
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

from homes import git

VERBS = "load parse render merge fetch build check store index split order rotate encode queue trace".split()
NOUNS = (
    "invoice ledger session token widget packet report cursor bundle record schema locale ticket voucher gadget".split()
)
MORE = "batch draft cache limit range state group quota match total chain buffer header".split()


@dataclass
class Thing:
    """One thing of the project: what it is called in a memory, and what became of it."""

    kind: str
    text: str
    status: str = "present"
    to: str = ""
    renamed: bool = False


@dataclass
class Files:
    """The project's files as they are now, and as they were at each commit."""

    text: dict[str, str] = field(default_factory=dict)
    commits: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def commit(self, message: str) -> None:
        self.commits.append((message, dict(self.text)))

    def swap(self, old: str, new: str) -> None:
        """Another word in the place of one, in every file."""
        pattern = re.compile(rf"(?<![\w$-]){re.escape(old)}(?![\w$-])")
        self.text = {path: pattern.sub(new, text) for path, text in self.text.items()}

    def drop(self, word: str) -> None:
        """Take out every block of lines that speaks of a word; blocks are parted by empty lines."""
        pattern = re.compile(rf"(?<![\w$-]){re.escape(word)}(?![\w$-])")
        for path, text in self.text.items():
            if pattern.search(text):
                self.text[path] = "\n\n".join(block for block in text.split("\n\n") if not pattern.search(block)) + "\n"


def camel(*words: str) -> str:
    return words[0] + "".join(word.capitalize() for word in words[1:])


def pascal(*words: str) -> str:
    return "".join(word.capitalize() for word in words)


def snake(*words: str) -> str:
    return "_".join(words)


def make_names(rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Triples of words, no two alike."""
    seen: set[tuple[str, str, str]] = set()
    while True:
        made = (rng.choice(VERBS), rng.choice(NOUNS), rng.choice(MORE))
        if made not in seen:
            seen.add(made)
            yield made


def make_project(root: Path, seed: int = 7) -> list[Thing]:
    """The repository with its whole past; answers the things of its first commit and what became of them."""
    rng = random.Random(seed)
    names = make_names(rng)
    files = Files()
    things = _begin(files, names)
    files.commit("begin")
    _change(files, things, names, rng)
    import_commits(root, files.commits)
    return things


def import_commits(root: Path, commits: Sequence[tuple[str, Mapping[str, str]]]) -> None:
    """A repository with these snapshots as its commits, made by one process of git, and checked out."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    parts: list[bytes] = []
    for number, (message, files) in enumerate(commits):
        said = message.encode()
        parts.append(
            b"commit refs/heads/main\ncommitter T <t@memdir.invalid> %d +0000\n" % (1_700_000_000 + 60 * number)
        )
        parts.append(b"data %d\n%s\ndeleteall\n" % (len(said), said))
        for path, text in files.items():
            data = text.encode()
            parts.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(data), data))
    command = ["git", "-C", str(root), "fast-import", "--quiet"]
    subprocess.run(command, input=b"".join(parts), check=True, capture_output=True)
    git(root, "reset", "-q", "--hard", "main")


def _begin(files: Files, names: Iterator[tuple[str, str, str]]) -> list[Thing]:
    things: list[Thing] = []
    for folder, ending in (("server", "py"), ("web/src", "ts"), ("agent/internal", "go")):
        for group in ("billing", "accounts", "search", "legacy"):
            for _ in range(4):
                path = f"{folder}/{group}/{snake(*next(names))}.{ending}"
                files.text[path] = _fill(ending, things, names)
                things.append(Thing("path", path))
    for group in ("billing", "accounts", "search"):
        things.append(Thing("path", f"web/src/{group}/"))
    scripts = ["build", "lint:all", "serve-docs", "seed_db", "e2e"]
    files.text["package.json"] = (
        '{\n  "scripts": {\n' + ",\n".join(f'    "{at}": "node tools/{at[:4]}.js"' for at in scripts) + "\n  },\n"
        '  "dependencies": {\n    "left-pad": "1.0.0",\n    "fast-csv": "4.0.0"\n  }\n}\n'
    )
    targets = ["deploy-staging", "fixtures", "bench", "release-notes"]
    files.text["Makefile"] = "\n".join(f"{at}:\n\t./tools/{at}.sh\n" for at in targets)
    files.text["pyproject.toml"] = '[project]\nname = "x"\ndependencies = [\n  "requests",\n  "tabulate",\n]\n'
    things += [Thing("command", f"npm run {at}") for at in scripts]
    things += [Thing("command", f"make {at}") for at in targets]
    flags = ["--dry-run", "--max-retries", "--only-stale", "--no-color-output"]
    files.text["server/cli.py"] = (
        "import argparse\n\n" + "\n\n".join(f'parser.add_argument("{at}")' for at in flags) + "\n"
    )
    things += [Thing("flag", at) for at in flags]
    for _ in range(6):
        name = snake(*next(names)).upper()
        files.text.setdefault("server/env.py", "import os\n")
        files.text["server/env.py"] += f'\n{name.lower()[:9]}_value = os.environ.get("{name}", "")\n'
        files.text.setdefault("deploy/app.yaml", "env:\n")
        files.text["deploy/app.yaml"] += f"\n  {name}: unset\n"
        things.append(Thing("variable", name))
    files.text["README.md"] = "# The project\n\nText.\n"
    files.text["CHANGELOG.md"] = "# Changes\n"
    return things


SOURCES = Path(__file__).parents[1] / "data" / "verify"


def _fill(ending: str, things: list[Thing], names: Iterator[tuple[str, str, str]]) -> str:
    """One source file: two functions, a class with a method, a constant; each is used once more."""
    one, two, kind, member, constant = (next(names) for _ in range(5))
    spelled = snake if ending == "py" else camel
    words = {
        "first": spelled(*one),
        "second": spelled(*two),
        "method": spelled(*member),
        "owner": pascal(*kind[1:], "unit"),
        "const": snake(*constant).upper(),
        "run": spelled("run", one[1], two[2], "all"),
    }
    things += [Thing("symbol", words["first"]), Thing("symbol", words["second"])]
    things += [Thing("symbol", f"{words['owner']}.{words['method']}"), Thing("constant", words["const"])]
    return Template((SOURCES / f"{ending}.txt").read_text(encoding="utf-8")).substitute(words)


def _change(files: Files, things: list[Thing], names: Iterator[tuple[str, str, str]], rng: random.Random) -> None:
    """Thirty commits: renames, moves, removals, and work that touches none of it."""
    words = [at for at in things if at.kind in ("symbol", "constant", "variable") and "." not in at.text]
    paths = [at for at in things if at.kind == "path" and not at.text.endswith("/")]
    rng.shuffle(words)
    rng.shuffle(paths)
    renamed, dropped = words[: len(words) // 5], words[len(words) // 5 : len(words) // 3]
    for number, thing in enumerate(renamed):
        new = _rename(thing, next(names))
        files.swap(thing.text, new)
        thing.status, thing.to, thing.renamed = "gone", new, True
        if number % 4 == 3:
            files.commit(f"rename {thing.text} and others")
    for again in renamed[:3]:  # a second time: the successor is followed
        new = _rename(again, next(names))
        files.swap(again.to, new)
        again.to = new
    files.commit("rename again")
    for number, thing in enumerate(dropped):
        files.drop(thing.text)
        files.text["CHANGELOG.md"] += f"\n- `{thing.text}` was removed.\n"
        thing.status = "gone"
        if number % 3 == 2:
            files.commit(f"remove {thing.text} and others")
    files.commit("remove more")
    for number, thing in enumerate(paths[:12]):
        folder, _, leaf = thing.text.rpartition("/")
        stem, _, ending = leaf.rpartition(".")
        new = f"{folder}/{snake(*next(names))}.{ending}" if number % 2 else f"{folder}/shared/{stem}.{ending}"
        _move(files, thing, new)
        if number % 3 == 2:
            files.commit("move files")
    for thing in paths[12:18]:
        text = files.text.pop(thing.text)
        thing.status = "gone"
        _lose(things, text, files)
    files.commit("remove files")
    search = next(at for at in things if at.text == "web/src/search/")
    for thing in [at for at in paths if (at.to or at.text).startswith(search.text) and at.status != "gone"]:
        _move(files, thing, (thing.to or thing.text).replace("/search/", "/lookup/"))
    search.status, search.to, search.renamed = "moved", "web/src/lookup/", True
    files.commit("search becomes lookup")
    _change_manifests(files, things)
    for number in range(4):
        files.text[f"server/extra_{number}.py"] = f"def added_later_{number}(x):\n    return x\n"
        files.commit("work on something else")
    _settle(things, files)


def _rename(thing: Thing, words: tuple[str, str, str]) -> str:
    if thing.kind != "symbol":
        return snake(*words).upper()
    return snake(*words) if "_" in thing.text else camel(*words)


def _move(files: Files, thing: Thing, new: str) -> None:
    files.text[new] = files.text.pop(thing.to or thing.text) + "\n"
    thing.status, thing.to, thing.renamed = "moved", new, True


def _lose(things: list[Thing], text: str, files: Files) -> None:
    """What a removed file defined is gone with it."""
    for thing in things:
        words = thing.text.split(".")
        was_here = thing.kind in ("symbol", "constant") and thing.status == "present" and words[-1] in text
        if was_here and not any(words[-1] in other for other in files.text.values()):
            thing.status = "gone"


def _change_manifests(files: Files, things: list[Thing]) -> None:
    by_text = {at.text: at for at in things}
    files.text["package.json"] = files.text["package.json"].replace('    "seed_db": "node tools/seed.js",\n', "")
    files.text["package.json"] = files.text["package.json"].replace('    "left-pad": "1.0.0",\n', "")
    targets = files.text["Makefile"].split("release-notes:")[0]
    files.text["Makefile"] = targets + "notes:\n\t./tools/notes.sh\n"
    files.text["pyproject.toml"] = files.text["pyproject.toml"].replace('  "tabulate",\n', "")
    files.text["server/cli.py"] = files.text["server/cli.py"].replace('parser.add_argument("--only-stale")\n\n', "")
    for text in ("npm run seed_db", "make release-notes", "--only-stale"):
        by_text[text].status = "gone"
    files.commit("fewer scripts")


# How the script writes a definition.
FORMS = (
    r"def {0}\(", r"func {0}\(", r"func \(u \*\w+\) {0}\(", r"function {0}\(", r"class {0}\b", r"type {0}\b",
    r"const {0}\b", r"^{0} =", r"^  {0}\(value", r'"{0}"', r"^  {0}:",
)  # fmt: skip


def _settle(things: list[Thing], files: Files) -> None:
    """What went with the block of something else: the files have the last word, by the forms of the script."""
    everything = "\n".join(text for path, text in files.text.items() if not path.endswith(".md"))
    for thing in things:
        if thing.kind in ("symbol", "constant", "variable") and thing.status == "present":
            for word in thing.text.split("."):
                if not any(re.search(form.format(word), everything, re.MULTILINE) for form in FORMS):
                    thing.status = "gone"
        if thing.renamed and thing.kind != "path" and not re.search(rf"(?<![\w$]){thing.to}(?![\w$])", everything):
            thing.renamed = False  # what it became was taken out later
