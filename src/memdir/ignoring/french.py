"""French: "n'utilise pas ta mémoire", "ignore tes souvenirs", "réponds sans ta mémoire"."""

from memdir.language.grammar import END, MEM, IgnoreLanguage, any_word_of

_NOUN = r"(?:m[ée]moires?(?: enregistrées?)?|souvenirs(?: enregistrés)?|fichiers (?:de )?m[ée]moire)"
_ANSWER = r"(?:réponds?|répondez|répondre|explique)(?:-moi|-nous)?"
_AFTER = any_word_of(
    rf"""maintenant, ici, cette fois, aujourd'hui, complètement, totalement, entièrement, jusqu'à, quand tu,
    en répondant, merci,
    pour (?:cette|ce|l'instant|le (?:moment|reste)|la (?:prochaine|suite)|moi|répondre|ta|ma prochaine|toute),
    dans (?:cette|ce|ta|votre), lors de (?:cette|ta), à partir de, désormais, dorénavant,
    et (?:{_ANSWER}|dis|regarde|lis|commence|fais|donne|écris)\w*"""
)
_DO_NOT = (
    any_word_of(
        """n'(?:utilise|exploite)[sz]?, n'emploie, n'accède,
        ne (?:consulte|regarde|charge|mobilise|cite|mentionne)[sz]?,
        ne (?:lis|lisez|tiens|tenez|fais|faites|prends|prenez),
        ne (?:te sers|vous servez|t'appuie|vous appuyez|te base|vous basez),
        ne (?:te fie|vous fiez)"""
    )
    + r" (?:pas|plus|jamais) (?:compte |en compte |appel |usage )?(?:de |à |sur |dans )?"
)
_USING = any_word_of(
    """utiliser, consulter, te servir de, vous servir de, recourir à, faire appel à, t'appuyer sur, regarder, lire,
    employer"""
)

FRENCH = IgnoreLanguage(
    cues=any_word_of(
        """ignor, évit, pas, plus, jamais, sans, activ, coupe, teins, suspend, abstraction, de côté, arr, cess, utilis,
        reprends, comme si"""
    ),
    owned=(
        rf"\b(?:(?:(?:tout|toute|toutes|tous) )?(?:ta|tes|votre|vos) {_NOUN}|(?:(?:les|mes|ces) )?souvenirs|"
        r"ce dont tu te souviens|ce que tu as m[ée]moris[ée])(?![-/\w])"
    ),
    bare=rf"\b(?:(?:la|les|ma|mes|cette|ces) )?(?:{_NOUN}|memory)(?![-/\w])",
    fill=r"\b(?:s'il te pla[îi]t|s'il vous pla[îi]t|stp|svp|donc|juste|simplement)(?!\w),?",
    leads=any_word_of(
        r"""merci de, merci d', ok, d'accord, bon, bonjour, salut, maintenant, et, mais, alors, cette fois(?:-ci)?, ici,
        désormais, dorénavant, à partir de maintenant, pour cette \w+, pour ce \w+, pour l'instant, pour le moment,
        pour le reste de (?:la|cette) \w+, dans cette \w+, dans ta réponse, peux-tu, pourrais-tu, pouvez-vous,
        pourriez-vous, tu peux, tu dois, vous pouvez, je veux que tu, je voudrais que tu, j'aimerais que tu, essaie de,
        important, au fait, claude, non, oui"""
    ),
    cores=(
        rf"(?:ignor(?:e|es|ez|er)|{_DO_NOT}(?:d'|aucune? )?|(?:ne (?:pas|plus) |évite[rz]? d(?:'|e )){_USING}) ?{MEM}",
        rf"(?:d[ée]sactive|coupe|[ée]teins|suspends?)(?:r|z|s|ez)? {MEM}",
        rf"(?:fais|faites) (?:comme si (?:tu n'avais|vous n'aviez) (?:pas de|aucune?)|abstraction de) {MEM}",
        rf"(?:laisse|laissez|mets|mettez) {MEM} de côté",
        rf"{_ANSWER}\b[^,;]{{0,50}}? sans (?:{_USING} )?{MEM}",
        rf"pas de {MEM}(?= (?:pour (?:cette|ce)|dans (?:cette|ta)|ici|cette fois))",
        rf"sans (?:{_USING} )?{MEM}(?=[,:])",
    ),
    stops=(rf"(?:arrête|arrêtez|arrete|cesse|cessez) (?:d'|de ){_USING} {MEM}",),
    again=(
        rf"(?:(?:ré-?utilise|reprends|r[ée]active)[rz]?|n'ignore[sz]? plus) {MEM}",
        rf"utilise[rz]? (?:(?:à|de) nouveau {MEM}|{MEM} (?:à|de) nouveau)",
    ),
    free=(rf"\bsans (?:{_USING} )?¤",),
    tail=rf"(?={END}| {_AFTER}(?!\w))",
    lasting=any_word_of(
        r"""\bconversation\b, \bsession\b, \bdiscussion\b, \béchange\b, \bchat\b, désormais, dorénavant,
        à partir de maintenant, pour le reste, pour la suite, jusqu'à, plus jamais, \b(?:n'|ne )\S+(?: \S+)? plus\b"""
    ),
    asks=r"\b(?:peux|pourrais)-tu\b|\b(?:pouvez|pourriez)-vous\b|\btu peux\b|s'il te pla|s'il vous pla|\bstp\b|\bsvp\b",
    doubts=r"\b"
    + any_word_of(
        r"""cpu, gpu, tas, ram, fuites?, alloc\w*, malloc, profil\w*, consommation, swap, latence, débit, [kmg]i?[bo],
        octets?, pointeurs?, benchmarks?, disque, noyau, docker, tampon, pile, métriques?, colonne, processeur, vive,
        cache"""
    )
    + r"\b",
)
