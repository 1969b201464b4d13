"""The words, in six languages, by which a person announces that what follows is not theirs; and who speaks for whom.

Tables only: `split` and `claims` read them.
"""

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
