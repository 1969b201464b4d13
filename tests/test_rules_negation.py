"""A rule must come out of the local extractor with the sign it went in with: a lost "not" is the opposite of a wish."""

import re
from datetime import UTC, datetime

import pytest

from memdir.extraction.find import MemoryRequest, find_requests
from memdir.records import Message

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
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
    ("Vergiss nicht, dass wir dienstags deployen.", "dienstags"),
    ("Bitte vergiss nie, dass der Kunde Windows 10 hat.", "Windows"),
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


def hear(text: str) -> tuple[MemoryRequest, ...]:
    said = [Message("assistant", BEFORE, id="a1"), Message("user", text, id="u1", at=NOW)]
    return find_requests(said, now=NOW)


@pytest.mark.parametrize(("text", "kept"), KEPT)
def test_a_negation_is_not_lost(text: str, kept: str) -> None:
    for wish in hear(text):
        assert wish.action == "save", f"{text!r} is no wish to forget"
        for part in (wish.body, wish.description, wish.title):
            assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@pytest.mark.parametrize(("text", "kept"), CONTRASTS)
def test_an_exception_or_a_contrast_is_not_lost(text: str, kept: str) -> None:
    (wish,) = hear(text)
    for part in (wish.body, wish.description):
        assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@pytest.mark.parametrize(("text", "kept"), ASKED)
def test_a_negation_behind_the_asking_is_heard(text: str, kept: str) -> None:
    (wish,) = hear(text)
    assert wish.is_explicit and wish.action == "save"
    assert re.search(kept, wish.body, re.IGNORECASE), f"{text!r} became {wish.body!r}"


def test_them_means_what_the_sentence_names_not_what_the_agent_said() -> None:
    assert "mocks" in " ".join(wish.body for wish in hear("I hate mocks, never use them."))


@pytest.mark.parametrize(("text", "word"), GAINED)
def test_not_to_forget_is_to_remember(text: str, word: str) -> None:
    for wish in hear(text):
        assert (wish.action, word in wish.body) == ("save", True)
        assert not _NEGATION.search(wish.body), f"{text!r} became {wish.body!r}"


def test_most_of_these_are_heard_at_all() -> None:
    heard = [text for text, _ in [*KEPT, *GAINED] if hear(text)]
    assert len(heard) >= 0.85 * (len(KEPT) + len(GAINED))
