"""Words that tell a reader of a description nothing, and how many telling ones are left without them.

Three sets over six languages: stop words (grammar), type words (what the type already says) and empty words ("important
info"). Negations, "always", "only", "before" and the like are not among them: they are often the whole point. It counts
words; it does not judge what they mean.
"""

import re
import unicodedata

from memdir.frozen import dataclass

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
class Count:
    """Content words of a text, and how many of them are not empty."""

    words: int
    telling: int


def count_content(text: str) -> Count:
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
    return Count(words + len(content), telling + sum(word not in _EMPTY for word in content))


def _count_cjk(text: str) -> int:
    """About how many words: two Han characters make one, a run of katakana is one, hiragana is mostly grammar."""
    han = sum((len(run) + 1) // 2 for run in re.findall(_HAN, text))
    return han + len(re.findall(_KATAKANA, text)) + sum(len(run) // 4 for run in re.findall(_HIRAGANA, text))
