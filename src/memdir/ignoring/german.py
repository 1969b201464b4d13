"""German: "ignoriere dein Gedächtnis", "Erinnerungen nicht verwenden", "antworte ohne Gedächtnis"."""

from memdir.language.grammar import END, MEM, IgnoreLanguage, any_word_of

_OWN = any_word_of(
    """(?:dein|ihr|euer|mein)(?:e|en|em|er|es)?, eure[nrms]?, das, die, dem, den, der, alle[ns]?, sämtliche[ns]?,
    jegliche[sn]?"""
)
_NOUN = any_word_of(
    """gedächtnis(?:inhalte|dateien)?, gedaechtnis, erinnerung(?:en|sfunktion)?, memory-dateien, memories,
    memorys"""
)
_WHICH = r"(?:(?:gespeicherte|frühere|bisherige|alte|vorhandene)[nrs]? )?"
_ANSWER = r"(?:antworte|beantworte|erkläre?|löse?|mach|schreib)\w*"
_AFTER = any_word_of(
    rf"""mehr, für (?:diese[nsrm]?|den rest|die (?:nächste|folgende)|meine nächste), in (?:diese[mr]|deiner|der|ihrer),
    bei (?:dieser|deiner|der|diesem), ab hier, bis, während, danke,
    und (?:{_ANSWER}|(?:schau|lies|sag|fang|gib|tu)\w*)"""
)
_USE = any_word_of(
    "benutz, verwend, nutz, konsultier, berücksichtig, beacht, lad, les, durchsuch, zitier, erwähn, befrag"
)
_USING = f"{_USE}(?:en|n)"
_YOU = "(?:e|en sie|t)?"  # ignorier, ignoriere, ignorieren Sie, ignoriert
# What may stand before a verb at the end: "nutze dein Gedächtnis in diesem Gespräch nicht".
_IN_THIS = any_word_of(
    """(?:für diese|bei dieser|bei der) (?:frage|antwort|aufgabe), in diesem (?:gespräch|chat),
    in dieser (?:unterhaltung|sitzung|konversation)"""
)
_WHERE = f"(?:{_IN_THIS} )?"

GERMAN = IgnoreLanguage(
    cues=any_word_of("ignorier, nicht, kein, ohne, schalt, aktivier, lass, hör, wieder"),
    owned=(
        rf"\b(?:(?:{_OWN} )*{_WHICH}{_NOUN}|(?:dein|ihr)e?[nms]? (?:speicher|memory)|was du dir gemerkt hast)"
        r"(?![-/\w])"
    ),
    bare=r"\b(?:das |die |alle )?memory(?![-/\w])",
    fill=r"\b"
    + any_word_of(
        """bitte, jetzt, mal, hier, dabei, diesmal, dieses mal, einfach, dafür, heute, ab jetzt, ab sofort, komplett,
        völlig, vollständig, ganz, auch, nun, doch, von (?:nun|jetzt) an"""
    )
    + r"\b,?",
    leads=any_word_of(
        r"""ok, okay, hey, hallo, und, aber, also, dann, ab hier, in diesem \w+, in dieser \w+, in deiner \w+,
        für diese[nms]? \w+, für den rest \w+ \w+, bei dieser \w+, bei der \w+, bei deiner \w+, kannst du, könntest du,
        würdest du, können sie, könnten sie, würden sie, du sollst, du musst, ich möchte, ich will, dass du, wichtig,
        übrigens, claude, nein, ja"""
    ),
    cores=(
        rf"(?:ignorier|deaktivier){_YOU},? {_WHERE}{MEM}(?![^,;]*\bnicht\b)",
        rf"{_USE}{_YOU} {_WHERE}(?:kein(?:e|en|erlei)? {MEM}|{MEM} {_WHERE}nicht|nicht {MEM})",
        rf"(?:keine? {MEM} {_WHERE}|{MEM} {_WHERE}nicht (?:mehr )?){_USING}",
        rf"{MEM} {_WHERE}(?:ignorieren|weglassen|ausschalten|abschalten|deaktivieren)",
        rf"{MEM} {_WHERE}(?:ignorierst|nicht (?:benutzt|verwendest|nutzt))",
        rf"greife?(?:n sie)? nicht auf {MEM} zu(?:rück)?",
        rf"schalte?(?:n sie)? {MEM} {_WHERE}(?:aus|ab)",
        rf"lass{_YOU} {MEM} {_WHERE}(?:weg|beiseite|aussen vor|aus dem spiel|raus)",
        rf"(?:tue?|mach|antworte) so,? als (?:hättest|hätten|ob) (?:du|sie) keine? {MEM}(?: hättest)?",
        rf"{_ANSWER}\b[^,;]{{0,50}}? ohne {MEM}",
        rf"ohne {MEM}(?=[,:]| (?:antworten|beantworten|erklären|lösen))(?: \w+)?",
    ),
    stops=(rf"hör{_YOU} auf,? {MEM} zu {_USING}",),
    again=(
        rf"{_USE}e? {MEM} wieder",
        rf"(?:du (?:kannst|darfst) )?{MEM} wieder {_USING}",
        rf"schalte? {MEM} wieder (?:ein|an)",
    ),
    free=(rf"\bohne (?:auf )?¤(?: zu {_USING}| zurückzugreifen| zuzugreifen)?",),
    tail=rf"(?={END}| {_AFTER}\b)",
    lasting=any_word_of(
        r"""\bgespräch\b, \bunterhaltung\b, \bsitzung\b, \bkonversation\b, \bchat\b, \bdialog\b, ab jetzt, ab sofort,
        ab hier, von nun an, von jetzt an, für den rest, nicht mehr, künftig, in zukunft, bis ich"""
    ),
    asks=r"\b(?:kannst|könntest|würdest) du\b|\b(?:können|könnten|würden) sie\b|\bbitte\b",
    doubts=r"\b"
    + any_word_of(
        r"""cpu, gpu, heap, ram, arbeitsspeicher, leck\w*, leaks?, alloc\w*, malloc, profil\w*, verbrauch, swap, latenz,
        durchsatz, [kmg]i?b, bytes?, zeiger, benchmarks?, laufzeit, festplatte, kernel, docker, puffer, stack,
        metrik\w*, spalte"""
    )
    + r"\b",
)
