"""`when:` in a file: what is read, written, refused, and who may set it."""

from pathlib import Path

from memdir.errors import FormatError
from memdir.format.frontmatter import parse_fields, set_fields
from memdir.format.when import check_when, read_when, render_when
from memdir.frozen import replace
from memdir.records import Draft, Enforce, Kind, Origin, Rewrite, Save, When
from memdir.store.files import FileStore

HEAD = "---\nname: push\ndescription: force pushes go to no shared branch\ntype: feedback\n"
BLOCK = """when:
  always: true
  paths:
    - "src/**/*.sql"
  commands: ["push.*--force"]
  content: 'SELECT \\*'
  enforce: ask
"""
WHEN = When(True, ("src/**/*.sql",), ("push.*--force",), ("SELECT \\*",), Enforce.ASK)


def test_every_form_of_yaml_is_read_and_the_written_one_without_a_yaml_library() -> None:
    assert parse_fields(f"{HEAD}{BLOCK}---\nbody\n").when == WHEN
    written = set_fields(f"{HEAD}---\nbody\n", {"when": render_when(WHEN)})
    assert parse_fields(written).when == WHEN and written.count("\n") == HEAD.count("\n") + 8
    assert set_fields(written, {"when": None}) == f"{HEAD}---\nbody\n"
    crlf = set_fields(f"{HEAD}---\nbody\n".replace("\n", "\r\n"), {"when": render_when(WHEN)})
    assert parse_fields(crlf).when == WHEN and "\n" not in crlf.replace("\r\n", "")


def test_other_fields_and_bytes_stay_when_it_changes() -> None:
    text = f"{HEAD}{BLOCK}other: kept # so\n---\nbody\n"
    changed = set_fields(text, {"when": render_when(When(commands=("rm -rf",)))})
    assert parse_fields(changed).when == When(commands=("rm -rf",))
    assert changed.startswith(HEAD) and changed.endswith("other: kept # so\n---\nbody\n")


def test_invalid_parts_are_dropped_on_read() -> None:
    rows: list[tuple[object, When]] = [
        ("yes", When()),
        ({"always": "maybe", "paths": ["a", "", "b\nc", 3, "x" * 300]}, When(paths=("a",))),
        ({"always": False}, When(always=False)),
        ({"always": "off"}, When(always=False)),
        ({"enforce": "deny"}, When()),
        ({"enforce": "shout", "commands": ["x"]}, When(commands=("x",))),
        ({"paths": [f"p{number}" for number in range(7)], "content": ["a", "b"]}, When(None, tuple(f"p{n}" for n in range(7)), (), ("a",))),
    ]  # fmt: skip
    assert [node for node, expected in rows if read_when(node) != expected] == []


def test_invalid_parts_are_refused_on_write() -> None:
    rows = [
        (When(paths=tuple(f"p{number}" for number in range(9))), "too many entries"),
        (When(paths=("/etc/passwd",)), "invalid glob"),
        (When(paths=("../x",)), "invalid glob"),
        (When(paths=("**/*",)), "invalid glob"),
        (When(commands=("(",)), "invalid regular expression"),
        (When(commands=(r"(a)\1",)), "invalid regular expression"),
        (When(content=("(?=x)y",)), "invalid regular expression"),
        (When(content=("x*",)), "matches every text"),
        (When(content=("a\nb",)), "invalid entry"),
        (When(content=("y" * 201,)), "invalid entry"),
        (When(paths=("src/**",), enforce=Enforce.ASK), "needs `commands`"),
    ]
    failing = []
    for when, words in rows:
        try:
            check_when(when)
            failing.append((when, "accepted"))
        except FormatError as error:
            failing += [] if words in str(error) else [(when, str(error))]
    assert failing == []


def test_only_a_person_sets_enforce_and_a_teams_when_does_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    for who in ("agent", "extractor", "dream", "import"):
        draft = Draft(Kind.FEEDBACK, who, "force pushes go to no shared branch", "Never.", when=WHEN)
        store.change([Save(draft)], verb="save", origin=Origin(who))
        assert store.read(who).header.when == replace(WHEN, enforce=None)
    store.change(
        [Save(Draft(Kind.FEEDBACK, "push", "force pushes go nowhere shared", "Never.", when=WHEN))], verb="save"
    )
    memory = store.read("push")
    store.change(
        [Rewrite("push", memory.text.replace("Never.", "Not."), memory.digest)], verb="edit", origin=Origin("agent")
    )
    assert store.read("push").header.when == WHEN
    (tmp_path / "memory" / "team").mkdir(parents=True)
    (tmp_path / "memory" / "team" / "x.md").write_text(f"{HEAD}{BLOCK}---\nbody\n", encoding="utf-8")
    assert store.read("team/x").header.when == When()
