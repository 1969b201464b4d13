"""German: "merk dir, dass", "ab jetzt", "so machen wir das nicht", "genau so weiter", "ich bin Hebamme"."""

from memdir.language.grammar import RequestCategory, RequestLanguage, RuleNeed, any_of, make_request_rule, words_of
from memdir.records import Kind
from memdir.rules.systems import SYSTEM

_LATER = any_of(
    r"""bitte, mal, auch, für (?:später|die zukunft|das nächste mal|nächstes mal|künftige \w+|alle weiteren \w+|
    weitere \w+), in zukunft,
    künftig, zukünftig, dauerhaft, ab jetzt, immer, unbedingt, noch, folgendes, eins, gut, dir, dabei, einfach, doch,
    ab sofort, fürs nächste mal"""
)
_COLON = r"(?:[\s,:–—-]+(?:dass\b|daß\b)?\s*)"
_NOUNS = any_of(
    r"""commit[- ]?(?:messages?|nachrichten)?, commits, antworten, branch\w*, prs?, pull[- ]requests?, kommentare?,
    variablennamen?, tests?, code,
    doku\w*, fehlermeldungen, namen, bezeichner, texte, migrationen, logs?, imports?, typen, beispiele,
    zusammenfassungen, änderungen"""
)
_DUE = any_of(
    r"""frist, fällig, deadline, freeze, stichtag, abgabe\w*, release\w*, auslieferung, launch, livegang, geht live,
    läuft (?:ab|aus), abgeschaltet,
    ablauf\w*, endet, beginnt, startet, muss, müssen, umzug, demo, audit, abnahme, verschoben, go-live, umstellung,
    vertrag"""
)
_IMPERATIVE = any_of(
    r"""frage?, schreibe?, nutze?, mache?, benutze?, verwende?, antworte, zeige?, lasse?, gib, prüfe?, teste?, führe?,
    nenne?, erkläre?, sage?, achte, halte?, committe?, pushe?, setze?, lege?, füge?, lösche?, starte?, nimm,
    formatiere?,
    dokumentiere?, kommentiere?, informiere?, warne?, benenne?, begründe?, kürze?, packe?, baue?, liefere?, verlinke?,
    ergänze?, aktualisiere?, rufe?, stelle?, bitte, kurze?, keine?"""
)
_WISHES = (
    r"(?:mir wäre(?: es)?(?: \w+)? lieber|mir ist(?: es)? lieber|ich fände es (?:besser|gut|schöner|angenehmer)|"
    r"ich hätte(?: \w+)? (?:gern|lieber)|es wäre (?:besser|schön|gut|mir lieber)|ich bevorzuge|hätte ich (?:gern|"
    r"lieber))"
)
_SAVES = (
    rf"(?:schreibe?|präge?|schreibt) (?:dir|euch)(?: (?:das|es|bitte|gut|mal))* (?:hinter die ohren|ein|auf|"
    rf"in dein \w+){_COLON}(?P<what>.+)",
    r"(?:für (?:die zukunft|später|spätere \w+|das nächste mal)|(?:wichtig|bitte|gut)? ?zu (?:merken|behalten)|"
    r"(?:bitte )?(?:merken|beachten|notieren)|nicht vergessen|zum merken|fürs protokoll|memo|"
    r"merke)\s*: *(?P<what>.+)",
    r"(?:wichtig|gut) (?:ist|wäre),? (?:dir )?zu merken,? (?:dass )?(?P<what>.+)",
    rf"(?:merke?|notiere?|speichere?|behalte?)(?: (?:es|das|dir das|dir folgendes))? (?:dir|ab|im (?:kopf|hinterkopf|"
    rf"gedächtnis))(?: (?:im|in deinem|ins) (?:gedächtnis|hinterkopf|kopf))?(?:[\s,]+{_LATER})*{_COLON}(?P<what>.+)",
    rf"(?:behalte?|halte?) (?:{_LATER} )*(?:im (?:hinterkopf|kopf|gedächtnis|auge)|in erinnerung|"
    rf"fest)(?:[\s,]+{_LATER})*{_COLON}(?P<what>.+)",
    rf"(?:speichere?|schreibe?|nimm|trage?)(?: (?:dir|das|es|bitte|folgendes))* (?:in (?:deine?[mn]? |die |das )?|"
    rf"ins )(?:gedächtnis|memory|erinnerung(?:en)?)(?: auf| ein)?{_COLON}(?P<what>.+)",
    r"(?:speichere?|notiere?|behalte?)(?: bitte| dir| mal)*,? dass (?P<what>.+)",
    rf"(?:dir|euch)(?: bitte)? (?:zu )?merken{_COLON}(?P<what>.+)",
    r"(?:eine |kurze |kleine )*(?:notiz|merkzettel|merke|merksatz)(?: an (?:dich|mich|uns))?(?: für (?:später|"
    r"die zukunft|dich|uns|nächstes mal|das nächste mal))?\s*: *(?P<what>.+)",
    rf"(?:denke?|denkt)(?: {_LATER})* (?:daran|dran)(?: {_LATER})*(?:,? dass|:) (?P<what>.+)",
    rf"(?:denke?|denkt)(?: {_LATER})* (?:daran|dran)(?: {_LATER})*,? (?P<what>(?:immer|nie|niemals|nicht|keine?n?)\b "
    rf".+)",
    rf"(?:denke?)(?: {_LATER})* (?:in zukunft|künftig|ab jetzt|immer|zukünftig)(?: {_LATER})* (?:daran|"
    rf"dran),? (?P<what>.+)",
    rf"(?:vergiss|vergesse)(?: {_LATER})* (?:nicht|nie|niemals)(?: {_LATER})*(?:,? dass|:) (?P<what>.+)",
    rf"(?:wichtig|gut) (?:zu wissen|für (?:später|die zukunft|alle weiteren \w+|künftige \w+)){_COLON}(?P<what>.+)",
    rf"für (?:alle )?(?:weiteren?|künftigen?|zukünftigen?|nächsten?|spätere) (?:sitzung(?:en)?|gespräche?|sessions?|"
    rf"chats?|male?|aufgaben){_COLON}(?P<what>.+)",
    rf"(?:du )?(?:sollst|solltest|musst) (?:dir |bitte )*(?:merken|wissen){_COLON}(?P<what>.+)",
    rf"(?:nimm|nehme) (?:bitte )?zur kenntnis{_COLON}(?P<what>.+)",
    r"(?:neue |feste |allgemeine )?(?:regel|vereinbarung|konvention)(?: für (?:die zukunft|alles|"
    r"dich))?: (?P<what>.+)",
    rf"(?:ich )?(?:möchte|will|hätte gern),? dass du (?:dir )?(?:merkst|weißt|im kopf behältst){_COLON}(?P<what>.+)",
)
_SAVED_BEFORE = (
    r"(?P<what>.{12,}?)[,;.:–—-]+ *(?:und |also |bitte )*(?:merke? dir (?:das|es)|das (?:bitte )?merken|"
    r"(?:bitte )?merken|behalte? das im (?:kopf|hinterkopf))(?: bitte| mal)*[.! ]*$",
)
_LASTING = (
    r"ich (?:möchte|will|hätte gern|wünsche mir),? dass du (?:ab jetzt|künftig|in zukunft|immer|nie|ab sofort|"
    r"von nun an)\b(?P<what>.+)",
    r"(?P<what>(?:bei|vor|nach|für) (?:jede[rmn]?|alle[nr]?) .{3,40}(?:bitte|zuerst|erst|immer).+)",
    r"(?:ab (?:jetzt|sofort|heute|nun)|von (?:nun|jetzt|heute) an|in zukunft|künftig|zukünftig|fortan|nächstes mal|"
    r"beim nächsten mal|das nächste mal|generell|grundsätzlich|ab (?:dem )?\d\S*)[\s,:]+(?P<what>.+)",
    r"(?:bitte )(?:ab (?:jetzt|sofort)|in zukunft|künftig|zukünftig|grundsätzlich) (?P<what>.+)",
    r"(?:bitte )(?P<what>(?:immer|nie|niemals) .+)",
    r"(?P<what>(?:nie|niemals) (?:wieder |mehr |ohne |direkt )?(?!.*\bge\w+(?:t|en)[.!]*$)(?:.+(?:en|ern|eln|tun)|"
    r".+ ohne .+)[.!]*$)",
    rf"(?P<what>(?:bitte )?{_IMPERATIVE} (?:\w+ ){{0,3}}?(?:bitte )?(?:ab (?:jetzt|sofort)|in zukunft|künftig|"
    rf"zukünftig|immer|niemals|nie)(?: bitte)?,? .{{4,}})",
    r"(?P<what>(?:wir|alle) .{3,60}(?:ab (?:jetzt|sofort)|künftig|in zukunft) .+)",
    r"(?P<what>(?:jedes mal|immer)?,? ?(?:wenn|bevor) du .{4,60}, (?:dann )?(?!ist|wird|kommt)\w+ (?:mir |dich |"
    r"bitte )?(?:immer|erst|vorher|zuerst) .+)",
)
_CORRECTIONS = (
    rf"(?P<what>(?!.*\b(?:jetzt|gerade|heute|erstmal)\b){_WISHES},? .{{6,}})",
    r"(?P<what>(?:weniger|mehr|kürzere|keine) [\w-]+(?: \w+)?,? (?:und|dafür|sondern) (?:mehr|weniger|kürzere|nur) .+)",
    r"(?P<what>[\w -]{3,40} (?:gehört|gehören|kommt|kommen|steht|stehen) (?:bei uns|hier|immer|nur) .{3,})",
    r"(?P<what>(?:weniger|mehr|kürzere|kleinere|keine|nur) [\w-]+(?: \w+)? (?:bitte|mehr)\b.{4,})",
    r"(?P<what>(?:bitte )?keine? [\w-]+(?: [\w-]+){0,4} mehr\b.*)",
    r"(?P<what>[\w-]+ (?:immer|grundsätzlich|nur|nie) (?:auf|in|mit|ohne) .{3,})",
    r"(?P<what>(?:hör|hoer)(?:e)? (?:bitte |endlich |mal )*(?:auf|damit auf)\b.+)",
    r"(?P<what>so .{2,40} wir (?:hier |bei uns |das |die |unsere )?.{0,40}?nicht\b.*)",
    r"(?P<what>wir .{2,60}(?:hier|bei uns|in diesem projekt|im team|grundsätzlich|nie|niemals|immer)\b.*(?:kein\w*|"
    r"nicht|nie|niemals|immer|nur)\b.*)",
    r"(?P<what>bei uns .{4,})",
    r"(?P<what>lass (?:bitte |doch )*(?:das (?:mit|sein)|die|den|das) .{4,})",
    r"(?P<what>du (?:musst|brauchst|sollst|sollest|darfst) (?:mich |mir |bitte )*(?:nicht|keine?n?|nie)\b.{4,})",
    r"(?P<what>(?:ständig|dauernd|immer wieder|schon wieder) .{4,}(?:bitte|lass|nicht)\b.*)",
)
_CORRECTIONS_GENERAL = (
    r"(?P<what>(?:bitte |doch )*(?:keine?n?|nicht|verzichte?|vermeide?|schreib(?! (?:in|auf|an|mir|einen?|das))|"
    r"nutze?|nimm|verwende?|antworte?|benutze?|mach|frag|füge?|setz) .{4,})",
    r"(?P<what>(?:das|es|die|der)\b.{3,40}(?:ist|sind|war|waren) (?:mir |viel )?zu (?:lang|kurz|ausführlich)\b.+)",
)
_CONFIRMATIONS = (
    r"(?:mach|macht|bleib|arbeite?|halte?) (?:das |es |bitte |genau |dabei |in zukunft |immer |"
    r"künftig )*(?:bei .{3,40} )?(?:weiter(?:hin)? so|weiter|so|dabei)\b.*",
    r"(?:genau so|so)(?: ist es| war das| mag ich| will ich| möchte ich| passt)?\b.*(?:richtig|weiter|immer|künftig|"
    r"in zukunft|haben)\b.*",
    r"(?:gute|richtige|kluge) (?:entscheidung|wahl|idee),? (?!danke).{8,}",
    r"(?:mir gefällt|ich mag|ich finde es gut|schön|gut|super),? dass du .+",
    r"weiter so\b.*",
)
_ROLE = any_of(
    r"""\w*(?:entwickler|ingenieur|analyst|lehrer|designer|manager|leiter|berater|redakteur|wissenschaftler|forscher|
    architekt|administrator|programmierer|tester|pfleger|anwält?|informatiker|techniker|autor|übersetzer|
    buchhalter)(?:in)?,
    \w*(?:student|studentin|freiberufler|freiberuflerin|selbstständig|selbständig|hebamme|\w*schwester|\w*kauffrau|
    \w*kaufmann|\w*ärztin|\w*arzt|mutter|vater|ärztin|arzt|azubi|anfänger|anfängerin|einsteiger|neuling|rentner|
    rentnerin|vegetarier|vegetarierin|veganer|veganerin|admin|chef|chefin|gründer|gründerin|doktorand|doktorandin|
    werkstudent|werkstudentin),
    product owner, scrum master, tech lead, farbenblind, legastheniker\w*, teamlead, cto, ceo"""
)
_IDENTITIES = (
    r"(?P<what>ich komme (?:eigentlich )?(?:aus|von) (?:der|dem|einer?) .{3,}(?:welt|ecke|bereich|branche|hintergrund|"
    r"umfeld)\b.*)",
    r"(?P<what>.{2,30} ist (?:ganz |noch |völlig )?neu für mich\b.*)",
    rf"(?P<what>ich bin (?:seit \S+ \S+ |der |die |das |ein |eine |hier |neue?r? |gelernte?r? |von beruf |einzige?r? |"
    rf"\w+ ){{0,3}}?{_ROLE}\b.*)",
    r"(?P<what>ich (?:arbeite|wohne|lebe|studiere|unterrichte) (?:seit|in|als|bei|an|für|im|am|von|hauptsächlich|"
    r"meist) .+)",
    r"(?P<what>ich (?:leite|verantworte|betreue|pflege|verwalte|entwickle|programmiere|schreibe) (?!gerade|jetzt|"
    r"das hier|diese)(?:seit|das|die|den|unser\w*|ein\w*|allein|hauptsächlich|meist\w*|mehrere|vor allem) .{3,})",
    r"(?P<what>ich (?:mache|schreibe|programmiere|nutze) seit .+)",
    r"(?P<what>meine (?:muttersprache|zeitzone|rolle|aufgabe) ist .+)",
    r"(?P<what>ich kenne mich (?:mit|in) .+)",
    r"(?P<what>als (?:\w+ )?\w+(?:in|er|ist|eur) (?:kenne|arbeite|habe|interessier\w+|kümmere) .+)",
)
_PLACED = (
    r"(?:liegt|liegen|steht|stehen|findest du|findet ihr|findet man|finden sich|befindet sich|landet|landen|"
    r"kommen|kommt|gehen|geht|läuft|laufen|gehört|gehören|(?:ist|sind|werden|wird)\b)"
)
GERMAN = RequestLanguage(
    name="de",
    leads=any_of(
        r"""bitte, ok, okay, hey, hi, hallo, und, aber, also, ja, nein, nee+, doch, ach, übrigens, kannst du,
    könntest du, würdest du, kannst du dir, könntest du dir, ich möchte\, dass du, perfekt, super, prima, danke, toll,
    gut, stopp, halt, moment, hm+,
        noch etwas, noch was, eins noch, außerdem, falsch, so nicht, wie gesagt, zur info, nur so, jetzt, mal,
        du sollst, du musst, du solltest, dir, btw, achtung, hinweis"""
    ).replace("\\,", ","),
    rules=(
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:vergiss|vergesse|lösche?|entferne?|streiche?|nimm)(?: bitte| mal| wieder)*(?:,)? (?:aus (?:deinem|"
            r"dem) (?:gedächtnis|speicher)|(?:wieder )?(?:dass|was ich (?:dir )?(?:über|zu|zum|zur|von|vom|"
            r"bezüglich)))(?:[,\s]|dass|was ich (?:dir )?(?:über|zum|zur|zu|von|vom))*(?P<what>\S.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:vergiss|vergesse|lösche?|entferne?|streiche?)(?: bitte| mal| wieder)* (?:die|das|den|"
            r"meine?n?) (?:regel|notiz|sache|anweisung|vorgabe|vorliebe|eintrag|erinnerung|ansage|"
            r"konvention)(?: (?:mit|über|zu|zum|zur|von|dass|für))? (?P<what>.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:das|die sache) mit (?P<what>.{3,60}?) (?:kannst du|bitte|darfst du) (?:wieder |jetzt |"
            r"ruhig )?(?:vergessen|löschen|streichen)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?P<what>(?:dass ich|die regel|meine|das mit) .{3,60}?),? (?:kannst du|darfst du|bitte) (?:wieder |"
            r"jetzt |ruhig )?(?:vergessen|löschen|aus (?:deinem|dem) gedächtnis)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET, r"(?:vergessen|löschen),? (?P<what>dass ich .+|was ich .+)", RuleNeed.STRONG
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:du )?(?:kannst|darfst|sollst) (?:ruhig |wieder |jetzt )?vergessen,? (?P<what>.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(RequestCategory.FORGET, r"vergiss(?: bitte)?,? (?P<what>dass .+)", RuleNeed.STRONG),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:vergiss|vergesse|lösche?|streiche?)(?: bitte| mal| wieder)* (?:das|die sache) mit (?P<what>.{3,60})",
            RuleNeed.STRONG,
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.WHOLE) for at in _SAVED_BEFORE),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG) for at in _SAVES),
        *(
            make_request_rule(RequestCategory.CONFIRMATION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CONFIRMATIONS
        ),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.LASTING, default=Kind.FEEDBACK) for at in _LASTING),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.GENERAL, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS_GENERAL
        ),
        make_request_rule(
            RequestCategory.DECISION,
            r"(?P<what>(?:wir haben|das team hat|die (?:leitung|geschäftsführung|chefin|rechtsabteilung) hat|"
            r"der (?:chef|kunde|vorstand|betriebsrat) hat|es (?:wurde|ist)|heute haben wir|gestern haben wir|"
            r"management hat) .*(?:beschlossen|entschieden|vereinbart|abgesagt|gestrichen|verschoben|genehmigt|"
            r"festgelegt|geeinigt)\b.*)",
            RuleNeed.WHOLE,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>(?!ich\b)[^,;]{{3,60}}? {_PLACED} .{{0,40}}?{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>(?:bei|für) (?:fragen|problemen?)\b.*{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        *(make_request_rule(RequestCategory.IDENTITY, at, kind=Kind.USER) for at in _IDENTITIES),
        make_request_rule(
            RequestCategory.DEADLINE,
            rf"(?P<what>(?!.*\b(?:hat|haben|war|waren)\b)(?!ich\b)(?:(?!\bich\b|\bmein).){{2,90}}?\b{_DUE}\b.+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
    ),
    asks=r"^(?:\W*(?:ok|hey|bitte|und|ach|also),?\s*)*(?:kannst|könntest|würdest|magst) du\b",
    questions=r"(?:und |also |aber )*(?:was|wie|warum|wieso|weshalb|wer|wen|wem|wo|woher|wohin|wann|welche[rsnm]?|"
    r"ist (?:es|das)|sind|hast du|weißt du|gibt es|soll ich|muss ich|erinner(?:e|st)? mich)\b",
    reported=r"\b(?:er|sie|man|sagte|sagt|meinte|wenn ich (?:sage|dir)|falls|kommentar|übersetze?|lied|film|titel|"
    r"szene|readme|schreib in)\b",
    refusals=r"merk\w* dir (?:davon |bitte )*nichts|nichts davon|(?:nichts|nicht) (?:zum|zu|fürs|fuers|"
    r"für das) (?:merken|speichern|gedächtnis)|(?:ohne|nicht) (?:das |es )?(?:zu )?(?:merken|speichern|"
    r"abzuspeichern)\b|(?:nicht|nirgends|nirgendwo) (?:ab)?(?:merken|speichern|notieren)|unter uns|bleibt unter uns|"
    r"(?:merk\w*|speicher\w*|behalt\w*|notier\w*)(?: dir)?(?: (?:das|es|dies|bitte|dir))* (?:nicht|nirgends|"
    r"nirgendwo)\b|(?:musst|brauchst) du (?:dir )?(?:das )?nicht (?:zu )?(?:merken|speichern)|(?:das )?(?:musst|"
    r"brauchst) du dir nicht (?:zu )?merken|nicht (?:merken|speichern|abspeichern)\b|"
    r"vergiss (?:wieder )?,? was ich (?:gerade|eben) (?:gesagt|geschrieben)",
    tasks=r"\b(?:seit heute|an dem bug|am bug)\b|"
    r"\b(?:diese[nmrs]? (?:pr|funktion|datei|klasse|methode|test|branch|commit|zeile|schleife|modul|komponente|"
    r"seite)|in der funktion|vorerst|erstmal|fürs erste|gerade|für heute|diesmal|dieses mal|noch nicht|unten|oben|"
    r"zeile \d+|schleifen\w*|schreib\w* .{0,20}in die readme|ändere das|nur heute)\b",
    states=r"\b(?:noch (?:rot|offen|nicht (?:fertig|gemerged|gepusht))|momentan|im moment|bin (?:noch|gerade) (?:auf|"
    r"im|in|bei)|schon (?:um)?benannt)\b|"
    r"\b[a-z] ist ein\b|\b(?:(?:das|die|der) (?:feld|array|liste|schleife|variable|parameter|index)|"
    r"nur (?:für )?heute|nur für diese (?:sitzung|unterhaltung)|für heute|vorübergehend|schritt \d|in der funktion|"
    r"in dieser (?:funktion|datei|sitzung)|für diese (?:frage|aufgabe)|schreib\w* .{0,20}in die readme|vorerst|"
    r"gerade eben)\b",
    idle=r"(?:\w+ es\b|\w+ ich\b|(?:ist )?der (?:port|server|schleifen\w*)|läuft (?:der|die|das|es|alles)|ist|gibt es|"
    r"steht|"
    r"ich|er|sie|es|man|die tests|der schleifen\w*|heißt|läuft|laufen (?:die|alle) tests|mal sehen|vielleicht|"
    r"geht es|funktioniert|klappt)\b(?! (?:möchte|will|hätte gern|gern|lieber))",
    general=r"\b(?:immer|nie|niemals|jede[rsnm]?|alle[nrm]?|generell|grundsätzlich|überall|bei uns|hier im projekt|"
    r"in diesem projekt|im ganzen projekt|gilt|wenn nicht|außer|ohne zu fragen|deine antworten|mehr)\b",
    pronouns=r"(?:bitte |immer )*(?:das|es|dies|so)\b(?! (?:projekt|team))\W*(?:$|bitte|mal)",
    vouches=r"\b(?:gilt (?:immer|generell|überall|für)|regel|konvention|so machen wir|grundsätzlich)\b",
    refers=r"\b(?:das|es|sie|dies)\b",
    that=r"(?:[\s,:–—-]|dass\b|daß\b|bitte\b|auch\b)+",
    tail=r"[\s,]*\b(?:bitte|danke|ja|ok|okay)[.!?\s]*$",
    why=r"[,;]\s+(?:weil|denn|da(?= (?:wir|der|die|das|es|sonst|ich))|sonst)\s+(?P<why>.{8,})$",
    about_me=r"(?:ich|mein\w*|mir|mich)\b",
    prefers=r"(?:ich .*\b(?:möchte|mag|will|bevorzuge|hasse|brauche)[.!]*$|ich (?:mag|möchte|will|bevorzuge|"
    r"hätte gerne?|hasse|brauche keine?)|mir (?:ist|sind) .* lieber)\b",
    directs=rf"(?:wir (?!haben|sind|müssen|nutzen noch)\w+|immer\b|nie\b|niemals\b|keine?\b|bitte\b|nicht\b|"
    rf"vor jedem\b|(?:alle |jede[rs]? |unsere |neue )*{_NOUNS}\b)",
    praise=r"\b(?:genau|so|perfekt|super|prima|toll|gut|richtig|war|hier|mach|macht|das|bitte|weiter|weiterhin|bleib|"
    r"dabei|immer|danke|ja|halte?|es|in|zukunft|künftig)\b",
    goes_on=r"(?!(?:ich|das ist|du|und dann|dann|danke|kannst|mach das|ändere|rückgängig|ok|was|warum|wie)\b)[\w\"„]+",
    negates=r"\b(?:nicht|kein\w*|nie|niemals|ohne|statt|nirgends)\b",
    links=words_of("zu zum zur im in am an auf aus bei mit von vom für über um nach ab"),
    empty=words_of(
        "der die das den dem des ein eine einen einem einer eines und oder aber als wie ist sind war waren sein wird "
        "werden hat haben hatte "
        "kann können soll sollen sollte muss müssen man er sie es ihr wir uns unser unsere ich mich mein meine du dir "
        "dein was wer dass dies diese dieser dieses bitte sehr auch bin also nur noch mal hier"
    ),
)
