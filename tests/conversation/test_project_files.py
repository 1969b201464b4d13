"""Instruction files: the pure parts, and loads of real files in real repositories."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homes import git, make_environment, make_repository, write
from memdir.conversation.includes import (
    expand_braces,
    find_mentions,
    holds_secret,
    looks_secret,
    match_any,
    parse_rule,
    split_blocks,
    strip_comments,
)
from memdir.conversation.project_files import (
    InstructionLayer,
    LoadedFiles,
    NotLoadedReason,
    ask_approval,
    decode_text,
    find_approved,
    load_for_reads,
    load_project_files,
    render_files,
)
from memdir.limits import GLOB_PATTERNS, INCLUDE_ASKS, INSTRUCTION_CHARS
from memdir.project.paths import read_paths
from memdir.project.settings import Environment
from memdir.records import InboxState
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from tables import read_rows, table

ROWS = read_rows("project_files")


class World:
    """A home, a managed folder and a repository in it."""

    def __init__(self, tmp_path: Path, **variables: str) -> None:
        self.environment: Environment = make_environment(tmp_path, **variables)
        self.home = self.environment.home
        self.claude = self.environment.claude_home
        self.managed = self.environment.managed_dir
        self.project = make_repository(self.home / "work" / "app")
        self.cwd = self.project

    def put(self, path: str, text: str) -> Path:
        return write(self.project / path, text)

    def load(self, *allowed: Path, cwd: Path | None = None) -> LoadedFiles:
        here = cwd or self.cwd
        _, places = read_paths(self.environment, here)
        return load_project_files(self.environment, places, here, approved=allowed.__contains__)

    def read(self, *files: str, cwd: Path | None = None) -> LoadedFiles:
        """What reading these files adds."""
        here = cwd or self.cwd
        _, places = read_paths(self.environment, here)
        start = load_project_files(self.environment, places, here)
        return load_for_reads(self.environment, places, here, [Path(file) for file in files], start)

    def names(self, loaded: LoadedFiles) -> list[str]:
        """The loaded files, as seen from the temporary folder."""
        return [os.path.relpath(file.path, self.home.parent.parent) for file in loaded.files]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def refused(loaded: LoadedFiles) -> dict[str, NotLoadedReason]:
    return {Path(refusal.path).name: refusal.reason for refusal in loaded.refusals}


@table("text left", ROWS["block_comments_go_and_everything_else_stays"])
def test_block_comments_go_and_everything_else_stays(text: str, left: str) -> None:
    assert strip_comments(text) == left


@given(st.text(alphabet="ab@`~<!->\n \t-*1.", max_size=200))
def test_the_pieces_put_together_are_the_text(text: str) -> None:
    assert "".join(piece for piece, _ in split_blocks(text)) == text
    find_mentions(text)


@table("text found", ROWS["mentions_are_found_outside_code"])
def test_mentions_are_found_outside_code(text: str, found: list[str]) -> None:
    assert [mention[-1] for mention in find_mentions(text)] == found


@table("pattern path fits", ROWS["patterns_match_as_people_expect"])
def test_patterns_match_as_people_expect(pattern: str, path: str, fits: bool) -> None:
    assert (match_any((pattern,), path) is not None) is fits


def test_braces_are_expanded_in_order_and_within_a_budget() -> None:
    assert expand_braces(["src/**/*.{ts,tsx}", "{a,{b,c}}/x", "{plain}", "{open,"]) == (
        *("src/**/*.ts", "src/**/*.tsx", "a/x", "b/x", "c/x", "{plain}", "{open,"),
    )
    assert expand_braces(["{a,b}" * 12, "kept"]) == ("kept",)
    assert len(expand_braces(["x"] * 5_000)) == GLOB_PATTERNS
    assert expand_braces(["x" * 5_000]) == ()


def test_a_pattern_made_to_be_slow_is_not() -> None:
    assert match_any(("*a" * 400 + "b",), "a" * 4_000) is None
    assert match_any(("**/a/" * 150 + "b",), "a/" * 1_900 + "c") is None


@table("head paths", ROWS["the_paths_of_a_rule_are_read_in_every_form"])
def test_the_paths_of_a_rule_are_read_in_every_form(head: str, paths: tuple[str, ...]) -> None:
    rule = parse_rule(f"---\n{head}---\n# Rule\n")
    assert (rule.paths, rule.body) == (tuple(paths), "# Rule\n")


def test_a_rule_without_a_closed_head_is_all_body() -> None:
    for text in ("# plain\n", "---\npaths: a\nno end\n", "", "---"):
        assert parse_rule(text).body == text and parse_rule(text).paths == ()
    long = "---\npaths:\n" + "".join(f"  - d{number}/*\n" for number in range(100)) + "---\nbody\n"
    assert len(parse_rule(long).paths) == 100


SECRET_PATHS = """
/home/me/.ssh/id_rsa /home/me/.ssh/config /p/id_ed25519 /p/deploy_rsa /home/me/.aws/credentials /home/me/.kube/config
/p/.env /p/.env.local /p/prod.env /p/.envrc /home/me/.netrc /home/me/.pgpass /home/me/.npmrc /p/server.pem /p/tls.key
/p/a.p12 /p/a.pfx /p/a.jks /p/keys.kdbx /home/me/.git-credentials /etc/shadow /p/credentials.json /p/token.txt
/p/api_key.txt /p/api-keys.yaml /p/service-account.json /p/secrets.yml /p/client_secret.json /home/me/.bash_history
/home/me/.config/gh/hosts.yml /home/me/.docker/config.json /run/secrets/db /p/terraform.tfstate /p/prod.tfvars
/home/me/.gnupg/x /home/me/.claude/.credentials.json /home/me/.claude.json /P/ID_RSA /p/x/../.ssh/y /p/password /p/x.asc
/home/me/.local/share/keyrings/login.keyring /home/me/.codex/auth.json
""".split()
PLAIN_PATHS = """
/p/CLAUDE.md /p/docs/tokens.md /p/src/token.py /p/.env.example /p/docs/secrets-policy.md /p/tokenizer.json /p/README
/p/gh/readme.md /p/package.json /p/keyboard.md /p/docs/ssh.md /p/monkey.txt /p/.github/x.yml /p/history.md
/p/passport.txt /p/op/notes.md /p/secrets.yaml.example
""".split()


def test_secrets_are_known_by_their_paths() -> None:
    assert [path for path in SECRET_PATHS if not looks_secret(path)] == []
    assert [path for path in PLAIN_PATHS if looks_secret(path)] == []


def test_secrets_are_known_by_their_text() -> None:
    letters = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    fence = "-----BEGIN {}PRIVATE KEY-----"
    for text in (
        f"{fence.format('RSA ')}\nshort\n",
        f"notes\n\n{fence.format('')}\n{letters}\n",
        f"{fence.format('RSA ')}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\n{letters}\n",
        f"x {fence.format('OPENSSH ')}\\n{letters}",
        "PuTTY-User-Key-File-2: ssh-rsa\n",
        "key: " + "AKIA" + "ABCDEFGHIJKLMNOP",
        "use " + "ghp_" + "a1B2" * 9,
        "sk-" + "ant-" + "a1b2c3d4e5f6g7h8i9j0",
    ):
        assert holds_secret(text), text
    for text in (
        f"A key starts with `{fence.format('')}` and is kept elsewhere.\n",
        "-----BEGIN CERTIFICATE-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n",
        "set AKIA and ghp_ tokens in the vault\n",
    ):
        assert not holds_secret(text), text


def test_text_is_known_by_its_bytes() -> None:
    assert decode_text("\ufeffhé\r\n".encode()) == "hé\n"
    assert decode_text(b"a\0b") is None and decode_text(bytes(range(128, 256)) * 4) is None
    assert decode_text(("Gr\u00fc\u00dfe aus dem Norden, " * 20).encode("latin-1")) is None
    assert decode_text(b"x" * 1_000 + "ü".encode("latin-1")) == "x" * 1_000 + "\ufffd"


def test_all_files_are_loaded_from_the_widest_to_the_nearest(world: World) -> None:
    write(world.managed / "CLAUDE.md", "managed")
    write(world.claude / "CLAUDE.md", "user")
    write(world.claude / "rules" / "b.md", "user rule")
    write(world.claude / "rules" / "a" / "z.md", "user rule below")
    write(world.home / "work" / "CLAUDE.md", "above")
    for folder in ("", "pkg/"):
        for name in ("CLAUDE.local.md", ".claude/rules/r.md", ".claude/CLAUDE.md", "CLAUDE.md"):
            world.put(folder + name, folder + name)
    world.put("AGENTS.md", "not for Claude Code")
    world.put(".claude/rules/skip.txt", "no rule")
    loaded = world.load(cwd=world.project / "pkg")
    assert world.names(loaded) == ROWS["all_files_are_loaded_from_the_widest_to_the_nearest"]
    assert loaded.refusals == () and loaded.pending == ()
    layers = [file.layer for file in loaded.files]
    assert layers[:5] == [
        InstructionLayer.MANAGED,
        InstructionLayer.USER,
        InstructionLayer.USER_RULE,
        InstructionLayer.USER_RULE,
        InstructionLayer.ABOVE,
    ]
    assert (
        layers[5:9]
        == layers[9:]
        == [InstructionLayer.PROJECT, InstructionLayer.PROJECT, InstructionLayer.RULE, InstructionLayer.LOCAL]
    )


def test_the_rendering_names_each_file_and_is_the_same_every_time(world: World) -> None:
    world.put("CLAUDE.md", "<!-- for people -->\nUse tabs. @more.md\n")
    world.put("more.md", "And no semicolons.\u202e\n")
    text = render_files(world.load())
    assert text == (
        f"Contents of {world.project}/CLAUDE.md (from the project, shared with everybody who works on it):\n\n"
        "Use tabs. @more.md\n\n"
        f"Contents of {world.project}/more.md (from the project, shared with everybody who works on it; included by "
        f"{world.project}/CLAUDE.md):\n\nAnd no semicolons.\\u202e\n"
    )
    assert render_files(world.load()) == text


def test_a_long_file_is_flagged_and_loaded_and_a_huge_one_is_refused(world: World) -> None:
    world.put("CLAUDE.md", "x" * INSTRUCTION_CHARS)
    world.put("CLAUDE.local.md", "ü" * (INSTRUCTION_CHARS + 1))
    world.put(".claude/CLAUDE.md", "y" * 10_000_000)
    loaded = world.load()
    assert [(file.is_oversize, len(file.text)) for file in loaded.files] == [
        (False, INSTRUCTION_CHARS),
        (True, INSTRUCTION_CHARS + 1),
    ]
    assert [(at.path, at.reason) for at in loaded.refusals] == [
        (str(world.project / ".claude" / "CLAUDE.md"), NotLoadedReason.TOO_LARGE)
    ]


def test_the_switch_of_claude_code_switches_all_off(tmp_path: Path) -> None:
    world = World(tmp_path, CLAUDE_CODE_DISABLE_CLAUDE_MDS="1")
    world.put("CLAUDE.md", "x")
    assert world.load() == LoadedFiles(disabled="CLAUDE_CODE_DISABLE_CLAUDE_MDS")
    assert world.read("a.ts").disabled


def test_exclusions_of_all_settings_count_together(world: World) -> None:
    for name in ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/a.md", "CLAUDE.local.md"):
        world.put(name, name)
    write(world.home / "work" / "CLAUDE.md", "above")
    write(world.managed / "managed-settings.json", '{"claudeMdExcludes": ["**/work/app/CLAUDE.md"]}')
    write(world.claude / "settings.json", '{"claudeMdExcludes": ["~/work/CLAUDE.md", 7, "CLAUDE.local.md"]}')
    world.put(".claude/settings.json", '{"claudeMdExcludes": ["**/.claude/{CLAUDE,other}.md"]}')
    world.put(".claude/settings.local.json", f'{{"claudeMdExcludes": ["{world.project}/.claude/rules/**"]}}')
    loaded = world.load()
    assert world.names(loaded) == ["home/me/work/app/CLAUDE.local.md"]
    assert {refusal.reason for refusal in loaded.refusals} == {NotLoadedReason.EXCLUDED} and len(loaded.refusals) == 4


def test_nobody_excludes_the_managed_file_and_a_clone_not_the_persons_own(world: World) -> None:
    write(world.managed / "CLAUDE.md", "managed")
    write(world.claude / "CLAUDE.md", "user")
    world.put("CLAUDE.md", "project")
    world.put(".claude/settings.json", '{"claudeMdExcludes": ["**/*.md"]}')
    assert world.names(world.load()) == ["policy/CLAUDE.md", "home/me/.claude/CLAUDE.md"]
    write(world.claude / "settings.json", '{"claudeMdExcludes": ["**/*.md"]}')
    assert world.names(world.load()) == ["policy/CLAUDE.md"]


def test_a_worktree_inside_its_repository_skips_what_the_outer_one_checks_in(world: World) -> None:
    for name in ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules/r.md"):
        world.put(name, name)
    git(world.project, "add", "-A")
    git(world.project, "commit", "-q", "-m", "instructions")
    world.put("CLAUDE.local.md", "mine")
    write(world.home / "work" / "CLAUDE.md", "above the repository")
    inside, beside = world.project / ".claude" / "worktrees" / "w", world.home / "work" / "beside"
    git(world.project, "worktree", "add", "-q", str(inside))
    git(world.project, "worktree", "add", "-q", str(beside))
    loaded = world.load(cwd=inside)
    start = "home/me/work/app/.claude/worktrees/w"
    assert world.names(loaded) == [
        "home/me/work/CLAUDE.md",
        "home/me/work/app/CLAUDE.local.md",
        f"{start}/CLAUDE.md",
        f"{start}/.claude/CLAUDE.md",
        f"{start}/.claude/rules/r.md",
    ]
    assert [refusal.reason for refusal in loaded.refusals] == [NotLoadedReason.WORKTREE] * 3
    assert world.names(world.load(cwd=beside))[1] == "home/me/work/beside/CLAUDE.md"
    assert world.load(cwd=beside).refusals == ()


def test_a_folder_that_only_claims_to_be_a_worktree_skips_nothing(world: World) -> None:
    world.put("CLAUDE.md", "outer")
    world.put("vendor/.git", f"gitdir: {world.project}/.git/worktrees/none\n")
    world.put("vendor/CLAUDE.md", "inner")
    assert len(world.load(cwd=world.project / "vendor").files) == 2


def test_a_rule_for_some_files_waits_until_one_is_read(world: World) -> None:
    world.put(".claude/rules/ts.md", "---\npaths:\n  - src/**/*.ts\n---\nNo any. @more.md\n")
    world.put(".claude/rules/more.md", "---\npaths: never/*\n---\nmore\n")
    write(world.claude / "rules" / "py.md", "---\npaths: '**/*.py'\n---\nType it.\n")
    start = world.load()
    assert start.files == ()
    assert [(Path(at.path).name, at.paths) for at in start.pending] == [
        ("py.md", ("**/*.py",)),
        ("more.md", ("never/*",)),
        ("ts.md", ("src/**/*.ts",)),
    ]
    assert world.read("src/a.py", "readme.txt").files[0].text == "Type it.\n"
    added = world.read("src/x/a.ts")
    assert [Path(file.path).name for file in added.files] == ["ts.md", "more.md"]
    assert added.files[0].text == "No any. @more.md\n" and "src/**/*.ts" in added.files[0].why
    assert world.read("a.ts").files == () == world.read(str(world.home / "src" / "a.ts")).files


def test_reading_a_file_below_adds_the_instructions_on_the_way_to_it(world: World) -> None:
    world.put("CLAUDE.md", "top")
    world.put("pkg/CLAUDE.md", "pkg")
    world.put("pkg/sub/CLAUDE.local.md", "sub")
    world.put("pkg/.claude/rules/a.md", "---\npaths: 'sub/*.c'\n---\nC rule\n")
    world.put("other/CLAUDE.md", "other")
    assert [file.text for file in world.read("pkg/sub/x.c").files] == ["pkg", "sub", "C rule\n"]
    assert [file.text for file in world.read("pkg/x.c").files] == ["pkg"]
    assert world.read("x.c").files == ()


def test_includes_follow_their_file_and_come_before_the_next_one(world: World) -> None:
    world.put("CLAUDE.md", "@docs/a.md and @b.md")
    world.put("docs/a.md", "@c.md")
    world.put("docs/c.md", "@../b.md")
    world.put("b.md", "b")
    world.put("CLAUDE.local.md", "@b.md local")
    loaded = world.load()
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md", "a.md", "c.md", "b.md", "CLAUDE.local.md"]
    assert [file.depth for file in loaded.files] == [0, 1, 2, 1, 0]
    assert loaded.files[2].by == str(world.project / "docs" / "a.md") and loaded.refusals == ()


def test_five_deep_is_loaded_and_the_sixth_is_refused(world: World) -> None:
    world.put("CLAUDE.md", "@f1.md")
    for number in range(1, 8):
        world.put(f"f{number}.md", f"@f{number + 1}.md")
    loaded = world.load()
    assert [file.depth for file in loaded.files] == [0, 1, 2, 3, 4, 5]
    assert refused(loaded) == {"f6.md": NotLoadedReason.TOO_DEEP}


def test_a_file_named_near_and_far_is_loaded_near(world: World) -> None:
    world.put("CLAUDE.md", "@f1.md @f5.md")
    for number in range(1, 8):
        world.put(f"f{number}.md", f"@f{number + 1}.md")
    loaded = world.load()
    assert {Path(file.path).name: file.depth for file in loaded.files}["f7.md"] == 3
    assert refused(loaded) == {"f8.md": NotLoadedReason.MISSING}


def test_cycles_are_cut_and_said(world: World) -> None:
    world.put("CLAUDE.md", "@a.md @CLAUDE.md")
    world.put("a.md", "@b.md")
    world.put("b.md", "@a.md @./CLAUDE.md @b.md")
    loaded = world.load()
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md", "a.md", "b.md"]
    assert refused(loaded) == dict.fromkeys(("CLAUDE.md", "a.md", "b.md"), NotLoadedReason.CYCLE)


@pytest.mark.slow
def test_two_hundred_includes_each_of_two_hundred_end_within_the_budget(world: World) -> None:
    names = [f"f{number}.md" for number in range(200)]
    world.put("CLAUDE.md", " ".join(f"@{name}" for name in names))
    for name in names:
        world.put(name, " ".join(f"@{other}" for other in names))
    loaded = world.load()
    assert len(loaded.files) == 201 and NotLoadedReason.TOO_MANY in refused(loaded).values()
    for number, name in enumerate(names):
        world.put(name, " ".join(f"@deep/{number}-{at}.md" for at in range(200)))
        for at in range(200 if number < 3 else 0):
            world.put(f"deep/{number}-{at}.md", "x")
    assert len(world.load().files) <= 500


@pytest.mark.slow
def test_the_bytes_of_a_load_are_bounded(world: World) -> None:
    world.put("CLAUDE.md", " ".join(f"@big{number}.md" for number in range(10)))
    for number in range(10):
        world.put(f"big{number}.md", "x" * 1_000_000)
    loaded = world.load()
    assert len(loaded.files) == 5 and list(refused(loaded).values()) == [NotLoadedReason.TOO_MANY] * 6


def test_what_no_text_file_is_is_refused_by_its_reason(world: World) -> None:
    (world.project / "folder.md").mkdir()
    (world.project / "blob.md").write_bytes(b"\0\1\2")
    (world.project / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    os.mkfifo(world.project / "pipe.md")
    world.put("huge.md", "x" * 2_000_000)
    os.symlink("loop.md", world.project / "loop.md")
    names = ["folder.md", "blob.md", "image.png", "pipe.md", "huge.md", "loop.md", "none.md", "nobody"]
    world.put("CLAUDE.md", " ".join(f"@{name}" for name in names) + " @/dev/zero @/proc/self/environ @/sys/power/state")
    loaded = world.load()
    assert refused(loaded) == {
        "folder.md": NotLoadedReason.FOLDER,
        "blob.md": NotLoadedReason.NOT_TEXT,
        "image.png": NotLoadedReason.NOT_TEXT,
        "pipe.md": NotLoadedReason.SPECIAL,
        "huge.md": NotLoadedReason.TOO_LARGE,
        "loop.md": NotLoadedReason.UNREADABLE,
        "none.md": NotLoadedReason.MISSING,
        "zero": NotLoadedReason.SPECIAL,
        "environ": NotLoadedReason.SPECIAL,
        "state": NotLoadedReason.SPECIAL,
    }
    assert all(refusal.by == str(world.project / "CLAUDE.md") for refusal in loaded.refusals)


def test_punctuation_after_a_path_is_not_part_of_it_unless_it_is(world: World) -> None:
    world.put("a.md", "a")
    world.put("b.md.", "b")
    world.put("CLAUDE.md", "See @a.md. And *@b.md.* or @b.md., once.")
    assert [Path(file.path).name for file in world.load().files] == ["CLAUDE.md", "a.md"]
    world.put("c", "c")
    world.put("CLAUDE.md", "See @c, please.")
    assert [file.text for file in world.load().files][1:] == ["c"]


def test_outside_the_project_a_person_must_approve_each_file(world: World) -> None:
    notes = write(world.home / "notes.txt", "@more.txt notes")
    more = write(world.home / "more.txt", "more")
    os.symlink(notes, world.project / "linked.txt")
    world.put("CLAUDE.md", "@~/notes.txt @../../notes.txt @linked.txt @/nowhere/x.md")
    loaded = world.load()
    assert len(loaded.files) == 1 and refused(loaded)["x.md"] is NotLoadedReason.MISSING
    assert {refusal.real for refusal in loaded.asks} == {str(notes)}
    loaded = world.load(notes)
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md", "notes.txt"]
    assert [refusal.real for refusal in loaded.asks] == [str(more)]
    assert len(world.load(notes, more).files) == 3


def test_a_linked_instruction_file_is_judged_by_where_it_leads(world: World) -> None:
    outside = write(world.home / "notes.md", "outside")
    world.put("AGENTS.md", "inside")
    os.symlink("AGENTS.md", world.project / "CLAUDE.md")
    os.symlink(outside, world.project / "CLAUDE.local.md")
    loaded = world.load()
    assert [(file.path, file.real) for file in loaded.files] == [
        (str(world.project / "CLAUDE.md"), str(world.project / "AGENTS.md"))
    ]
    assert [refusal.real for refusal in loaded.asks] == [str(outside)]
    assert len(world.load(outside).files) == 2


def test_a_linked_folder_of_rules_is_read_once_it_is_approved(world: World) -> None:
    shared = world.home / "shared-rules"
    write(shared / "a.md", "rule a")
    write(shared / "deep" / "b.md", "---\npaths: '*.c'\n---\nrule b")
    (world.project / ".claude").mkdir()
    os.symlink(shared, world.project / ".claude" / "rules")
    loaded = world.load()
    assert loaded.files == () == loaded.pending and [at.real for at in loaded.asks] == [str(shared)]
    loaded = world.load(shared)
    assert [file.text for file in loaded.files] == ["rule a"] and len(loaded.pending) == 1
    _, places = read_paths(world.environment, world.cwd)
    added = load_for_reads(world.environment, places, world.cwd, [Path("x.c")], loaded)
    assert [file.text for file in added.files] == ["rule b"]


def test_a_persons_own_file_includes_what_it_likes_but_no_secrets(world: World) -> None:
    write(world.claude / "CLAUDE.md", "@~/notes/a.md @~/.ssh/config @/etc/hostname.d/none.md")
    write(world.home / "notes" / "a.md", "@b.md @~/work/c.md")
    write(world.home / "notes" / "b.md", "b")
    write(world.home / "work" / "c.md", "c")
    write(world.home / ".ssh" / "config", "Host x")
    loaded = world.load()
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md", "a.md", "b.md"]
    assert refused(loaded) == {
        "config": NotLoadedReason.SECRET,
        "none.md": NotLoadedReason.MISSING,
        "c.md": NotLoadedReason.OUTSIDE,
    }


def test_a_home_kept_in_git_is_no_project_that_opens_all_of_it(world: World) -> None:
    git(world.home, "init", "-q")
    write(world.home / "private.txt", "x")
    download = world.home / "downloads" / "thing"
    write(download / "CLAUDE.md", "@~/private.txt @own.md")
    write(download / "own.md", "own")
    loaded = world.load(cwd=download)
    assert [Path(file.path).name for file in loaded.files] == ["CLAUDE.md", "own.md"] and len(loaded.asks) == 1


def test_asking_waits_in_the_inbox_once_and_the_answer_counts(world: World) -> None:
    notes = write(world.home / "notes.txt", "notes")
    world.put("CLAUDE.md", "@~/notes.txt")
    store = FileStore(world.home / "memory" / "dir")
    assert find_approved(store)(notes) is False
    items = ask_approval(store, world.load().asks, utc_now())
    assert [item.key for item in items] == [f"include:{notes}"] and str(notes) in items[0].title
    assert ask_approval(store, world.load().asks, utc_now()) == items
    store.inbox_decide(items[0].id, InboxState.REJECTED)
    assert ask_approval(store, world.load().asks, utc_now()) == () and find_approved(store)(notes) is False
    store.inbox_decide(items[0].id, InboxState.APPROVED)
    _, places = read_paths(world.environment, world.cwd)
    loaded = load_project_files(world.environment, places, world.cwd, approved=find_approved(store))
    assert [file.text for file in loaded.files] == ["@~/notes.txt", "notes"]


def test_a_clone_does_not_fill_the_inbox(world: World) -> None:
    for number in range(100):
        write(world.home / "many" / f"{number}.md", "x")
    world.put("CLAUDE.md", " ".join(f"@~/many/{number}.md" for number in range(100)))
    store = FileStore(world.home / "memory" / "dir")
    assert len(ask_approval(store, world.load().asks, utc_now())) == INCLUDE_ASKS
