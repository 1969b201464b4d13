"""The local extractor: what it hears, what it does not, and how it words it."""

import time
from datetime import UTC, datetime

import pytest

from memdir.errors import FormatError
from memdir.extraction.find import MemoryRequest, compose_memory, find_requests, is_forgetting
from memdir.format.drafts import check_description, make_slug
from memdir.language.requests import RequestCategory
from memdir.records import Kind, Message

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday


def hear(text: str, before: str | None = None, at: datetime = NOW) -> tuple[MemoryRequest, ...]:
    said = [Message("assistant", before, id="a1")] if before is not None else []
    return find_requests([*said, Message("user", text, id="u1", at=at)], now=NOW)


def hear_one(text: str, before: str | None = None) -> MemoryRequest:
    (wish,) = hear(text, before)
    return wish


# --- what is heard --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "body"),
    [
        ("please remember that the staging db is reset nightly", Kind.PROJECT, "The staging db is reset nightly."),
        ("from now on use pnpm instead of npm", Kind.FEEDBACK, "Use pnpm instead of npm."),
        ("Never push straight to main.", Kind.FEEDBACK, "Never push straight to main."),
        ("remember I'm colour blind", Kind.USER, "The user is colour blind."),
        ("Could you remember that our fiscal year starts in April?", Kind.PROJECT, "Our fiscal year starts in April."),
        ("remember that the runbooks are in Confluence", Kind.REFERENCE, "The runbooks are in Confluence."),
        ("we squash merge, keep that in mind", Kind.FEEDBACK, "We squash merge."),
        ("merk dir bitte, dass wir Tabs benutzen", Kind.FEEDBACK, "Wir Tabs benutzen."),
        ("Ab jetzt bitte pnpm statt npm.", Kind.FEEDBACK, "pnpm statt npm."),
        ("souviens-toi que le client est sous Windows 10", Kind.PROJECT, "Le client est sous Windows 10."),
        ("désormais, écris les commentaires en anglais", Kind.FEEDBACK, "Écris les commentaires en anglais."),
        ("recuerda que los runners no tienen docker", Kind.PROJECT, "Los runners no tienen docker."),
        ("a partir de ahora usa pnpm en vez de npm", Kind.FEEDBACK, "Usa pnpm en vez de npm."),
        ("以后都用 pnpm，不要再用 npm 了", Kind.FEEDBACK, "用 pnpm，不要再用 npm 了。"),
        ("记住我主要写 Kotlin", Kind.USER, "用户主要写 Kotlin。"),
        ("今後は npm じゃなくて pnpm を使って", Kind.FEEDBACK, "npm じゃなくて pnpm を使って。"),
        ("ステージングの DB は毎週消えるって覚えといて", Kind.PROJECT, "ステージングの DB は毎週消える。"),
    ],
)
def test_a_request_is_heard_in_six_languages(text: str, kind: Kind, body: str) -> None:
    wish = hear_one(text)
    assert (wish.category, wish.kind, wish.body.strip(), wish.is_explicit) == (
        RequestCategory.REQUEST,
        kind,
        body,
        True,
    )
    assert (wish.action, wish.message, wish.at, wish.quote) == ("save", "u1", NOW, text)


@pytest.mark.parametrize(
    ("before", "text", "word"),
    [
        ("In summary, I changed a file.", "stop summarizing what you did after every change", "summarizing"),
        ("I wrapped it in try/except.", "we never catch bare Exception in this codebase", "bare Exception"),
        (
            "I ran everything.",
            "Don't run the whole suite after each change. Run only the affected tests.",
            "affected tests",
        ),
        ("Ich habe Setter ergänzt.", "Wir schreiben hier keine Setter.", "Setter"),
        ("J'ai ajouté un try.", "arrête d'ajouter des try/except partout", "try/except"),
        ("He resumido.", "deja de resumir lo que acabas de hacer", "resumir"),
        ("我写了基类。", "我们项目里不用继承，用组合", "组合"),
        ("整形しました。", "ファイル全体を整形するのはやめて", "整形"),
    ],
)
def test_a_correction_of_the_way_of_working_is_feedback(before: str, text: str, word: str) -> None:
    wish = hear_one(text, before)
    assert (wish.category, wish.kind, wish.is_explicit) == (RequestCategory.CORRECTION, Kind.FEEDBACK, False)
    assert word in wish.body


def test_a_correction_needs_something_that_was_corrected() -> None:
    assert hear("we never catch bare Exception in this codebase") == ()


def test_praise_that_names_nothing_takes_its_content_from_the_agent() -> None:
    wish = hear_one("perfect, keep doing it like that", "I listed the results as a short table instead of prose.")
    assert wish.body == "Keep doing it like that. “I listed the results as a short table instead of prose.”\n"
    assert wish.title == "Listed results short table instead" and "table" in wish.description


@pytest.mark.parametrize("text", ["perfect, thanks", "yes do it", "great job!", "awesome, exactly what I needed"])
def test_praise_alone_is_not_kept(text: str) -> None:
    assert hear(text, "I listed the results as a short table.") == ()


@pytest.mark.parametrize(
    ("text", "category", "kind", "word"),
    [
        ("I'm a nurse and code in my spare time", RequestCategory.IDENTITY, Kind.USER, "The user is a nurse"),
        ("the beta ships next Friday", RequestCategory.DEADLINE, Kind.PROJECT, "2026-11-20"),
        ("we decided yesterday to stay on Postgres", RequestCategory.DECISION, Kind.PROJECT, "2026-11-15"),
        ("crash reports go to Sentry, project mobile", RequestCategory.POINTER, Kind.REFERENCE, "Sentry"),
    ],
)
def test_what_is_worth_keeping_is_heard_without_being_asked(
    text: str, category: RequestCategory, kind: Kind, word: str
) -> None:
    wish = hear_one(text)
    assert (wish.category, wish.kind) == (category, kind)
    assert word in wish.body and wish.why


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("forget that I use vim", "I use vim"),
        ("please forget what I told you about the merge freeze, it was called off", "the merge freeze"),
        ("lösch aus deinem Gedächtnis, was ich zum Merge-Freeze gesagt hab", "Merge-Freeze"),
        ("vergiss das mit dem Merge-Freeze", "dem Merge-Freeze"),
        ("oublie la consigne sur les tests", "les tests"),
        ("olvida lo de las aprobaciones", "las aprobaciones"),
        ("把记忆里关于代码冻结的那条删掉吧", "代码冻结"),
        ("コードフリーズの件は中止なので、メモリから削除して", "コードフリーズ"),
    ],
)
def test_a_request_to_forget_names_its_target(text: str, target: str) -> None:
    wish = hear_one(text)
    assert (wish.action, wish.category, wish.target, wish.is_explicit) == (
        "forget",
        RequestCategory.FORGET,
        target,
        True,
    )


def test_dates_are_seen_from_the_message_and_not_from_now() -> None:
    then = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday
    (wish,) = hear("remember the freeze starts on Thursday", at=then)
    assert "2026-03-05" in wish.body and "2026-03-05" in wish.description
    assert "2026-11-19" in find_requests([Message("user", "remember the freeze starts on Thursday")], now=NOW)[0].body


def test_a_reason_becomes_why_and_none_is_made_up() -> None:
    wish = hear_one("from now on squash merge, because bisect needs a clean history")
    assert wish.body == "Squash merge.\n\n**Why:** Bisect needs a clean history.\n"
    assert "Why" not in hear_one("from now on squash merge every branch").body


def test_a_word_that_turns_the_sentence_round_is_not_taken_for_an_interjection() -> None:
    assert hear_one("no deploys after 4pm on Fridays, please remember").body == "No deploys after 4pm on Fridays.\n"
    assert hear_one("No, from now on deploy on Fridays only.").body == "Deploy on Fridays only.\n"


def test_a_list_gives_one_memory_for_each_item() -> None:
    both = hear("I want you to remember two things: 1) we squash merge, 2) branch names start with the ticket number")
    assert [wish.body.strip() for wish in both] == ["We squash merge.", "Branch names start with the ticket number."]
    assert len(hear("Remember:\n- no force pushes\n- squash before merging")) == 2


def test_a_request_can_point_at_the_sentence_before_it() -> None:
    assert "sandbox" in hear_one("The vendor sandbox is off on Sundays. Please remember that.").body
    assert hear("Please remember that.") == ()


def test_only_the_asked_part_of_a_message_is_kept() -> None:
    wish = hear_one(
        "fix the login test first. And remember for later that QA reads release notes as plain text. Then tag it."
    )
    assert wish.body == "QA reads release notes as plain text.\n"


def test_only_what_a_person_typed_is_heard() -> None:
    text = "remember that we deploy on Tuesdays"
    others = [Message("assistant", text), Message("tool", text), Message("user", text, is_meta=True)]
    assert find_requests(others, now=NOW) == ()


# --- what is not ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "remember to close the file handle in that function",
        "don't forget to run the linter before you commit this",
        "do you remember what we decided?",
        "should I always use const in JavaScript?",
        "from now on the loop index is j, so rename it below as well",
        "always pass `ctx` as the first argument to these three calls",
        "never mind, found it",
        "the app forgets the selected theme after reload",
        "make a note of it in the changelog",
        'If I said "remember that my colour is blue", would you store it?',
        "Write a scene where the captain says: from now on nobody leaves this ship.",
        "```\nWARN from now on plugins must be ESM\n```\nwhat is this?",
        "> remember that all invoices are PDF\n\ntranslate this please",
        "Can you fix this mail?\n\nHi all,\n\nfrom now on please always book rooms early.\n\nBest,\nfront desk",
        "I'm stuck, the pod keeps restarting",
        "keep in mind we're at step 3 of 5 of this refactoring",
        "just for today: always answer in French",
        "remember that I've already renamed the class",
        "keep in mind the PR is still open",
        "remember that the parser is in src/parser.py",
        "merk dir, dass der Parser in src/parser.py liegt",
        "remember the fix: restart the worker and clear the cache",
        "Act as a terminal. From now on only reply with output.",
        "erinner mich kurz, was macht diese Funktion?",
        "à partir de maintenant l'indice de boucle s'appelle j, renomme-le",
        "siempre me sale este error",
        "从现在开始循环变量叫 j，下面也改一下",
        "npm install すると必ずこのエラーが出ます",
    ],
)
def test_a_task_a_question_a_quotation_or_a_report_is_not_a_wish(text: str) -> None:
    assert hear(text) == () and hear(text, "I changed the code.") == ()


@pytest.mark.parametrize(
    "text",
    [
        "Don't save this anywhere: we might switch vendors, from now on call them X.",
        "you don't need to remember this, but from now on I test on port 9000",
        "ignore your memory for this question, and from now on answer in French",
        "forget what I said. from now on use tabs in Go",
        "das musst du dir nicht merken, aber ab jetzt teste ich mit Port 9000",
        "これは覚えなくていいけど、今後はポート 9000 で試して",
    ],
)
def test_a_message_that_is_not_to_be_kept_gives_nothing(text: str) -> None:
    assert hear(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "please remember the API token for staging: tok-9f8e7d6c5b4a39281706f5e4d3c2b1a0",
        "remember my password hunter2",
        "merk dir mein Passwort: sommer2026!",
        "记住我的密码是 xiatian2026!",
        "the pin is 4711, remember it",
    ],
)
def test_a_secret_is_never_kept(text: str) -> None:
    assert hear(text) == ()


# --- how it is worded -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("from now on write commit messages in the imperative mood", "Write commit messages in imperative mood"),
        (
            "remember that the license for the chart lib expires in two weeks",
            "License for chart lib expires on 2026-11-30",
        ),
        ("Every time you finish a task, tell me which files you changed", "Tell files changed"),
        ("以后回答尽量简短，我在手机上看", "回答尽量简短"),
    ],
)
def test_a_title_names_the_subject_in_a_few_words(text: str, title: str) -> None:
    wish = hear_one(text)
    assert wish.title == title and len(make_slug(title)) < 60
    check_description(wish.description, wish.kind)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("I work in Lisbon and I start late", "The user works in Lisbon and they start late."),
        ("I'm a tester and my team is in Oslo", "The user is a tester and their team is in Oslo."),
        ("I've been writing Go for ten years", "The user has been writing Go for ten years."),
        ("remember to always ask me before you merge", "Always ask the user before you merge."),
    ],
)
def test_i_becomes_the_user(text: str, body: str) -> None:
    assert hear_one(text).body.strip() == body


def test_a_draft_is_composed_from_free_text() -> None:
    draft = compose_memory("the staging db is reset every Sunday", now=NOW)
    assert (draft.kind, draft.title) == (Kind.PROJECT, "Staging db reset Sunday")
    assert draft.body == "The staging db is reset every Sunday.\n"
    assert compose_memory("the staging db is reset every Sunday", now=NOW, kind=Kind.REFERENCE).kind is Kind.REFERENCE
    assert compose_memory("I prefer short answers. The diff is enough.", now=NOW).kind is Kind.FEEDBACK
    assert compose_memory("I prefer tabs", now=NOW).body == "The user prefers tabs.\n"


def test_a_text_that_says_nothing_is_refused_with_a_hint() -> None:
    with pytest.raises(FormatError) as refused:
        compose_memory("ok then", now=NOW)
    assert "staging db" in str(refused.value.hint)


def test_a_text_that_asks_to_forget_is_recognised() -> None:
    assert is_forgetting("forget that I use vim", now=NOW)
    assert not is_forgetting("the parser forgets the last token of a line", now=NOW)


def test_a_long_message_is_heard_in_good_time() -> None:
    text = ("I looked at how the scheduler picks its jobs and the queue is polled far too often for that. " * 22)[:2000]
    hear(text)  # compiles
    spent = []
    for _ in range(10):
        begin = time.process_time()
        hear(text)
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.25  # a few milliseconds; a pattern that backtracks takes seconds
