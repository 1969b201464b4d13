"""The secret scanner: what it finds, what it lets pass, what it sees through, and that it never repeats a value."""

import base64
import json
import random
import string
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clihelp import Cli
from homes import make_environment, write
from loads import bench
from memdir.errors import SecretError, SettingsError
from memdir.records import Draft, Kind, Origin, Rewrite, Save, Scope
from memdir.store.contract import StoreBase
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.secrets import (
    AllowedValue,
    SecretFinding,
    SecretRule,
    find_secrets,
    holds_token,
    mask,
    open_finder,
    read_own_rules,
    read_rules,
    render_findings,
)
from secret_cases import find_others, read_cases, read_kinds, read_sentences, read_told
from tables import read_rows, table

ROWS = read_rows("store_secrets")
ALPHABET = string.ascii_letters + string.digits
PASSWORD = "Kestrel!" + "Fjord29"


def chance(count: int, alphabet: str = ALPHABET, seed: int = 7) -> str:
    random_ = random.Random(seed)
    return "".join(random_.choice(alphabet) for _ in range(count))


GITHUB = "gh" + "p_" + chance(36)
AWS = "AK" + "IA" + chance(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", seed=5)
ANTHROPIC = "sk-" + "ant-api03-" + chance(93, ALPHABET + "-_") + "AA"


def cut(text: str, size: int, between: str) -> str:
    return between.join(text[at : at + size] for at in range(0, len(text), size))


def rules_of(text: str) -> list[str]:
    return [at.rule for at in find_secrets(text)]


def test_public_leak_cases_are_found_and_clean_ones_pass() -> None:
    folder = bench("security", "secrets")
    cases = read_cases(folder)
    others = find_others(cases, folder)
    leaks = [case for case in cases if case.is_leak]
    clean = [case for case in cases if not case.is_leak and case.text not in others]
    assert len(leaks) > 250 and len(clean) > 350
    assert sum(bool(find_secrets(case.text)) for case in leaks) >= 0.97 * len(leaks)
    assert sum(bool(find_secrets(case.text)) for case in clean) <= 0.02 * len(clean)


def test_secrets_told_in_six_languages_are_found_and_masked_whole() -> None:
    rows = read_told()
    assert len(rows) == 100 and {row.lang for row in rows} == {"en", "de", "zh", "fr", "es", "ja"}
    for part in (rows, [row for row in rows if row.is_measured]):
        masked = [mask(row.text, find_secrets(row.text)) for row in part]
        whole = sum(all(value not in text for value in row.values) for row, text in zip(part, masked, strict=True))
        assert whole >= 0.9 * len(part)


def test_most_kinds_that_no_rule_was_written_for_are_found() -> None:
    rows = read_kinds()
    found = [row.rule for row in rows if row.is_leak and find_secrets(row.text)]
    assert sum(row.is_leak for row in rows) == 100 and len(found) >= 75
    assert [row.text for row in rows if not row.is_leak and find_secrets(row.text)] == []


def test_passwords_are_found_by_their_position_in_a_command_and_hashes_and_codes_by_their_form() -> None:
    """S10. The rows held apart were written after the rules, which were not changed for them: 16 of 36 before."""
    path = Path(__file__).parents[1] / "data" / "secret_positions.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = {True: [], False: []}  # type: dict[bool, list[str]]
    for row in rows:
        masked = mask(row["text"], find_secrets(row["text"]))
        if (row["value"] in masked) if row["secret"] else (masked != row["text"]):
            wrong[row["held"]].append(row["text"])
    assert wrong[False] == []
    assert len(wrong[True]) <= 16, "held apart: 21 of 36 found, 1 of 18 harmless ones flagged"


def test_ordinary_sentences_pass() -> None:
    sentences = read_sentences(bench("locomo_turns").parent)
    assert len(sentences) == 2_000
    assert sum(bool(find_secrets(text)) for text in sentences) <= 10


@table("text", ROWS["SPOKEN_OF"])
def test_speaking_of_secrets_is_no_secret(text: str) -> None:
    assert find_secrets(text) == ()


def test_a_finding_names_rule_and_place_and_never_the_value() -> None:
    text = f"first line\nthe bot uses {GITHUB} here\n\nand the password is {PASSWORD}.\n"
    first, second = find_secrets(text)
    assert (first.rule, first.line, text[first.start : first.end]) == ("github-token", 2, GITHUB)
    assert (second.rule, second.line, text[second.start : second.end]) == ("told-password", 4, PASSWORD)
    shown = repr((first, second)) + "".join(render_findings((first, second), place="the body"))
    assert GITHUB not in shown and PASSWORD not in shown
    assert "a GitHub token (github-token) in line 2 of the body" in shown


def test_of_two_rules_on_one_value_the_more_particular_one_speaks() -> None:
    assert rules_of(f"github_token = '{GITHUB}'") == ["github-token"]
    assert rules_of(f"Authorization: Bearer {ANTHROPIC}") == ["anthropic-key"]
    assert rules_of("https://hooks.slack.com/services/T0" + "ABCDEFGH/B0ABCDEFGH/" + chance(24)) == ["slack-webhook"]


def test_masking_leaves_the_rest_and_is_no_secret_itself() -> None:
    text = f"use {GITHUB}, then {AWS};\nthe password is {PASSWORD}\n"
    masked = mask(text, find_secrets(text))
    assert masked == (
        "use [masked: github-token], then [masked: aws-access-key];\nthe password is [masked: told-password]\n"
    )
    assert find_secrets(masked) == ()
    assert mask("nothing", ()) == "nothing"
    overlapping = (SecretFinding("b", "b", 2, 5), SecretFinding("a", "a", 0, 3))
    assert mask("abcdefg", overlapping) == "[masked: a]fg"


@table(
    "text rule",
    [
        ("DB_PASSWORD=" + PASSWORD, "assigned-password"),
        ('{"client_secret": "' + chance(40) + '"}', "assigned-secret"),
        ("amqp://svc:" + "tiger-Lantern-48@rabbit:5672/", "url-password"),
        ("curl -u admin:" + PASSWORD + " https://intern", "curl-password"),
        ("Authorization: Basic " + base64.b64encode(b"admin:hunter22").decode(), "auth-header"),
        ("send it with Bearer " + chance(32), "bearer-token"),
        ("--api-key " + chance(32), "assigned-secret"),
        ("<password>" + PASSWORD + "</password>", "assigned-password"),
        ("**Password:** `" + PASSWORD + "`", "assigned-password"),
        (
            "-----BEGIN RSA PRIVATE " + f"KEY-----\n{cut(chance(200), 64, chr(10))}\n-----END RSA PRIVATE KEY-----",
            "private-key",
        ),
        ("PuTTY-User-Key-" + "File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 1\n" + chance(60), "private-key"),
        ("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + chance(43), "jwt"),
        ("the printer's PIN is " + "824193", "told-pin"),
        ("密码是" + PASSWORD + ",五月以后没有换过。", "told-password"),
    ],
)
def test_each_place_where_secrets_stand_has_its_rule(text: str, rule: str) -> None:
    assert rule in rules_of(text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "zero width": lambda value: cut(value, 3, "\u200b"),
    "soft hyphens": lambda value: cut(value, 4, "\u00ad"),
    "word joiners": lambda value: "\u2060".join(value),
    "full width": lambda value: "".join(chr(ord(at) + 0xFEE0) for at in value),
    "base64": lambda value: base64.b64encode(f"token={value}\n".encode()).decode(),
    "base64 for addresses": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "percent": lambda value: "".join(f"%{ord(at):02x}" for at in value),
    "one percent sign": lambda value: value[:6] + f"%{ord(value[6]):02X}" + value[7:],
}


@pytest.mark.parametrize("value", [GITHUB, AWS, ANTHROPIC], ids=["github", "aws", "anthropic"])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguise_is_seen_through_and_masked_where_it_stands(value: str, disguise: str) -> None:
    hidden = DISGUISES[disguise](value)
    text = f"Before it.\nUse {hidden} for the deployment, nothing else.\nAfter it."
    found = find_secrets(text)
    assert len(found) == 1 and found[0].line == 2
    masked = mask(text, found)
    assert (
        hidden not in masked and masked.startswith("Before it.\nUse ") and masked.endswith("nothing else.\nAfter it.")
    )


def test_a_password_behind_base64_or_percent_is_found_too() -> None:
    assert rules_of(base64.b64encode(f"db: the password is {PASSWORD}".encode()).decode()) == ["told-password"]
    text = "https://intern/?password%3D" + PASSWORD
    assert find_secrets(text) and PASSWORD not in mask(text, find_secrets(text))


def test_own_rules_and_exceptions_count() -> None:
    rule = SecretRule("acme-token", "a token of our gateway", "acme_[0-9a-f]{10}", ("acme_",))
    assert [at.rule for at in find_secrets("use acme_0123456789 there", extra=(rule,))] == ["acme-token"]
    told = f"The demo's password is {PASSWORD}."
    assert find_secrets(told, allow=(AllowedValue("^Kestrel", "the public demo"),)) == ()
    assert find_secrets(told, allow=(AllowedValue("demo", "the public demo", on_line=True),)) == ()
    assert len(find_secrets(told, allow=(AllowedValue("^Kestrel", "another", rule="github-token"),))) == 1
    assert len(find_secrets(told, allow=(AllowedValue("demo", "only the value counts"),))) == 1


def test_own_rules_are_read_beside_the_config_file(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    assert open_finder(environment)("acme_0123456789") == ()
    write(
        environment.config_file.with_name("secrets.toml"),
        "[[rule]]\nid = 'acme-token'\npattern = 'acme_[0-9a-f]{10}'\nhints = ['ACME_']\nbits = 1\n\n"
        "[[allow]]\npattern = '0123'\nwhy = 'counted'\nrule = 'acme-token'\n",
    )
    assert open_finder(environment)("acme_0123456789") == ()
    assert [at.rule for at in open_finder(environment)("acme_abcdef4567")] == ["acme-token"]


@pytest.mark.parametrize("text", ROWS["a_wrong_file_of_own_rules_is_an_error_that_says_where"])
def test_a_wrong_file_of_own_rules_is_an_error_that_says_where(tmp_path: Path, text: str) -> None:
    path = write(tmp_path / "secrets.toml", text)
    with pytest.raises(SettingsError) as caught:
        read_own_rules(path)
    assert "secrets.toml" in str(caught.value) and caught.value.hint


def test_a_file_is_judged_by_shapes_alone() -> None:
    assert holds_token(f"x {GITHUB}") and holds_token("\u200b".join(AWS))
    assert not holds_token(f"the password is {PASSWORD}") and not holds_token("set AKIA and ghp_ tokens in the vault")


def draft(body: str, name: str = "team/deploy", title: str = "Deploys", kind: Kind = Kind.PROJECT) -> Draft:
    return Draft(kind, title, "How deploys of the shop are started", body, name)


@pytest.mark.parametrize(
    "make", [lambda path: FileStore(path / "memory"), lambda path: MemoryStore()], ids=["files", "ram"]
)
def test_a_secret_never_comes_into_what_a_team_shares(tmp_path: Path, make: Callable[[Path], StoreBase]) -> None:
    store = make(tmp_path)
    good = store.write(draft("Deploys start from main.\n"))
    bad = f"{good.text}\n{AWS}\n"
    tries: list[Callable[[], object]] = [
        lambda: store.write(draft(f"The bot signs in with {GITHUB}.\n"), expect=good.digest),
        lambda: store.write(draft("Deploys.", name="team/other", title=f"Password is {PASSWORD}")),
        lambda: store.write(draft("Deploys.", name=f"team/{GITHUB}")),
        lambda: store.edit("team/deploy", bad, expect=good.digest),
        lambda: store.change([Save(draft(f"Use {GITHUB}.", name="team/third"))], verb="dream"),
        lambda: store.change([Rewrite("team/deploy", bad, good.digest)], verb="dream"),
        lambda: store.write(draft(f"Use {GITHUB}.", name="Team/fourth")),
    ]
    for change in tries:
        with pytest.raises(SecretError) as caught:
            change()
        said = f"{caught.value!r} {caught.value} {caught.value.findings} {caught.value.hint}"
        assert caught.value.findings and "team memories cannot contain secrets" in said
        assert not any(value in said for value in (GITHUB, AWS, PASSWORD))
    assert store.read("team/deploy").digest == good.digest and len(store.changes()) == 1


def test_a_team_file_that_holds_one_already_can_still_be_mended(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    text = store.write(draft("Deploys start from main.\n")).text
    (store.root / "team" / "deploy.md").write_text(text + f"\n{GITHUB}\n", encoding="utf-8")
    held = store.read("team/deploy")
    longer = store.edit("team/deploy", f"{held.text}Another line.\n", expect=held.digest)
    assert GITHUB in longer.text
    with pytest.raises(SecretError):
        store.edit("team/deploy", f"{longer.text}{AWS}\n", expect=longer.digest)
    mended = store.edit("team/deploy", longer.text.replace(GITHUB, "(in the vault)"), expect=longer.digest)
    assert GITHUB not in mended.text and held.digest != mended.digest
    with pytest.raises(SecretError):
        store.restore("team/deploy")
    store.delete("team/deploy")


def test_private_memory_stays_the_persons_own_business(tmp_path: Path) -> None:
    for store in (FileStore(tmp_path / "memory"), MemoryStore(scope=Scope.USER)):
        kept = store.write(draft(f"The bot signs in with {GITHUB}.\n", name="deploy", kind=Kind.FEEDBACK))
        assert GITHUB in kept.text
    assert find_secrets(kept.text)


def test_save_and_edit_warn_and_name_no_value(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    saved = cli("save", "--type", "reference", "--name", "bot", "--description", "How the deploy bot signs in",
                "--body", f"It signs in so:\n{GITHUB}", "--json")  # fmt: skip
    assert saved.code == 0 and GITHUB not in saved.out + saved.err
    assert [at for at in saved.json["warnings"] if "(github-token) in line 2 of the body" in at]
    edited = cli("edit", "bot", "--body", f"The password is {PASSWORD}")
    assert edited.code == 0 and "(told-password) in line" in edited.err
    assert PASSWORD not in edited.out + edited.err
    quiet = cli("edit", "bot", "--body", "The password is in the vault")
    assert quiet.err == ""


def test_an_exception_of_the_persons_own_lets_a_team_save_pass(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    write(
        cli.home / ".config" / "memdir" / "secrets.toml",
        f"[[allow]]\npattern = '^{PASSWORD[:7]}'\nwhy = 'the public demo'\n",
    )
    arguments = ROWS["an_exception_of_the_persons_own_lets_a_team_save_pass"]
    assert cli(*arguments, "--body", f"The password is {PASSWORD}").code == 0
    assert cli(*arguments, "--body", f"The password is Nebel{PASSWORD}", "--replace").code == 1


def test_a_broken_file_of_own_rules_warns_in_private_and_stops_a_team_save(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    write(cli.home / ".config" / "memdir" / "secrets.toml", "[[rule]]\nid = 'x'\npattern = '('\n")
    arguments = ROWS["a_broken_file_of_own_rules_warns_in_private_and_stops_a_team_save"]
    private = cli(*arguments, "--name", "demo")
    assert private.code == 0 and "cannot check for secrets" in private.err
    assert "invalid regular expression" in cli(*arguments, "--name", "team/demo").refusal


def test_origins_are_not_searched_but_never_made_of_findings(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    with pytest.raises(SecretError):
        store.write(draft(f"Use {GITHUB}."), origin=Origin("extractor", "said so", "s1"))
    assert store.changes() == ()


ENDLESS = (
    *ROWS["rows_2"],
    *ROWS["rows"],
    *("a://b:ccc", "a://b:ccc@d ", "curl -u a:b1c2 ", "xoxb-", "AKC", "MMMMMMMMMMMMMMMMMMMMMMMM.", "PIN ", "\n", "//"),
    *("passphrase: aa bb ", "account a/ ", "//a:_authToken=", "密码是", "--key ", "the token is abcdefgh12345678 "),
    *("dp.pt.a.", "AP0aaaaaaaaaaaa", "0123456789abcdef0123456789abcdef-", "PuTTY-User-Key-File-2: x\n", "ｇｈｐ＿"),
    *("1/1234567890:", "bearer ", "<pass>x1", "hooks.slack.com/services/", "İ", "password: aB3$xY9z\n"),
    *(
        "sshpass ",
        "docker login ",
        "mysql -pa1b2c3 ",
        "redis-cli -a x1y2 ",
        "echo a ",
        "backup codes: a1b2 ",
        "$6$",
        "$2b$12$",
    ),
)


@pytest.mark.slow
@table("piece", ENDLESS)
def test_four_times_the_text_takes_no_more_than_a_few_times_as_long(piece: str) -> None:
    """Quadratic work would take sixteen times as long; linear work takes four times, and noise is given room."""

    def spend(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size]
        find_secrets(text)
        begin = time.process_time()
        find_secrets(text)
        return time.process_time() - begin

    small, large = 16_000, 64_000
    assert any(spend(large) < 9 * spend(small) + 0.02 for _ in range(12))  # once is enough: load only adds


@given(st.text(max_size=300))
def test_any_text_can_be_searched_and_masked(text: str) -> None:
    found = find_secrets(text)
    assert all(0 <= at.start < at.end <= len(text) and at.line >= 1 for at in found)
    assert [at.start for at in found] == sorted(at.start for at in found)
    mask(text, found)


NOISE = st.lists(
    st.sampled_from(["the key is ", "password: ", " und ", "\n", "\u200b", "“", "é", "密码是", "İ", "%20", " + "])
)


@given(NOISE, NOISE, st.sampled_from([GITHUB, AWS, ANTHROPIC]))
def test_a_token_is_found_and_masked_whatever_stands_around_it(before: list[str], after: list[str], value: str) -> None:
    text = "".join(before) + " " + value + " " + "".join(after)
    found = find_secrets(text)
    assert any(text[at.start : at.end] == value for at in found)
    assert value not in mask(text, found)


def test_what_is_said_of_a_finding_fits_into_a_log_line() -> None:
    said = json.dumps(render_findings(find_secrets(f"use {GITHUB}\n" * 3)))
    assert "\n" not in said and GITHUB not in said and said.count("github-token") == 3


def test_the_table_of_formats_is_complete_and_not_read_on_import() -> None:
    rules = read_rules()
    assert (len(rules), len({rule.id for rule in rules}), sum(rule.inside for rule in rules)) == (123, 116, 15)
    assert all(hint == hint.lower() for rule in rules for hint in rule.hints)
    code = "import sys, memdir.store.secrets; print('tomllib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "False\n"


FURTHER = [
    "a senha do banco é {}", "la parola chiave è {}", "het wachtwoord is {}", "hasło to {}", "пароль: {}", "비밀번호는 {}", "şifre {}",
    "db.example.org:5432:app:deploy:{}", "the vault password is {}",
]  # fmt: skip
ORDINARY = [
    "Senhas fortes são importantes.", "La parola chiave è semplicità.", "Het wachtwoord wordt maandelijks vervangen.",
    "Hasło musi mieć osiem znaków.", "Пароль меняется раз в месяц.", "비밀번호는 매달 바뀝니다.", "Şifre her ay değişir.",
    "The vault password rotates monthly.", "The job ran at 12:30:45:67.", "Use fc-cache to refresh the fonts; see phx_notes.",
    "The seed phrase words are kept on paper.",
]  # fmt: skip


def test_passwords_in_further_languages_and_files_are_found_and_ordinary_sentences_are_not() -> None:
    missed = [at for at in FURTHER if not find_secrets(at.format("Tr0ub4dor3x9"))]
    seed = "seed phrase: abandon ability able about above absent absorb abstract absurd abuse access accident"
    tokens = [
        "csk-" + "k7m2x9q4w8e5r1t6" * 3,
        "fc-" + "8f3a1c9e7b2d4f6a0c5e9d1b3f7a2c4e",
        "vercel_blob_rw_AbC123xYz9_Qw3rTy8uIoP1aSdF5gHjK2",
        "phx_" + "aB3dE6gH9jK2mN5pQ8sT1vW4" * 2,
    ]
    assert missed + [at for at in [seed, *tokens] if not find_secrets(f"It is {at}")] == []
    assert [at for at in ORDINARY if find_secrets(at)] == []
