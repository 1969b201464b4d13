"""Requests found by patterns: what is found, what is not, that it is kept as it was said, and no negation is lost."""

import re
import time
from datetime import UTC, datetime

import pytest

from memdir.errors import FormatError
from memdir.extraction.find import MemoryRequest, compose_memory, find_forgetting, find_requests, find_unwanted
from memdir.format.frontmatter import check_description, make_slug
from memdir.language.requests import RequestCategory
from memdir.records import Kind, Message
from tables import table

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday


def find_said(text: str, before: str | None = None, at: datetime = NOW) -> tuple[MemoryRequest, ...]:
    said = [Message("assistant", before, id="a1")] if before is not None else []
    return find_requests([*said, Message("user", text, id="u1", at=at)], now=NOW)


def find_one(text: str, before: str | None = None) -> MemoryRequest:
    (wish,) = find_said(text, before)
    return wish


@table(
    "text kind body",
    [
        ("please remember that the staging db is reset nightly", Kind.PROJECT, "the staging db is reset nightly"),
        ("from now on use pnpm instead of npm", Kind.FEEDBACK, "from now on use pnpm instead of npm"),
        ("Never push straight to main.", Kind.FEEDBACK, "Never push straight to main."),
        ("remember I'm colour blind", Kind.USER, "I'm colour blind"),
        ("Could you remember that our fiscal year starts in April?", Kind.PROJECT, "our fiscal year starts in April"),
        ("remember that the runbooks are in Confluence", Kind.REFERENCE, "the runbooks are in Confluence"),
        ("we squash merge, keep that in mind", Kind.FEEDBACK, "we squash merge"),
        ("remember that I prefer tabs", Kind.FEEDBACK, "I prefer tabs"),
        ("merk dir bitte, dass wir Tabs benutzen", Kind.FEEDBACK, "merk dir bitte, dass wir Tabs benutzen"),
        ("Ab jetzt bitte pnpm statt npm.", Kind.FEEDBACK, "Ab jetzt bitte pnpm statt npm."),
        ("souviens-toi que le client est sous Windows 10", Kind.PROJECT, "le client est sous Windows 10"),
        ("désormais, écris les commentaires en anglais", Kind.FEEDBACK, "désormais, écris les commentaires en anglais"),
        ("recuerda que los runners no tienen docker", Kind.PROJECT, "los runners no tienen docker"),
        ("a partir de ahora usa pnpm en vez de npm", Kind.FEEDBACK, "a partir de ahora usa pnpm en vez de npm"),
        ("以后都用 pnpm，不要再用 npm 了", Kind.FEEDBACK, "以后都用 pnpm，不要再用 npm 了"),
        ("记住我主要写 Kotlin", Kind.USER, "我主要写 Kotlin"),
        ("今後は npm じゃなくて pnpm を使って", Kind.FEEDBACK, "今後は npm じゃなくて pnpm を使って"),
        ("ステージングの DB は毎週消えるって覚えといて", Kind.PROJECT, "ステージングの DB は毎週消える"),
    ],
)
def test_a_request_is_heard_in_six_languages(text: str, kind: Kind, body: str) -> None:
    wish = find_one(text)
    assert (wish.kind, wish.body.strip(), wish.is_explicit) == (kind, body, True)
    assert (wish.action, wish.message, wish.at, wish.quote) == ("save", "u1", NOW, text)


@table(
    "text word",
    [
        ("stop summarizing what you did after every change", "summarizing"),
        ("we never catch bare Exception in this codebase", "bare Exception"),
        ("Don't summarise at the end of your answers, I can read the diff.", "I can read the diff"),
        ("I prefer small commits, one per logical change", "one per logical change"),
        ("keep the tests table-driven", "table-driven"),
        ("we deploy on Tuesdays only, because support is staffed then", "because support is staffed then"),
        ("Wir schreiben hier keine Setter.", "Setter"),
        ("arrête d'ajouter des try/except partout", "try/except"),
        ("deja de resumir lo que acabas de hacer", "resumir"),
        ("我们项目里不用继承，用组合", "组合"),
        ("ファイル全体を整形するのはやめて", "整形"),
    ],
)
def test_a_preference_or_a_convention_is_feedback_and_nobody_asked_for_it(text: str, word: str) -> None:
    wish = find_one(text)
    assert (wish.category, wish.kind, wish.is_explicit) == (RequestCategory.PREFERENCE, Kind.FEEDBACK, False)
    assert wish.body.strip() == text and word in wish.body


@table(
    "text",
    [
        "perfect, thanks",
        "yes do it",
        "great job!",
        "perfect, keep doing it like that",
        "nope, don't do that, use the real thing. every time",
        "no, never do that again",
        "always do that for bigger changes",
        "fais toujours comme ça",
        "以后继续保持",
    ],
)
def test_what_has_its_subject_in_another_message_is_not_kept(text: str) -> None:
    assert find_said(text, "I listed the results as a short table.") == ()


@table(
    "text",
    [
        "remember the list of open pull requests: #1, #2 and #3",
        "remember that I am terrible at writing tests",
        "remember that the PR is still open",
        "remember that the parser is in src/parser.py",
        "merk dir, dass ich schlecht im Testen bin und ich bin dumm",
        "retiens que je suis nul en tests",
    ],
)
def test_what_is_not_to_be_kept_is_declined_with_a_question(text: str) -> None:
    assert find_said(text) == () and find_unwanted(text)
    with pytest.raises(FormatError) as refused:
        compose_memory(text, now=NOW)
    assert "what was surprising" in str(refused.value.hint)


@table(
    "text category kind word",
    [
        ("I'm a nurse and code in my spare time", RequestCategory.IDENTITY, Kind.USER, "I'm a nurse"),
        ("the beta ships next Friday", RequestCategory.PLAN, Kind.PROJECT, "2026-11-20"),
        ("we decided yesterday to stay on Postgres", RequestCategory.FACT, Kind.PROJECT, "2026-11-15"),
        ("crash reports go to Sentry, project mobile", RequestCategory.POINTER, Kind.REFERENCE, "Sentry"),
        ("timeout has to be 30 seconds because the bank is slow", RequestCategory.FACT, Kind.PROJECT, "bank is slow"),
    ],
)
def test_what_is_worth_keeping_is_heard_without_being_asked(
    text: str, category: RequestCategory, kind: Kind, word: str
) -> None:
    wish = find_one(text)
    assert (wish.category, wish.kind) == (category, kind)
    assert word in wish.body and wish.why


@table(
    "text target",
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
    wish = find_one(text)
    assert (wish.action, wish.category, wish.target, wish.is_explicit) == (
        "forget",
        RequestCategory.FORGET,
        target,
        True,
    )


def test_dates_are_seen_from_the_message_and_not_from_now() -> None:
    then = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday
    (wish,) = find_said("remember the freeze starts on Thursday", at=then)
    assert "2026-03-05" in wish.body and "2026-03-05" in wish.description
    assert "2026-11-19" in find_requests([Message("user", "remember the freeze starts on Thursday")], now=NOW)[0].body


def test_a_reason_stays_with_what_it_is_the_reason_for() -> None:
    wish = find_one("from now on squash merge, because bisect needs a clean history")
    assert wish.body == "from now on squash merge, because bisect needs a clean history\n"
    both = find_one("Never use force push on shared branches. We lost a day of work to that once.")
    assert both.body.endswith("We lost a day of work to that once.\n")
    assert find_one("Never force push. Fix the login test now.").body == "Never force push.\n"


def test_a_word_that_turns_the_sentence_round_is_not_taken_for_an_interjection() -> None:
    assert find_one("no deploys after 4pm on Fridays, please remember").body == "no deploys after 4pm on Fridays\n"
    assert find_one("No, from now on deploy on Fridays only.").body == "from now on deploy on Fridays only.\n"


def test_a_list_gives_one_memory_for_each_item() -> None:
    both = find_said(
        "I want you to remember two things: 1) we squash merge, 2) branch names start with the ticket number"
    )
    assert [wish.body.strip() for wish in both] == ["we squash merge", "branch names start with the ticket number"]
    assert len(find_said("Remember:\n- no force pushes\n- squash before merging")) == 2


def test_a_request_can_point_at_the_sentence_before_it() -> None:
    assert "sandbox" in find_one("The vendor sandbox is off on Sundays. Please remember that.").body
    assert find_said("Please remember that.") == ()


def test_only_the_asked_part_of_a_message_is_kept() -> None:
    wish = find_one(
        "fix the login test first. And remember for later that QA reads release notes as plain text. Then tag it."
    )
    assert wish.body == "QA reads release notes as plain text.\n"


def test_only_what_a_person_typed_is_heard() -> None:
    text = "remember that we deploy on Tuesdays"
    others = [Message("assistant", text), Message("tool", text), Message("user", text, is_meta=True)]
    assert find_requests(others, now=NOW) == ()


@table(
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
    assert find_said(text) == () and find_said(text, "I changed the code.") == ()


@table(
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
    assert find_said(text) == ()


@table(
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
    assert find_said(text) == ()


@table(
    "text title",
    [
        ("please always write commit messages in the imperative", "Always write commit messages in imperative"),
        (
            "remember that the license for the chart lib expires in two weeks",
            "License for chart lib expires",
        ),
        ("Every time you finish a task, tell me which files you changed", "Tell files changed"),
        ("When in doubt favour compliance over nice code", "When in doubt favour compliance over nice code"),
        ("from now on no more than 80 columns in code", "No more than 80 columns in code"),
        ("以后回答尽量简短，我在手机上看", "回答尽量简短"),
    ],
)
def test_a_title_names_the_subject_in_a_few_words(text: str, title: str) -> None:
    wish = find_one(text)
    assert wish.title == title and len(make_slug(title)) < 60
    check_description(wish.description, wish.kind)


def test_a_draft_is_composed_from_free_text() -> None:
    draft = compose_memory("the staging db is reset every Sunday", now=NOW)
    assert (draft.kind, draft.title) == (Kind.PROJECT, "Staging db reset Sunday")
    assert draft.body == "the staging db is reset every Sunday\n"
    assert compose_memory("the staging db is reset every Sunday", now=NOW, kind=Kind.REFERENCE).kind is Kind.REFERENCE
    assert compose_memory("I prefer short answers. The diff is enough.", now=NOW).kind is Kind.FEEDBACK
    assert compose_memory("I prefer tabs", now=NOW).body == "I prefer tabs\n"
    assert compose_memory("I use vim; remember my leader key is comma", now=NOW).body.startswith("I use vim")
    assert compose_memory("please remember that we squash", now=NOW).body == "we squash\n"


def test_a_text_that_says_nothing_is_refused_with_a_hint() -> None:
    with pytest.raises(FormatError) as refused:
        compose_memory("ok then", now=NOW)
    assert "staging db" in str(refused.value.hint)


def test_a_text_that_asks_to_forget_is_recognised() -> None:
    assert find_forgetting("forget that I use vim", now=NOW)
    assert not find_forgetting("the parser forgets the last token of a line", now=NOW)


def test_a_long_message_is_heard_in_good_time() -> None:
    text = ("I looked at how the scheduler picks its jobs and the queue is polled far too often for that. " * 22)[:2000]
    find_said(text)  # compiles
    spent = []
    for _ in range(10):
        begin = time.process_time()
        find_said(text)
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.25  # a few milliseconds; a pattern that backtracks takes seconds


ANSWER = "I changed the loader and pushed it. Should I go on?"


@table(
    "text word",
    [
        ("one to keep: the invoices are numbered per country", "numbered"),
        ("Burn this into your memory: account 42 is the demo account", "demo account"),
        ("a fact that will come up again: the sensor sends Fahrenheit", "sensor"),
        ("be aware for all that follows that the mobile team works on the same branch", "same branch"),
        ("the vendor only ships on Mondays - that's worth remembering", "Mondays"),
        ("the vendor only ships on Mondays. You'll need that again.", "Mondays"),
        ("in every reply, put the answer on top", "on top"),
        ("as long as I'm your user, no emojis in commits", "no emojis"),
        ("when writing docs for us, use the second person", "second person"),
        ("your replies should never be longer than a screen", "screen"),
        ("treat warnings as errors whenever you build something for us, okay?", "warnings"),
        ("can we agree that you never touch the vendor folder?", "vendor folder"),
        ("looks good but never use lodash again", "lodash"),
    ],
)
def test_a_wish_is_heard_in_words_that_no_list_has(text: str, word: str) -> None:
    (wish,) = find_said(text)
    assert word in wish.body and wish.is_explicit


@table(
    "text body",
    [
        (
            "Fix the login bug and from now on run the auth tests before pushing.",
            "from now on run the auth tests before pushing.\n",
        ),
        ("push it and remember we never push on Fridays", "we never push on Fridays\n"),
        (
            "rename it please and from now on use kebab-case for file names",
            "from now on use kebab-case for file names\n",
        ),
    ],
)
def test_a_wish_behind_a_task_is_heard_without_a_comma_and_without_the_task(text: str, body: str) -> None:
    (wish,) = find_said(text)
    assert wish.body == body


@table(
    "text word",
    [
        ("generated code is never edited by hand", "by hand"),
        ("we say customers not users, it's a thing with our CEO", "customers"),
        ("nothing user-visible goes in without a feature flag", "feature flag"),
        ("I like my commits small", "small"),
    ],
)
def test_a_way_of_working_is_heard_after_an_answer(text: str, word: str) -> None:
    (wish,) = find_said(text, ANSWER)
    assert wish.kind is Kind.FEEDBACK and word in wish.body


@table(
    "text",
    [
        "please remember the scroll position when the user comes back to the list",
        "remove the prints in every file",
        "replace it in all files",
        "hide the sidebar by default",
        "always show the newest first in the list",
        "nothing is logged without debug",
        "if something fails, log it and go on",
        "dates are never shown in the list",
        "we keep losing the connection",
        "it works but always shows a warning",
        "hold on, don't merge until CI is green",
        "I'd rather you didn't start the migration before I'm back",
        "for the next hour answer only with code",
        "that's good to know. I've been trying to distract my fish",
        "Wow, thank you so much for all of your recommendations!",
        "I prefer routes with minimal traffic and nice scenery.",
        "make this sound nicer: please always lock the door",
        "save this to config.yaml: timeout is 30",
        "I keep seeing the same thing again and again: a timeout",
        "the certificate expired last night, renewing now",
        "Deadline: tomorrow",
    ],
)
def test_what_only_looks_like_a_wish_is_not_heard(text: str) -> None:
    assert find_said(text) == () and find_said(text, ANSWER) == ()


@table(
    "text kind",
    [
        ("both teams share one database", Kind.PROJECT),
        ("test accounts start with 99", Kind.PROJECT),
        ("support closes at 5pm", Kind.PROJECT),
        ("we don't support IE11 any more", Kind.PROJECT),
        ("every invoice needs a VAT number", Kind.PROJECT),
        ("the Jira export takes an hour", Kind.PROJECT),
        ("my client uses Windows 7", Kind.PROJECT),
        ("I never want to see lodash", Kind.FEEDBACK),
        ("you should run the linter before committing", Kind.FEEDBACK),
        ("less text, more code", Kind.FEEDBACK),
        ("my PRs need a changelog entry", Kind.FEEDBACK),
        ("I like to be called Sam", Kind.USER),
        ("English isn't my first language", Kind.USER),
        ("I'm vegan", Kind.USER),
        ("we use Linear for tickets", Kind.REFERENCE),
        ("ask in #data when the model is unclear", Kind.REFERENCE),
    ],
)
def test_the_type_follows_what_is_said_and_not_a_word_in_it(text: str, kind: Kind) -> None:
    (wish,) = find_said(f"remember that {text}")
    assert wish.kind is kind


def test_a_chinese_pointer_needs_no_space_before_the_name() -> None:
    (wish,) = find_said("线上报警都在飞书的值班群里")
    assert wish.kind is Kind.REFERENCE


@table(
    "text",
    [
        "no, don't use npm here, we use pnpm",
        "don't use npm, use pnpm instead",
        "please don't apologize so much",
        'when I say "ship it" I mean open a PR',
        "we say customers not users, it's a thing with our CEO",
    ],
)
def test_a_short_correction_is_kept_as_it_was_said(text: str) -> None:
    (wish,) = find_said(text, ANSWER)
    assert (wish.kind, wish.body.strip()) == (Kind.FEEDBACK, text.removeprefix("no, "))


@table(
    "text",
    [
        "don't use a loop there, use a comprehension instead",
        "don't run the tests now, we do that later",
        "don't apologize for that",
        "can you remember what the error was?",
        "if I click the button I want a dialog",
    ],
)
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert find_said(text, ANSWER) == ()


def test_a_question_that_asks_to_remember_is_a_request() -> None:
    assert find_one("can you remember that I prefer tabs?").body == "I prefer tabs\n"


BEFORE = "I have pushed the change straight to main and added a summary."

# What was said, and what the saved body must still say.
KEPT = [
    # English
    ("Never push straight to main.", r"never"),
    ("I instruct you to never push straight to main.", r"never"),
    ("I want you to never amend published commits.", r"never"),
    ("I'd like you to not use emoji in commit messages from now on.", r"\bnot?\b|never|don't"),
    ("You must never touch the generated files.", r"never"),
    ("You should never run migrations on production.", r"never"),
    ("Please never use wildcard imports.", r"never"),
    ("please don't ever force-push", r"don't|never"),
    ("From now on don't add summaries at the end.", r"don't|no\b|never"),
    ("From now on, do not mock the database in tests.", r"not"),
    ("From now on you no longer need to ask before running tests.", r"no longer"),
    ("Remember that we do not use Docker on the runners.", r"not"),
    ("Remember that nobody may deploy on Fridays.", r"nobody"),
    ("remember: no emoji in commit messages", r"\bno\b"),
    ("Remember to never commit directly to the release branch.", r"never"),
    ("Remember not to edit the lock file by hand.", r"\bnot\b"),
    ("Please remember never to squash merge commits.", r"never"),
    ("Remember that the API can't handle more than 50 rows.", r"can't"),
    ("Remember that the staging database isn't backed up.", r"isn't"),
    ("Keep in mind that there is no VPN at the customer's site.", r"\bno\b"),
    ("From now on write commit messages without a scope.", r"without"),
    ("Stop adding docstrings to private functions, always.", r"stop|no\b|don't|never"),
    ("I never want you to use mocks for the database.", r"never"),
    ("Under no circumstances delete the fixtures folder, remember that.", r"no circumstances|never"),
    ("As a rule, don't touch vendored code.", r"don't|never|not"),
    ("In this project we never use default exports.", r"never"),
    ("Going forward, avoid abbreviations in variable names.", r"avoid"),
    ("no, don't use fixtures for that, never", r"don't|never"),
    # German
    ("Bitte nie direkt auf main pushen.", r"\bnie\b"),
    ("Bitte niemals Passwörter in Logs schreiben.", r"niemals"),
    ("Merk dir bitte, dass wir keine Emojis in Commits benutzen.", r"keine"),
    ("Ab jetzt bitte keine Zusammenfassungen mehr am Ende.", r"keine"),
    ("Ab sofort nicht mehr auf main pushen.", r"nicht"),
    ("Merk dir, dass die Testumgebung nicht gesichert wird.", r"nicht"),
    ("Denk daran, nie ohne Review zu mergen.", r"\bnie\b.*ohne|ohne"),
    ("Du sollst nie generierte Dateien anfassen.", r"\bnie\b"),
    ("Von nun an Commits ohne Scope schreiben.", r"ohne"),
    # French
    ("Ne pousse jamais directement sur main.", r"jamais"),
    ("Souviens-toi que nous n'utilisons pas Docker.", r"\bpas\b"),
    ("Désormais, n'ajoute plus de résumé à la fin.", r"\bplus\b"),
    ("Retiens que personne ne déploie le vendredi.", r"personne"),
    ("À partir de maintenant, n'utilise pas d'emoji dans les commits.", r"\bpas\b"),
    ("Dorénavant écris les messages de commit sans scope.", r"\bsans\b"),
    ("S'il te plaît, ne modifie jamais les fichiers générés.", r"jamais"),
    # Spanish
    ("Nunca hagas push directamente a main.", r"nunca"),
    ("Recuerda que no usamos Docker en los runners.", r"\bno\b"),
    ("A partir de ahora no añadas resúmenes al final.", r"\bno\b"),
    ("Recuerda que nadie despliega los viernes.", r"nadie"),
    ("De ahora en adelante escribe los commits sin emoji.", r"\bsin\b"),
    ("Por favor, nunca edites los archivos generados.", r"nunca"),
    # Chinese
    ("以后不要直接推送到 main。", r"不"),
    ("记住我们不用 Docker。", r"不用"),
    ("从现在起别再写总结了。", r"别"),
    ("请记住测试环境没有备份。", r"没有"),
    ("永远不要修改生成的文件。", r"不要"),
    # Japanese
    ("今後は main に直接プッシュしないでください。", r"ない"),
    ("コミットメッセージに絵文字は使わないって覚えておいて。", r"ない"),
    ("これからは要約を最後に付けないで。", r"ない"),
    ("ステージングはバックアップされていないと覚えておいて。", r"ない"),
]

# An exception or a contrast at the end: a short title may leave it out, the rest may not.
CONTRASTS = [
    ("Always run the linter, except on generated files.", r"except"),
    ("From now on use tabs, not spaces.", r"\bnot\b"),
    ("Ab jetzt bitte Tabs, keine Leerzeichen.", r"keine"),
    ("Toujours lancer les tests, sauf pour le code généré.", r"sauf"),
    ("Siempre ejecuta las pruebas, excepto en código generado.", r"excepto"),
    ("以后都用 pnpm，不要再用 npm 了", r"不要"),
    ("今後は npm じゃなくて pnpm を使って", r"じゃなくて"),
]

# Asked for in so many words, with the negation right behind the asking: none of them may be passed over.
ASKED = [
    ("remember to not use yarn in this repository", r"\bnot\b|never|don't"),
    ("remember to avoid yarn in this repository", r"avoid"),
    ("Can you remember not to use tabs in YAML files?", r"\bnot\b|never|don't"),
    ("don't forget to never use yarn here", r"never"),
    ("don't forget that we don't use yarn", r"don't"),
    ("Denk dran: nicht auf main pushen.", r"nicht"),
    ("Vergiss nicht, nie auf main zu pushen.", r"\bnie\b"),
    ("Rappelle-toi de ne jamais pousser sur main.", r"jamais"),
    ("N'oublie pas de ne jamais pousser sur main.", r"jamais"),
    ("Recuerda no usar emoji en los commits.", r"\bno\b"),
    ("Recuerda nunca hacer push a main.", r"nunca"),
    ("No te olvides de que no usamos Docker.", r"\bno\b"),
    ("不要忘记我们不用 yarn。", r"不用"),
    ("yarn を使わないことを忘れないで。", r"使わない"),
]

# A "not" that belongs to the asking, and so may not come into what is kept.
GAINED = [
    ("Don't forget that the freeze starts on Monday mornings.", "freeze"),
    ("don't forget: we deploy on Tuesdays only", "Tuesdays"),
    ("Never forget that the customer is on Windows 10.", "Windows"),
    ("Please don't forget to run the linter before every commit.", "linter"),
    ("N'oublie pas que nous déployons le mardi.", "mardi"),
    ("N'oublie jamais que le client est sous Windows 10.", "Windows"),
    ("No olvides que desplegamos los martes.", "martes"),
    ("No olvides nunca que el cliente usa Windows 10.", "Windows"),
    ("别忘了我们周二部署。", "部署"),
    ("不要忘记客户用的是 Windows 10。", "Windows"),
    ("うちは火曜日にデプロイすることを忘れないで。", "デプロイ"),
]
_NEGATION = re.compile(
    r"\b(?:not|never|don't|no|nicht|nie|niemals|kein\w*|ne|n'|pas|jamais|nunca)\b|不要|别|忘|ない", re.IGNORECASE
)


@table("text kept", KEPT)
def test_a_negation_is_not_lost(text: str, kept: str) -> None:
    for wish in find_said(text, BEFORE):
        assert wish.action == "save", f"{text!r} is no wish to forget"
        for part in (wish.body, wish.description, wish.title):
            assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@table("text kept", CONTRASTS)
def test_an_exception_or_a_contrast_is_not_lost(text: str, kept: str) -> None:
    (wish,) = find_said(text, BEFORE)
    for part in (wish.body, wish.description):
        assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@table("text kept", ASKED)
def test_a_negation_behind_the_asking_is_heard(text: str, kept: str) -> None:
    (wish,) = find_said(text, BEFORE)
    assert wish.is_explicit and wish.action == "save"
    assert re.search(kept, wish.body, re.IGNORECASE), f"{text!r} became {wish.body!r}"


def test_them_means_what_the_sentence_names_not_what_the_agent_said() -> None:
    assert "mocks" in " ".join(wish.body for wish in find_said("I hate mocks, never use them.", BEFORE))


@table("text word", GAINED)
def test_not_to_forget_is_to_remember(text: str, word: str) -> None:
    for wish in find_said(text, BEFORE):
        assert (wish.action, word in wish.body) == ("save", True)
        assert not _NEGATION.search(wish.body), f"{text!r} became {wish.body!r}"


def test_most_of_these_are_heard_at_all() -> None:
    heard = [text for text, _ in [*KEPT, *GAINED] if find_said(text, BEFORE)]
    assert len(heard) >= 0.85 * (len(KEPT) + len(GAINED))
