"""What is checked of a draft before anything is written: its description and title, its parts, the name it gets.

Pure. Whether a name may be used at all is the guard's question, and whether the text is worth keeping `derivable`'s; a
file already on disk is never measured by any of this.
"""

import re
import unicodedata

from memdir import limits
from memdir.errors import FormatError
from memdir.frozen import compile_late, dataclass
from memdir.records import Kind
from memdir.text import fold

# --- filler ---
# Words that tell a reader of a description nothing, and how many telling ones are left without them.
#
# Three sets over six languages: stop words (grammar), type words (what the type already says) and empty words
# ("important
# info"). Negations, "always", "only", "before" and the like are not among them: they are often the whole point. It
# counts
# words; it does not judge what they mean.

_STOP = frozenset(
    # English
    "a an the this that these those some any such and or but nor so if then than as of to in on at by for from with "
    "into onto about over under between through per via is are was were be been being am has have had do does did "
    "will would shall should can could may might must it its he him his she her they them their we us our you your "
    "i me my mine who whom whose which what when where why how there here very quite also just too please regarding "
    "concerning etc e.g i.e "
    # German
    "der die das den dem des ein eine einen einem einer eines und oder aber als wie zu zum zur im in am an auf aus "
    "bei mit von vom für über um nach ist sind war waren sein wird werden hat haben hatte kann können soll sollen "
    "sollte muss müssen man er sie es ihr ihm ihn wir uns unser ich mich mein du dein was wer wo wann warum dass "
    "dies diese dieser dieses bitte sehr auch "
    # French
    "le la les un une des du de et ou mais que qui quoi dont où ce cet cette ces son sa ses leur leurs mon ma mes "
    "notre nos votre au aux en dans par pour sur avec est sont était être a ont avoir il elle ils elles on nous "
    "vous je tu se à y très aussi "
    # Spanish
    "el los las uno una unos unas y o pero que quien cual este esta estos estas ese esa su sus mi mis nuestro del "
    "al con por para sobre es son era ser está están estar ha han haber lo le se nos yo tú muy también ".split()
)
_TYPE = frozenset(
    "user users user's feedback project projects reference references benutzer benutzers benutzerin nutzer nutzers "
    "nutzerin anwender rückmeldung rückmeldungen projekt projekts projekte projektes referenz referenzen verweis "
    "verweise utilisateur utilisateurs utilisatrice retour retours projet projets référence références usuario "
    "usuarios usuaria comentario comentarios proyecto proyectos referencia referencias ".split()
)
_EMPTY = frozenset(
    # English
    "important importance info information informations stuff thing things something anything everything preference "
    "preferences note notes detail details context misc miscellaneous general generic various useful helpful key "
    "main basic good great nice best better fact facts memory memories reminder reminders remember remembering know "
    "knowing known save saved keep mind todo later future today now session conversation chat discussion decision "
    "decisions guideline guidelines rule rules tip tips random new worth say said says tell told like likes want "
    "wants prefer prefers preferred need needs codebase coding repo repository work working style practice "
    "practices way ways material knowledge insight insights learning learnings overview description item items "
    "other others more interesting relevant specific certain topics matter matters instruction instructions case "
    "cases opinion opinions idea ideas background team lesson lessons learned far meeting meetings week month "
    "collection hint hints several point points always remark remarks observation observations convention "
    "conventions process status update updates plan plans goal goals habit habits aspect aspects advice suggestion "
    "suggestions requirement requirements personal common current recent many few different kind sort right really "
    "usually people person someone group thought thoughts comment comments finding findings basics list lot lots "
    "bit part parts entry entries talked discussed learn "
    # German
    "wichtig wichtige wichtiges wichtiger wichtigen info infos information informationen notiz notizen hinweis "
    "hinweise sache sachen ding dinge etwas alles vorliebe vorlieben wunsch wünsche präferenz präferenzen detail "
    "details allgemein allgemeine allgemeines verschiedenes diverses sonstiges nützlich nützliche nützliches merken "
    "gemerkt wissen wissenswertes erinnern erinnerung erinnerungen kontext regel regeln gut gute gutes neu neue "
    "neues heute später stil arbeit arbeitsweise thema themen anmerkung anmerkungen bemerkung bemerkungen "
    "erkenntnis erkenntnisse gesammelt gesammelte beobachtung beobachtungen punkt punkte tipp tipps einige mehrere "
    "immer plan pläne ziel ziele gewohnheit gewohnheiten mag will möchte persönlich persönliche team stand ablauf "
    "besprechung "
    # French
    "important importante importants importantes information informations info infos note notes chose choses détail "
    "détails préférence préférences divers diverses général générale générales généraux utile utiles savoir retenir "
    "souvenir rappel rappels contexte règle règles bon bonne nouveau nouvelle style travail sujet sujets remarque "
    "remarques observation observations quelques plusieurs toujours point points conseil conseils habitude "
    "habitudes veut aime personnel personnelle personnelles équipe réunion plan plans objectif objectifs mémoire "
    "leçon leçons "
    # Spanish
    "importante importantes información informaciones dato datos nota notas cosa cosas algo detalle detalles "
    "preferencia preferencias varios varias general generales útil útiles saber recordar recuerdo recordatorio "
    "contexto regla reglas bueno buena nuevo nueva estilo trabajo tema temas observación observaciones algunas "
    "algunos siempre punto puntos consejo consejos hábito hábitos quiere gusta personal personales equipo reunión "
    "plan planes objetivo objetivos memoria lección lecciones ".split()
)
# Patterns are compiled at their first use: most runs describe nothing new.
_CJK_GRAMMAR = (
    "用户|使用者|反馈|項目|项目|参考|ユーザー|フィードバック|プロジェクト|参照|リファレンス|利用者|"
    "一些|这个|那个|关于|需要|应该|可以|我们|他们|的|了|是|在|和|与|或|及|也|把|被|对|"
    "について|ください|である|ための|からの|という|です|ます|する|した|して|から|まで|には|では|とは|への|"
    "[のをにがはでともへやかなね]"
)
_CJK_EMPTY = (
    "重要|信息|資訊|资讯|资料|資料|笔记|筆記|备注|備註|偏好|喜好|内容|事情|事项|东西|"
    "细节|记住|记忆|有用|各种|其他|说明|规则|习惯|情况|相关|要点|经验|"
    "情報|メモ|ノート|好み|こと|もの|大事|大切|覚え(?:て|ておく)?|おく|いろいろ|詳細|設定|ルール|記憶|その他|便利|知識|いくつか|注意点|関する|要点"
)
_CJK = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: no spaces between words either
_SPACED = rf"(?:(?![{_CJK}{_UNSPACED}])[^\W_])+"
_TOKEN = rf"[{_CJK}]+|[{_UNSPACED}]+|{_SPACED}(?:['.:-]{_SPACED})*"
_HAN = r"[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
_KATAKANA = r"[\u30a0-\u30ff\uff66-\uff9f]+"
_HIRAGANA = r"[\u3040-\u309f]+"
_ELIDED = r"^(?:[ldjmtsnc]|qu|jusqu|lorsqu|puisqu)'(?=\w)|'(?:s|re|ve|ll|m|d)$"


@dataclass(frozen=True, slots=True)
class WordCount:
    """Content words of a text, and how many of them are not empty."""

    words: int
    telling: int


def count_content(text: str) -> WordCount:
    """Without stop words and type words: how many different words remain, and how many of those say something."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    spaced: set[str] = set()
    words = telling = 0
    for token in re.findall(_TOKEN, folded):
        if re.match(rf"[{_CJK}]", token):
            rest = re.sub(_CJK_GRAMMAR, " ", token)
            said = re.sub(_CJK_EMPTY, " ", rest)
            words, telling = words + _count_cjk(rest), telling + _count_cjk(said)
        elif re.match(rf"[{_UNSPACED}]", token):
            many = max(1, len(token) // 4)
            words, telling = words + many, telling + many
        else:
            spaced.add(re.sub(_ELIDED, "", token))
    content = {word for word in spaced if word not in _STOP and word not in _TYPE}
    return WordCount(words + len(content), telling + sum(word not in _EMPTY for word in content))


def _count_cjk(text: str) -> int:
    """About how many words: two Han characters make one, a run of katakana is one, hiragana is mostly grammar."""
    han = sum((len(run) + 1) // 2 for run in re.findall(_HAN, text))
    return han + len(re.findall(_KATAKANA, text)) + sum(len(run) // 4 for run in re.findall(_HIRAGANA, text))


# --- drafts ---

WHY = "**Why:**"
HOW = "**How to apply:**"

_HINTS = {
    Kind.USER: 'say who the user is or what they know, as in "writes Go daily, new to React"',
    Kind.FEEDBACK: 'say what to do or to avoid, as in "no summary at the end of a reply"',
    Kind.PROJECT: 'say what is decided or due, as in "merge freeze from 2026-03-05 for the mobile release"',
    Kind.REFERENCE: 'say what is found where, as in "pipeline bugs are tracked in Linear, project INGEST"',
}
_HINT = "say in one line what recall should find it by: the subject and what is special about it"

# A part counts as there in bold, as a heading, or as a line that begins with the words and a colon.
_PART = (
    r"(?:^[ \t>]*#{{1,6}}[ \t]*[*_]*{words}\b|[*_]{{2}}[ \t]*{words}[ \t]*[:：?]?[ \t]*[*_]{{2}}|"
    r"^[ \t>*+-]*{words}[ \t]*[:：])"
)
_PARTS = {
    WHY: compile_late(_PART.format(words="why"), re.IGNORECASE | re.MULTILINE),
    HOW: compile_late(_PART.format(words=r"how[ \t]+to[ \t]+apply"), re.IGNORECASE | re.MULTILINE),
}
# The paragraph of a part as `compose_body` writes it: up to a blank line or the next bold word at the start of a line.
_PARAGRAPH = r"^{mark}.*(?:\n(?!\s*$|\*\*).*)*"

_DEVICES = compile_late(r"con|prn|aux|nul|(?:com|lpt)[1-9]")
# Letters and marks that show nothing (default-ignorable): a name must not hold what nobody can see.
_ENGLISH_ENDS = re.compile(r"(?<=\w)['’](?=(?:t|s|re|ve|ll|d|m)\b)")  # don't, it's: one word; l'air is two
_IGNORABLE = compile_late("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


def check_description(description: str, kind: Kind | None = None) -> None:
    """Refuse a description by which recall could not judge."""
    hint = _HINTS[kind] if kind is not None else _HINT
    _check_line(description, "description", limits.DESCRIPTION_CHARS, hint)
    count = count_content(description)
    if count.words < limits.DESCRIPTION_WORDS:
        few = f"fewer than {limits.DESCRIPTION_WORDS} words in it say what it is about"
        raise FormatError(f"the description is too vague: {few}", field="description", hint=hint)
    if not count.telling:
        raise FormatError("the description is too vague: it would fit any memory", field="description", hint=hint)


def check_title(title: str) -> None:
    """Refuse a title that is not one line of reasonable length."""
    _check_line(title, "title", limits.TITLE_CHARS, "a title is a few words on one line")


def find_missing_parts(kind: Kind, body: str) -> tuple[str, ...]:
    """Which of Why and How to apply a feedback or project body lacks."""
    if kind not in {Kind.FEEDBACK, Kind.PROJECT}:
        return ()
    return tuple(mark for mark, pattern in _PARTS.items() if not pattern.search(body))


def compose_body(body: str, why: str | None, how: str | None) -> str:
    """The body with its Why and How to apply: a paragraph that is there is replaced, one that is not is added."""
    if why and why.strip():
        body = _set_part(body, WHY, why.strip(), before=HOW)
    if how and how.strip():
        body = _set_part(body, HOW, how.strip(), before=None)
    return body


def make_slug(title: str) -> str:
    """A file name made from a title: small letters of any script, digits, `-` and `_`; never empty, never reserved."""
    lowered = _ENGLISH_ENDS.sub("", unicodedata.normalize("NFC", unicodedata.normalize("NFC", title).lower()))
    visible = "".join(char for char in lowered if not _IGNORABLE.match(char) and unicodedata.category(char) != "Cf")
    kept: list[str] = []
    for char in visible:
        kept.append(char if _is_kept(char, kept[-1] if kept else " ") else "-")
    slug = _cut(unicodedata.normalize("NFC", re.sub("-+", "-", "".join(kept)).strip("-")))
    if not any(char.isalnum() for char in slug):
        import hashlib  # here, because OpenSSL takes milliseconds to load and few titles have no letter

        return "memory-" + hashlib.sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-memory" if fold(slug) == "memory" or _DEVICES.fullmatch(fold(slug)) else slug


def _check_line(text: str, field: str, most: int, hint: str) -> None:
    if not text.strip():
        raise FormatError(f"the {field} is empty", field=field, hint=hint)
    if len(text.strip().splitlines()) > 1:
        raise FormatError(f"the {field} has more than one line", field=field, hint=hint)
    if len(text) > most:
        raise FormatError(f"the {field} has {len(text):,} characters, {most:,} are allowed", field=field, hint=hint)


def _set_part(body: str, mark: str, text: str, before: str | None) -> str:
    paragraph = f"{mark} {text}"
    there = _find_paragraph(body, mark)
    if there:
        return body[: there.start()] + paragraph + body[there.end() :]
    later = _find_paragraph(body, before) if before else None
    if later:
        return f"{body[: later.start()]}{paragraph}\n\n{body[later.start() :]}"
    return f"{body.rstrip()}\n\n{paragraph}\n" if body.strip() else f"{paragraph}\n"


def _find_paragraph(body: str, mark: str) -> re.Match[str] | None:
    return re.search(_PARAGRAPH.format(mark=re.escape(mark)), body, re.IGNORECASE | re.MULTILINE)


def _is_kept(char: str, before: str) -> bool:
    """Letters, decimal digits, `-`, `_`, and marks that sit on a letter."""
    category = unicodedata.category(char)
    if char in "-_" or category[0] == "L" or category == "Nd":
        return True
    return category in {"Mn", "Mc"} and unicodedata.category(before)[0] in "LM"


def _cut(slug: str) -> str:
    """At most what a name may hold, at a word where that keeps more than half, never between a letter and its marks."""
    end = min(len(slug), limits.NAME_CHARS)
    while len(slug[:end].encode("utf-8")) > limits.NAME_BYTES:
        end -= 1
    if end == len(slug):
        return slug
    while end and unicodedata.category(slug[end])[0] == "M":
        end -= 1
    word = max(slug.rfind(mark, 0, end + 1) for mark in "-_")
    return slug[: word if word > end // 2 else end].strip("-_")
