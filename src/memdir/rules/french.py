"""French: « souviens-toi que », « désormais », « arrête de », « continue comme ça », « je suis infirmière »."""

from memdir.language.grammar import RequestCategory, RequestLanguage, RuleNeed, any_of, make_request_rule, words_of
from memdir.records import Kind
from memdir.rules.systems import SYSTEM

_LATER = any_of(
    r"""pour (?:plus tard|la suite|l'avenir|la prochaine fois|les prochaines fois|les prochaines \w+|toujours|
    les futures \w+), à l'avenir, désormais, s'il te plaît,
    s'il vous plaît, stp, svp, bien, aussi, dès maintenant, une fois pour toutes, dorénavant, ceci, cela, ça,
    ce qui suit"""
)
_COLON = r"(?:[\s,:–—-]+(?:que\b|qu')?:?\s*)"
_NOUNS = any_of(
    r"""(?:les |des )?messages? de commit, commits?, réponses?, branches?, prs?, commentaires?, noms de (?:variables?|
    branches?), tests?, le code, code, doc, documentation,
    erreurs?, textes?, migrations?, logs?, imports?, exemples?, résumés?"""
)
_DUE = any_of(
    r"""(?:audit|démo|release|lancement|livraison) (?:est|aura lieu|sera), échéance, date limite, deadline, gel,
    mise en production, livraison, sortie, lancement, expire\w*, se termine, commence(?:nt)?, débute(?:nt)?,
    démarre(?:nt)?, fin de, coupure, coupé\w*,
    audit, démo, migration,
    doit, doivent, devons, faut, rendre, basculer, arrêt\w*, repoussée?, reportée?, sort, ferme"""
)
_SAVES = (
    r"(?:pour (?:l'avenir|plus tard|la suite|la prochaine fois|mémoire)|à (?:noter|retenir|ne pas oublier)|"
    r"ne pas oublier|mémo|important à retenir)\s*: *(?P<what>.+)",
    r"(?:pense|songe)(?:,? pour (?:la suite|plus tard|l'avenir),?)? que (?P<what>.+)",
    rf"(?:souviens-toi|rappelle-toi|mémorise|retiens|n'oubliez? (?:pas|jamais)|note|notez|enregistre|sauvegarde|"
    rf"retenez|"
    rf"souvenez-vous|garde|gardez)(?: (?:bien|aussi|ceci|cela|ça|en (?:tête|mémoire|note)|dans (?:ta|votre) mémoire|"
    rf"à l'esprit))*(?:[\s,]+{_LATER})*(?:,? (?:que|qu')(?:\b|(?<='))|\s*:| ceci\s*:) *(?P<what>.+)",
    rf"(?:merci|pense|pensez|veille) (?:de|à) (?:bien )?(?:noter|retenir|mémoriser|te souvenir|garder en tête|"
    rf"te rappeler)(?:[\s,]+{_LATER})*{_COLON}(?P<what>.+)",
    rf"(?:garder|noter|retenir|mémoriser|te souvenir|te rappeler|enregistrer)(?: (?:en tête|en mémoire|bien|"
    rf"à l'esprit))*(?:[\s,]+{_LATER})*(?:,? (?:que|qu')(?:\b|(?<='))|\s*:) *(?P<what>.+)",
    r"(?:souviens-toi|rappelle-toi|souvenez-vous|pense|n'oubliez? pas)(?: bien)? (?:de|à) (?P<what>(?:ne (?:pas|jamais|"
    r"plus)|toujours)\b .+)",
    r"prends(?: bien| en)* (?:note|compte)(?: que| qu'|\s*:) *(?P<what>.+)",
    r"(?:petite |une |autre )*(?:note|mémo|remarque|consigne|règle) (?:à moi-même|pour (?:plus tard|toi|la suite|"
    r"l'avenir|la prochaine fois))\s*: *(?P<what>.+)",
    r"(?:petite note|une note|mémo|nouvelle (?:consigne|règle)|consigne|à (?:noter|retenir))\s*: *(?P<what>.+)",
    r"(?:enregistre|ajoute|mets|écris|garde)(?: (?:ceci|ça|cela))? (?:dans|en|à) (?:ta |la |votre )?mémoire(?: que|"
    r" qu'|\s*:) *(?P<what>.+)",
    r"(?:il faut que tu|je veux que tu|j'aimerais que tu|tu dois) (?:te souviennes|retiennes|saches|gardes en tête|"
    r"retenir|savoir|te rappeler)(?: que| qu'|\s*:) *(?P<what>.+)",
    r"(?:note|mets|garde|écris)(?: ça| ceci)? (?:quelque part|dans un coin|dans tes notes)(?: que| qu'|"
    r"\s*:) *(?P<what>.+)",
    r"sache(?:,? pour .{4,30},?)? (?:que |qu')(?P<what>.+)",
    r"pour (?:les prochaines (?:fois|sessions|conversations)|la prochaine fois|toutes les sessions|"
    r"les sessions (?:suivantes|futures))\s*[:,] *(?P<what>.+)",
)
_SAVED_BEFORE = (
    r"(?P<what>.{12,}?)[,;.:–—-]+ *(?:et |donc )*(?:souviens-t'en|retiens-le|retiens (?:ça|bien)|note-le|note ça|"
    r"garde(?:-le| ça) en (?:tête|mémoire)|n'oublie pas)(?: stp| svp| s'il te plaît| merci)*[.! ]*$",
)
_WISHES = (
    r"(?:je préf(?:ère|érerais)|j'aime(?:rais)?(?: bien| mieux)?|il vaut mieux|(?:ce serait|c'est) (?:mieux|"
    r"plus simple|bien)"
    r"(?: pour moi)?)"
)
_LASTING = (
    rf"(?P<what>{_WISHES} (?:que|si|quand) tu .+(?:à chaque fois|chaque fois|toujours|jamais|systématiquement|"
    rf"désormais|"
    r"partout)\b.*)",
    r"merci de (?:toujours |ne (?:plus )?jamais |bien vouloir toujours )(?P<what>.+)",
    r"(?:je veux|j'aimerais|je voudrais|il faut) que tu (?P<what>.{0,40}(?:toujours|jamais|systématiquement)\b.+)",
    r"(?:à partir de (?:maintenant|ce jour)|à partir d'aujourd'hui|désormais|dorénavant|dès maintenant|dès à présent|"
    r"à l'avenir|la prochaine fois|en général|par défaut|une fois pour toutes)[\s,:]+(?P<what>.+)",
    r"(?P<what>(?:ne |n')(?!(?:marche|fonctionne|passe|répond|termine|finit|arrive|charge|"
    r"démarre)\b).{3,40} (?:plus )?jamais\b.*)",
    r"(?P<what>(?:toujours|ne jamais|jamais) (?:(?:me |te |bien |d'abord )?\w+(?:er|ir|re)\b|de \w|d'\w).+)",
    r"(?P<what>(?!c'est|j'ai|je|il|elle|le|la|les|on|nous|ce|ça|tu)(?:[\w'-]+(?:-moi)?) (?:toujours|"
    r"systématiquement) .+)",
    r"(?P<what>(?!c'est|j'ai|je|il|elle|le |la |les |on |nous|ce|ça|tu).{6,60}[,.]? (?:désormais|dorénavant|"
    r"à l'avenir|à partir de maintenant|à chaque fois)[.! ]*$)",
    r"(?P<what>(?:chaque fois que|à chaque fois que|quand|avant que) (?:tu|vous) .{4,60}, (?!c'est|ça|il|je)\w+.+)",
)
_CORRECTIONS = (
    rf"(?P<what>(?!.*\b(?:maintenant|aujourd'hui|tout de suite)\b){_WISHES} (?:que|si|quand) tu .{{6,}})",
    r"(?P<what>(?:ici|chez nous|dans ce projet),? c'est .{3,50}(?:pour tou\w+|partout|pour chaque|, pas|et pas)\b.*)",
    r"(?P<what>(?:moins|plus) (?:de |d')[\w' -]{3,30}(?:,| et) (?:plus|moins|davantage) (?:de |d').+)",
    r"(?P<what>(?:moins|plus|davantage) (?:de|d') ?[\w' -]{3,40},? (?:s'il te plaît|s'il vous plaît|stp|svp|merci|"
    r"seulement|uniquement)\b.*)",
    r"(?P<what>(?:chez nous|ici|dans ce projet|dans l'équipe),? .{3,60}(?:,|et) (?:pas|jamais|et non) .+)",
    r"(?P<what>(?:plus|pas) (?:de|d') ?[\w' -]{3,40} (?:à la fin|partout|dans (?:les|le|la))\b.*)",
    r"(?P<what>(?:arrête|arrêtez|cesse)(?: (?:donc|stp|svp|s'il te plaît|un peu))* (?:de |d'|avec ).+)",
    r"(?P<what>(?:ce n'est|c'est|c') ?pas (?:comme ça|ainsi|de cette façon) qu'on .+)",
    r"(?P<what>(?:ici|chez nous|dans ce projet|dans l'équipe|dans notre \w+),? (?:on|nous) .{4,})",
    r"(?P<what>on (?:n'|ne )?\w+ (?:pas|jamais|plus|toujours|que) .{2,60}(?:ici|chez nous|dans ce projet|"
    r"dans cette équipe|dans le projet)\b.*)",
    r"(?P<what>(?:évite|évitez) (?:de |d'|les |le |la |l').{4,})",
    r"(?P<what>tu n'as pas (?:besoin de|à) .{6,})",
    r"(?P<what>(?:ne |n')(?:me |m')?\w+ (?:pas|plus) .{4,}(?:à chaque fois|sans me demander|à la main|partout|"
    r"en général|jamais|toujours)\b.*)",
)
_CORRECTIONS_GENERAL = (
    r"(?P<what>(?:ne |n')\w+ (?:pas|plus) .{4,})",
    r"(?P<what>(?:pas|plus) (?:de|d') ?.{4,})",
    r"(?P<what>(?:utilise|mets|écris|réponds|fais|préfère|garde|demande|nomme) .{4,})",
    r"(?P<what>c'est trop (?:long|court|détaillé|verbeux)\b.+)",
)
_CONFIRMATIONS = (
    r"(?:continue|continuez|reste|garde)(?: toujours| bien)? (?:comme ça|ainsi|sur cette voie|cette façon|ce format|"
    r"à faire|de faire)\b.*",
    r"(?:fais|faites|fait) (?:toujours |le |bien |tout )*(?:comme ça|ainsi|pareil|de même)\b.*",
    r".{6,}(?:c'est|c'était|est|était) (?:exactement |précisément |vraiment )?(?:ce que je veux|comme ça que je|"
    r"le bon choix|la bonne (?:décision|approche|façon)|ce que j'attends)\b.*",
    r"(?:bonne|excellente) (?:décision|idée|approche) (?:de|d'|pour) .+",
    r"(?:j'aime|j'apprécie|j'adore) (?:bien |beaucoup )?(?:que tu|quand tu|le fait que tu|ta façon de|comment tu) .+",
    r"tu as (?:bien fait|eu raison) de .+",
)
_ROLE = any_of(
    r"""(?:data )?scientist, data \w+, (?:\w+ )?(?:développeu(?:r|se)|dev|ingénieure?|designer|cheffe? de \w+|
    responsable|architecte|analyste|enseignante?|prof|professeure?|chercheu(?:r|se)|étudiante?|médecin|infirmi(?:er|
    ère)|
    avocate?|consultante?|freelance|indépendante?|rédact(?:eur|rice)|traduct(?:eur|rice)|administrat(?:eur|rice)|
    graphiste|comptable|doctorante?|stagiaire|alternante?|débutante?|novice|expert|experte|végétarien|végétarienne|
    végane?|
    daltonien|daltonienne|dyslexique|gauch(?:er|ère)|retraitée?|journaliste|lead|product owner|scrum master|admin|sre|
    devops)"""
)
_IDENTITIES = (
    r"(?P<what>je viens (?:du|de la|de l'|d'un) (?:monde|milieu|univers|secteur) .+)",
    r"(?P<what>.{2,30} est (?:tout )?nouve(?:au|lle) pour moi\b.*)",
    rf"(?P<what>(?:moi,? )?je suis (?:une? |le |la |l'|plutôt |aussi |actuellement |seule? |seule |"
    rf"\w+ ){{0,3}}?{_ROLE}\b.*)",
    r"(?P<what>je (?:travaille|vis|habite|étudie|enseigne) (?:à|en|dans|chez|comme|depuis|au|aux|pour|surtout|"
    r"principalement) .+)",
    r"(?P<what>je (?:dirige|gère|maintiens|m'occupe (?:de|du|des)|suis (?:responsable|chargée?) (?:de|du|des)) .+)",
    r"(?P<what>(?:je (?:fais|code|programme|développe|écris)|ça fait) .{2,40}depuis .*(?:ans|années)\b.*)",
    r"(?P<what>ma (?:langue maternelle|fonction|spécialité) est .+|mon (?:métier|rôle|fuseau horaire|travail) est .+)",
    r"(?P<what>en tant que? ?(?:qu')?\w+.*,? je (?!veux|voudrais|dois|peux).+)",
    r"(?P<what>je (?:connais|maîtrise) (?:bien|très bien|mal|peu|surtout) .+)",
)
_PLACED = (
    r"(?:se trouv\w+|sont|est|vivent|vit|est suivie?|sont suivie?s|arrivent?|vont|passent?|tu (?:trouveras|"
    r"trouves)|on (?:trouve|suit|note)|figurent?|atterrissent?)"
)
FRENCH = RequestLanguage(
    name="fr",
    leads=any_of(
        r"""ok, oui, non, mais, et, donc, alors, aussi, ah, euh, bon, bien, super, parfait, merci, génial, nickel, stp,
    svp, s'il te plaît, s'il vous plaît, peux-tu, pourrais-tu, tu peux, tu pourrais, veux-tu, je veux que tu,
    j'aimerais que tu, au fait, d'ailleurs,
        pour info, attention, important, dis, bonjour, salut, encore une chose, une chose, comme je l'ai dit,
        je te l'ai déjà dit, exactement, maintenant, désolé"""
    ),
    rules=(
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:oublie|oubliez|supprime|efface|retire|enlève|supprimer|oublier|effacer)(?: (?:donc|stp|"
            r"svp))* (?:de (?:ta|la) mémoire )?(?:ce que (?:j'ai|je t'ai) dit (?:sur|à propos d[eu]|au sujet d[eu]|"
            r"de|concernant)|que|qu'|(?:la|les|ma|mes|le) (?:consignes?|règles?|notes?|préférences?|instructions?|"
            r"souvenirs?|remarques?|truc)(?: (?:sur|de|du|des|d'|concernant|que|qui))?|l'(?:instruction|"
            r"histoire)(?: (?:sur|de|du|des))?)(?: |(?<='))(?P<what>.+)",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:supprime|efface|retire|enlève|supprimer|effacer|retirer) (?P<what>.+?) de (?:ta|la|votre) mémoire\b",
            RuleNeed.STRONG,
        ),
        make_request_rule(
            RequestCategory.FORGET,
            r"(?:tu peux |vous pouvez )?oublie[rz]? (?:l'histoire|le truc|ce) (?:de|du|des|avec) (?P<what>.+)",
            RuleNeed.STRONG,
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG, RuleNeed.WHOLE) for at in _SAVED_BEFORE),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.STRONG) for at in _SAVES),
        *(
            make_request_rule(RequestCategory.CONFIRMATION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CONFIRMATIONS
        ),
        *(make_request_rule(RequestCategory.REQUEST, at, RuleNeed.LASTING, default=Kind.FEEDBACK) for at in _LASTING),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS
        ),
        make_request_rule(
            RequestCategory.REQUEST, r"(?P<what>(?:évite|évitez) .{6,})", RuleNeed.GENERAL, kind=Kind.FEEDBACK
        ),
        *(
            make_request_rule(RequestCategory.CORRECTION, at, RuleNeed.ANSWERED, RuleNeed.GENERAL, kind=Kind.FEEDBACK)
            for at in _CORRECTIONS_GENERAL
        ),
        make_request_rule(
            RequestCategory.DECISION,
            r"(?P<what>(?:on a|nous avons|l'équipe a|la direction a|le client a|le chef a|le juridique a|il a été|"
            r"c'est) (?:\w+ ){0,2}(?:décidé|tranché|convenu|acté|annulé|validé|reporté|choisi|abandonné)\b.*)",
            RuleNeed.WHOLE,
            kind=Kind.PROJECT,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>(?!je\b|j')[^,;]{{3,60}}? {_PLACED} .{{0,40}}?{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>pour (?:l'|les |toute |des |la |le )?[\w' -]{{3,30}},? (?:c'est|voir|demande[rz]?|il y a|"
            rf"on utilise|le canal|va sur).*{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        make_request_rule(
            RequestCategory.POINTER,
            rf"(?P<what>pour (?:les |toute |des )?(?:questions?|problèmes?)\b.*{SYSTEM}.*)",
            RuleNeed.WHOLE,
            kind=Kind.REFERENCE,
        ),
        *(make_request_rule(RequestCategory.IDENTITY, at, kind=Kind.USER) for at in _IDENTITIES),
        make_request_rule(
            RequestCategory.DEADLINE,
            rf"(?P<what>(?!je\b|j')(?:(?!\bje\b|\bj'|\bmon\b|\bma\b).){{2,90}}?\b{_DUE}\b.+)",
            RuleNeed.WHOLE,
            RuleNeed.DATED,
            kind=Kind.PROJECT,
        ),
    ),
    asks=r"^(?:\W*(?:ok|et|dis|stp|bonjour|salut|merci),?\s*)*(?:peux-tu|pourrais-tu|tu peux|tu pourrais|veux-tu|"
    r"pouvez-vous|est-ce que tu peux)\b",
    questions=r"(?:et |mais |alors )*(?:que\b|qu'est|quoi|quel(?:le)?s?|comment|pourquoi|qui|où|quand\b(?! (?:tu|"
    r"vous))|combien|est-ce|c'est quoi|rappelle-moi (?:ce|comment|où|quel)|tu te souviens|te souviens-tu|sais-tu|"
    r"faut-il|dois-je)",
    reported=r"\b(?:il dit|elle dit|a dit|disent|si je|quand je te|imagine|chanson|film|titre|commentaire|traduis|"
    r"traduire|scène|case)\b",
    refusals=r"(?:ne |n')?(?:le |la |l'|les )?(?:garde|note|enregistre|retiens|mémorise)[rz]? (?:pas|rien|nulle part|"
    r"surtout pas)\b|sans (?:l'|le |la )?(?:enregistrer|mémoriser|retenir)|entre nous|inutile de (?:retenir|noter|"
    r"mémoriser|enregistrer)|ça ne vaut pas la peine de|(?:pas (?:besoin|la peine) (?:de |d')(?:retenir|noter|"
    r"mémoriser|enregistrer|te souvenir|garder))|(?:ne |n')(?:le |la |l'|les )?(?:retiens|note|mémorise|enregistre|"
    r"sauvegarde|garde|conserve)\w* (?:pas|rien|nulle part)|oublie ce que (?:j'ai|je viens de) (?:dit|"
    r"dire)\s*(?:[.!,]|$)",
    tasks=r"\b(?:ce(?:tte|t)? (?:pr|fonction|fichier|classe|méthode|test|branche|commit|ligne|boucle|module|page|"
    r"fois)|pour l'instant|pour le moment|cette fois|ligne \d+|plus bas|plus haut|ci-dessous|boucle|renomme|"
    r"aujourd'hui seulement|avant de commiter ça)\b",
    states=r"\bje suis (?:encore|toujours) sur\b|en ce moment|"
    r"\b[a-z] est un|\b(?:(?:le|la) (?:champ|tableau|liste|boucle|variable|paramètre) (?:est|peut)|"
    r"juste pour aujourd'hui|seulement aujourd'hui|pour cette (?:session|conversation)|temporairement|étape \d|"
    r"dans cette fonction|pour cette (?:question|tâche)|écris .{0,20}dans le readme|pour l'instant|"
    r"avant de commiter ça)\b",
    idle=r"(?:le (?:port|serveur|nom|champ|paramètre)|la (?:variable|fonction|boucle)|l'(?:url|index)|tout (?!nouve)|"
    r"je|j'|il|elle|ça|on verra|l'indice|les tests passent|peut-être)(?:\b|(?<='))(?! (?:veux|voudrais|préfère|"
    r"aimerais))",
    general=r"\b(?:toujours|jamais|chaque|tous|toutes|partout|en général|par défaut|chez nous|ici|dans ce projet|sauf|"
    r"sans me demander|tes réponses|systématiquement|à la main)\b",
    pronouns=r"(?:fais |garde |note )?(?:ça|cela|ceci|le|comme ça)\b\W*(?:$|stp|svp)",
    vouches=r"\b(?:règle|convention|c'est comme ça qu'on|vaut pour|valable pour|en général)\b",
    refers=r"\b(?:ça|cela|le|les)\b",
    that=r"(?:[\s,:–—-]|que\b|qu'|aussi\b|bien\b)+",
    tail=r"[\s,]*\b(?:stp|svp|s'il te plaît|s'il vous plaît|merci|d'accord|ok)[.!?\s]*$",
    why=r"[,;]?\s+(?:parce qu(?:e |')|car |puisqu(?:e |')|vu que )(?P<why>.{8,})$",
    about_me=r"(?:je\b|j'|mon\b|ma\b|mes\b|moi\b)",
    prefers=r"(?:je (?:préfère|veux|voudrais|n'aime pas|déteste|ne veux pas)|j'aime(?:rais)?|j'aimerais)\b",
    directs=rf"(?:on (?!a\b|est\b|doit\b)(?:ne |n')?\w+|nous (?!avons|sommes|devons)\w+|toujours\b|jamais\b|ne \w+|"
    rf"n'\w+|pas d|(?:les |le |la |tous les |chaque )?{_NOUNS}\b|utilise|réponds|écris|demande)",
    praise=r"\b(?:super|parfait|merci|exactement|c'est|ce que je veux|continue|comme ça|fais|toujours|bien|oui|génial|"
    r"nickel|que|je|veux|reste|ainsi|encore)\b",
    goes_on=r"(?!(?:je|j'|c'est|tu|et puis|puis|ensuite|merci|peux|annule|corrige|remets|ok|que|pourquoi|"
    r"comment)(?:\b|(?<=')))[\w\"«]+",
    negates=r"\b(?:ne|n'|pas|jamais|aucune?|sans|plus|rien|ni)(?:\b|(?<='))",
    links=words_of("de du des d' à au aux en dans par pour sur avec"),
    empty=words_of(
        "le la les un une et ou mais que qui quoi où ce cet cette ces son sa ses leur leurs mon ma mes notre nos "
        "votre est sont était être a ont avoir il elle ils elles on nous "
        "vous je tu se y très aussi c'est suis bien tout toute tous toutes doit"
    ),
)
