"""A message as sentences, with what stands in quotes or code hidden from the rules but not from the memory.

`hidden` has the same length as `text`, so that a place in one is a place in the other.
"""

import re
from collections.abc import Iterator

from memdir.frozen import dataclass

# --- sentences ---

_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»|「[^」\n]{1,300}」|"
    r"『[^』\n]{1,300}』|"
    r"《[^》\n]{1,300}》|‘[^’\n]{1,80}’|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_END = re.compile(
    r"(?!(?<=\d\.)\s+(?:[a-zäöüß]|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|"
    r"Dez))(?<=[.!?…])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bz\.B\.)(?<!\bca\.)(?<!\bp\.ej\.)(?<!\ba"
    r"pprox\.)[\"'”’)»]*\s+|"
    r"(?<=[。！？])[」』”]*\s*|\s*\n\s*"
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_ITEMS = re.compile(r"(?:^|(?<=[\s,;:]))(?:\(?\d{1,2}\)|\d{1,2}[.])\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; `begins` says that it opens a line, `bullet` that the line is an item of a list."""

    text: str
    hidden: str
    begins: bool = False
    bullet: bool = False


def split_sentences(text: str) -> list[Sentence]:
    return list(_split(_smooth(text)))


def split_items(text: str) -> list[str]:
    """The parts of "1) this, 2) that"; a text without such numbers is one part."""
    parts = [part.strip(" ,;") for part in _ITEMS.split(text)]
    parts = [part for part in parts if part]
    return parts if len(_ITEMS.findall(text)) > 1 else [text]


def _smooth(text: str) -> str:
    return text.replace("\u2019", "'").replace("\u02bc", "'").replace("\xa0", " ").replace("\u202f", " ")


def _split(text: str) -> Iterator[Sentence]:
    masked = _QUOTED.sub(lambda found: found[0][0] + "§" * (len(found[0]) - 2) + found[0][-1], text)
    place, begins = 0, True
    for stop in [*_END.finditer(masked), None]:
        end = stop.start() if stop else len(masked)
        part, hidden = text[place:end], masked[place:end]
        bullet = _BULLET.match(part) if begins else None
        if bullet:
            part, hidden = part[bullet.end() :], hidden[bullet.end() :]
        lead = len(part) - len(part.lstrip())
        part, hidden = part[lead:].rstrip(), hidden[lead:].rstrip()
        if part:
            yield Sentence(part, hidden, begins, bullet is not None)
        place = stop.end() if stop else len(masked)
        begins = bool(stop and "\n" in stop[0])


# --- frames ---
# Words that carry no claim: grammar, and what a memory is framed with ("the user prefers", "when", "always").
#
# One table over four languages whose words stand apart, patterns for Chinese and Japanese. They are left out when a
# sentence is compared with what somebody said: a model adds them, and an attacker gains nothing by them.

SMALL = frozenset(
    # English
    "a an the this that these those some any such and or but nor so if then than as of to in on at by for from with "
    "into onto about over under between through per via is are was were be been being am has have had having do does "
    "did done doing will would shall should can could may might must it its he him his she her hers they them "
    "their we "
    "us our ours you your yours i me my mine who whom whose which what when where why how there here very quite also "
    "just too please s t re ve ll d m all each every both own same other another one ones more most much many only "
    "still yet again now later always never not no none dont doesnt isnt wont cant user users person people agent "
    "assistant model prefer prefers preferred preference preferences want wants wanted like likes liked wish wishes "
    "ask asks asked asking request requested requests require requires required expect expects need needs "
    "needed said "
    "says say tell tells told mention mentioned state stated remember rule rules note notes memory keep make makes "
    "made making use uses used using get gets let lets go going know apply applies whenever while during "
    "before after "
    "until because since due reason thing things way explicitly generally sure instead rather well even etc eg ie "
    "without within out up down off himself herself themselves project team "
    # German
    "der die das den dem des ein eine einen einem einer eines und oder aber als wie zu zum zur im am an auf "
    "aus bei mit "
    "von vom für über um nach ist sind war waren sein wird werden wurde hat haben hatte kann können soll "
    "sollen sollte "
    "muss müssen man er sie es ihr ihm ihn ihre ihrer seine seinen wir uns unser unsere unseren ich mich mir "
    "mein meine "
    "meinen du dich dir dein deine was wer wo wann warum dass dies diese dieser dieses diesen bitte sehr auch "
    "nur noch "
    "immer nie niemals nicht kein keine keinen ohne statt wenn weil damit denn doch schon so hier dort alle "
    "alles jeder "
    "jede jedes nutzer nutzerin benutzer benutzerin anwender person agent möchte will wünscht bevorzugt mag "
    "bittet gesagt "
    "sagt merken merke regel nutzen verwenden verwendet benutzen machen macht gilt anwenden grund ab sofort "
    "künftig vor "
    "durch gegen bis sich einfach lieber bleiben bleibt projekt "
    # French
    "le la les un une des du de et ou mais que qui quoi dont où ce cet cette ces son sa ses leur leurs mon ma "
    "mes notre "
    "nos votre vos au aux en dans par pour sur avec est sont était être a ont avoir il elle ils elles on nous "
    "vous je tu "
    "se me te moi toi à y très aussi ne pas plus jamais toujours sans si quand car parce afin chaque tout tous toute "
    "toutes l d j m t s n c qu utilisateur utilisatrice personne agent préfère préfèrent préférer veut "
    "souhaite demande "
    "dit rappelle retenir règle utiliser utilise faire fait doit doivent désormais raison comme plutôt bien "
    "projet équipe "
    # Spanish
    "el los las uno una unos unas y o pero que quien cual este esta estos estas ese esa su sus mi mis nuestro "
    "nuestra del "
    "al con por para sobre es son era ser está están estar ha han haber lo le se nos yo tú te muy también no nunca "
    "siempre sin si cuando porque cada todo todos toda todas usuario usuaria persona agente prefiere prefieren "
    "quiere "
    "pide dice recordar regla usar usa hacer hace debe deben ahora adelante partir razón como más ya proyecto equipo "
    "en de".split()
)
# Chinese and Japanese: what is cut out of a run of characters before it is taken in pairs.
SMALL_CJK = (
    "用户|使用者|助手|代理|偏好|喜欢|希望|要求|想要|需要|应该|可以|必须|总是|永远|一律|以后|今后|从现在起|请|记住|记得|规则|"
    "这个|那个|我们|他们|你们|自己|因为|所以|如果|的时候|时候|以及|或者|并且|但是|不要|不能|不用|不是|没有|使用|进行|"
    "ユーザー|利用者|本人|好み|希望|必ず|常に|今後|場合|とき|こと|もの|ため|よう|使用|使う|使って|"
    "[的了是在和与或及也把被对我你您他她它们这那要会能就都还很不别没有到从用给让将为等着过吗呢吧个之其"
    "、。，；：！？「」『』（）・\\s]"
)


# --- leads ---
# The words, in six languages, by which a person announces that what follows is not theirs; and who speaks for whom.
#
# Tables only: `split` and `claims` read them.

# Things that have a text of their own which people paste.
_THINGS = (
    # English
    r"logs?|output|error(?: message)?s?|stack ?trace|traceback|(?:web ?)?page|web ?site|site|article|"
    r"blog(?: post)?|post|"
    r"thread|e-?mails?|mail|newsletter|readme(?:\.md)?|docs?|documentation|manual|file|issue|ticket|bug report|"
    r"comments?|"
    r"review|slack|discord|chat|transcript|conversation|response|reply|snippet|quote|excerpt|paste|diff|patch|"
    r"report|wiki|"
    r"change ?log|release notes|announcement|message|dump|console|terminal|result|pdf|document|paper|spec|policy|"
    # German
    r"protokoll|ausgabe|fehlermeldung|fehler|seite|webseite|artikel|beitrag|nachricht|datei|doku|dokumentation|"
    r"handbuch|"
    r"kommentar|antwort|auszug|ausschnitt|bericht|verlauf|rundschreiben|anleitung|konsole|dokument|"
    # French
    r"journal|journaux|sortie|erreur|message d['’]erreur|page|site|article|billet|courriel|fichier|documentation|"
    r"commentaires?|réponse|extrait|rapport|fil|historique|manuel|notice|"
    # Spanish
    r"registros?|salida|error|página|sitio|artículo|correo|mensaje|archivo|fichero|documentación|comentarios?|"
    r"respuesta|"
    r"extracto|informe|hilo|historial|manual"
)
_CJK_THINGS = (
    r"日志|输出|报错|错误信息|错误|网页|页面|网站|文章|帖子|邮件|文件|文档|说明书|手册|评论|回复|摘录|报告|"
    r"聊天记录|截图|内容|消息|公告|"
    r"ログ|出力|エラー|エラーメッセージ|ページ|サイト|記事|投稿|メール|ファイル|ドキュメント|文書|マニュアル|"
    r"コメント|返信|返事|抜粋|"
    r"レポート|チャット|履歴|メッセージ|お知らせ|README"
)
_SHOW = (
    r"here(?:['’]s| is| are| comes?)|below is|below are|following is|i (?:just )?got|getting|i see|"
    r"from (?:the|a|an|this|that|my|our|their|his|her|its)|(?:copied|pasted|taken|quot(?:ed|ing)|excerpt) (?:from)?|"
    r"according to|contents? of|attached|forwarded|"
    r"hier (?:ist|sind|kommt|das|der|die)|aus (?:der|dem|den|einer|einem)|laut|"
    r"anbei|kopiert aus|inhalt (?:der|des|von)|"
    r"voici|voilà|ci-dessous|extrait (?:de|du)|d['’]après|selon|tiré (?:de|du)|copié (?:de|du)|contenu (?:de|du)|"
    r"aquí (?:está|están|tienes|va)|a continuación|según|sacado de|copiado de|contenido de"
)
_IS = r"this is|that['’]s|these are|das ist|dies ist|c['’]est|este es|esta es|esto es"
_OUTPUT = (
    r"logs?|output|error(?: message)?|stack ?trace|traceback|readme|transcript|diff|console|terminal|response|"
    r"e-?mail|message|"
    r"ausgabe|fehlermeldung|protokoll|antwort|nachricht|sortie|erreur|journal|réponse|courriel|salida|registro|"
    r"respuesta|correo"
)
_SAY = (
    r"says?|said|reads|states|stated|wrote|writes|tells? (?:me|us|you)|told (?:me|us)|shows|prints|reports|suggests|"
    r"recommends|"
    r"sagt|sagte|steht|schreibt|schrieb|meldet|lautet|zeigt|meint|empfiehlt|"
    r"dit|indique|affiche|a écrit|écrit|précise|recommande|"
    r"dice|dijo|pone|indica|muestra|escribió|escribe|recomienda"
)
_CJK_SAY = (
    r"说|写道|写着|显示|提示|如下|写的是|"
    r"という|と書いて|とある|によると|によれば|書かれて|言って|言う|表示され|以下|次の"
)

# A clause that ends in a colon and announces text from elsewhere: "here is the log:", "the page says:".
LEAD_IN = (
    rf"\b(?:{_SHOW})\b[^\n:：.!?]{{0,60}}?\b(?:{_THINGS})\b[^\n:：!?]{{0,50}}[:：]"
    rf"|\b(?:{_IS})\b[^\n:：.!?]{{0,14}}?\b(?:{_THINGS})\b[^\n:：!?]{{0,50}}[:：]"
    rf"|\b(?:{_THINGS})\b[^\n:：.!?]{{0,40}}?\b(?:{_SAY})\b[^\n:：!?]{{0,40}}[:：]"
    rf"|\b(?:{_SAY})\b[^\n:：.!?]{{0,30}}?\b(?:{_THINGS})\b[^\n:：!?]{{0,20}}[:：]"
    rf"|(?:^|[.!?]\s)(?:{_OUTPUT})\s*[:：][ \t]*$"
    rf"|(?:{_CJK_THINGS})[^\n：:。]{{0,15}}?(?:{_CJK_SAY})[^\n：:。]{{0,8}}[：:]"
    rf"|(?:这是|以下是|下面是|来自|摘自|根据|贴一下|これは|こちらが|こちらは|以下は|以下の|"
    rf"次の)[^\n：:。]{{0,20}}?(?:{_CJK_THINGS})"
    r"[^\n：:。]{0,12}[：:。]"
)
# A colon after one of these announces the person's own words all the same: "here is my rule for the page:".
OWN = (
    r"\b(?:want|wish\w*|rules?|prefer\w*|requirements?|should|remember|regeln?|wunsch|wünsche|möchte|merk\w*|"
    r"règles?|souhait\w*|"
    r"préfér\w*|veux|retiens|reglas?|quiero|prefier\w*|recuerda)\b|规则|要求|希望|记住|ルール|要望|希望|覚え"
)
# A sentence that reports what such a thing says; it vouches for nothing.
REPORT = rf"\b(?:{_THINGS})\b[^\n.!?]{{0,40}}?\b(?:{_SAY})\b|(?:{_CJK_THINGS})[^\n。]{{0,12}}?(?:{_CJK_SAY})"

MAIL_HEAD = (
    r"(?:from|to|cc|subject|date|sent|reply-to|von|an|betreff|datum|gesendet|de|à|objet|envoyé|para|asunto|fecha|"
    r"发件人|收件人|主题|日期|差出人|宛先|件名|日時)[ \t]*[:：][ \t]*\S"
)
FORWARDED = (
    r"-{2,}[ \t]*(?:original message|forwarded message|ursprüngliche nachricht|weitergeleitete nachricht|"
    r"message d['’]origine|message transféré|mensaje original|mensaje reenviado|原始邮件|转发邮件|转发的邮件|"
    r"元のメッセージ|転送)"
    r"|begin forwarded message|on [^\n]{4,80} wrote:|am [^\n]{4,80} schrieb[^\n]{0,60}:|le [^\n]{4,80} a écrit\s*:|"
    r"el [^\n]{4,80} escribió:"
)
# A line that pretends to be another speaker.
ROLE = (
    r"(?:\[|<\|?|#{1,6}[ \t]*|\*\*)?(?:system|assistant|human|user|developer|tool|ai|bot|note to (?:the )?"
    r"(?:assistant|agent|ai|model)|system (?:note|message|prompt|update)|系统|助手|システム|アシスタント|"
    r"système|sistema)"
    r"(?:\]|\|?>|\*\*)?[ \t]*[:：]"
)
# Somebody speaks: I, we, you, please. A long run without any of it is not a person's request.
VOICE = (
    r"\b(?:i|i['’]\w+|me|my|we|we['’]\w+|our|us|you|you['’]\w+|your|please|let['’]s|ich|mir|mich|mein\w*|wir|"
    r"uns|unser\w*|du|dir|"
    r"dich|dein\w*|bitte|je|j['’]\w+|mon|ma|mes|moi|nous|notre|nos|tu|te|ton|ta|tes|vous|votre|vos|yo|mi|mis|me|"
    r"nosotros|nuestr\w+|nos|tú|te|tu|tus|por favor|usted|quiero|necesito|puedes)\b"
    r"|我|你|您|咱|请|麻烦|私|僕|俺|うち|あなた|ください|下さい|お願い|ほしい|欲しい|したい|ましょう|てね"
)
NEGATION = (
    r"\b(?:no|not|never|none|nobody|nothing|without|cannot|avoid\w*|stop|don['’]?t|doesn['’]?t|won['’]?t|"
    r"can['’]?t|isn['’]?t|shouldn['’]?t|"
    r"mustn['’]?t|instead|rather than|hate|dislike|skip\w*|drop|leave out|forbid\w*|disable\w*|"
    r"nicht|nie|niemals|niemand\w*|nichts|kein\w*|ohne|statt|vermeide\w*|weder|lass|verboten|"
    r"pas|jamais|sans|aucun\w*|évit\w+|ni|personne n\w*|rien|plutôt que|interdit\w*|nunca|jamás|sin|evita\w*|"
    r"ningun\w*|nadie|nada|prohibid\w*)\b|\bne\b|\bn['’]"
    r"|不|别|没|勿|禁止|避免|无需|ない|ません|ずに|なく|禁止|避け|やめ|せず|なし"
)
ORDER = (
    r"\b(?:always|never|must|should|shall|don['’]?t|do not|from now on|whenever|every time|avoid|make sure|"
    r"ensure|in future|"
    r"immer|nie|niemals|muss|müssen|soll|sollen|ab (?:jetzt|sofort)|künftig|stets|"
    r"toujours|jamais|doit|dois|doivent|désormais|dorénavant|siempre|nunca|debe\w*|a partir de ahora|en adelante)\b"
    r"|总是|必须|永远|以后|今后|从现在|从今|不要|务必|一律|必ず|常に|今後|これから|禁止|いつも|ください|べき"
)
