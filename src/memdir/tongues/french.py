"""French relative dates as a table. "le lundi" is a habit and left alone; a bare "lundi" is the coming one.

"hier" is also a very common German word, so it counts only in a line that looks French.
"""

from memdir.tongues.grammar import BARE, NAMED, OFFSETS, PERIODS, Tongue, What, count_words, periods, split

FRENCH = Tongue(
    forms=(
        ("après-demain", What.DAY, 2),
        ("avant-hier", What.DAY, -2),
        ("aujourd['’]hui", What.DAY, 0),
        ("demain", What.DAY, 1),
        ("hier", What.DAY, -1),
        ("ce soir", What.DAY, 0, " au soir"),
        ("ce matin", What.DAY, 0, " au matin"),
        ("cet après-midi", What.DAY, 0, " après midi"),
        ("{W} de la semaine prochaine", What.IN_WEEK, 1),
        ("{W} de cette semaine", What.IN_WEEK, 0),
        ("{W} de la semaine (?:dernière|passée)", What.IN_WEEK, -1),
        ("la semaine prochaine,? {W}", What.IN_WEEK, 1),
        ("(?:[Ll]e )?{W} prochain", What.COMING, 0),
        ("ce {W}", What.COMING, 0),
        ("(?:[Ll]e )?{W} (?:dernier|passé)", What.PREVIOUS, 0),
        ("{W}", What.WEEKDAY, 0),
        ("dans {N} jours?", What.DAYS, 1),
        ("dans {N} semaines?", What.WEEKS, 1),
        ("dans {N} mois", What.MONTHS, 1),
        ("dans {N} (?:ans?|années?)", What.YEARS, 1),
        ("il y a {N} jours?", What.DAYS, -1),
        ("il y a {N} semaines?", What.WEEKS, -1),
        ("il y a {N} mois", What.MONTHS, -1),
        ("il y a {N} (?:ans?|années?)", What.YEARS, -1),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in de (?:la|cette) semaine", What.WEEK_END, 0),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in de la semaine prochaine", What.WEEK_END, 1),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in du mois prochain", What.MONTH_END, 1),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in (?:du|de ce) mois", What.MONTH_END, 0),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in du trimestre prochain", What.QUARTER_END, 1),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in (?:du|de ce) trimestre", What.QUARTER_END, 0),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in de l['’](?:année prochaine|an prochain)", What.YEAR_END, 1),
        ("(?:(?:[Àà] )?[Ll]a )?[Ff]in de (?:l['’]|cette )année", What.YEAR_END, 0),
        *periods(
            1,
            week="la semaine prochaine",
            month="(?:[Ll]e )?mois prochain",
            quarter="(?:[Ll]e )?trimestre prochain",
            year="l['’](?:année prochaine|an prochain)",
        ),
        *periods(
            -1,
            week="la semaine (?:dernière|passée)",
            month="(?:[Ll]e )?mois (?:dernier|passé)",
            quarter="(?:[Ll]e )?trimestre (?:dernier|passé)",
            year="l['’](?:année (?:dernière|passée)|an dernier)",
        ),
        *periods(0, week="cette semaine", month="ce mois(?:-ci)?", quarter="ce trimestre", year="cette année"),
    ),
    weekdays=("[Ll]undi", "[Mm]ardi", "[Mm]ercredi", "[Jj]eudi", "[Vv]endredi", "[Ss]amedi", "[Dd]imanche"),
    numbers={"un": 1, "une": 1} | count_words("deux trois quatre cinq six sept huit neuf dix onze douze", 2),
    stems=split(
        "demain,hier,aujourd,soir,matin,midi,semaine,lundi,mardi,mercredi,jeudi,vendredi,samedi,dimanche,jour,"
        "mois,dans, y a,année,l'an,l’an,trimestre"
    ),
    before={
        BARE: r"\b(?:[Ll]e|[Ll]es|un|[Cc]haque|du|au|des|ce|cet|tout|tous|certains|premier|deuxième|"
        r"troisième|dernier|entre|prochain)\s+",
        (What.COMING, What.PREVIOUS): r"\b(?:chaque|tous|le|un)\s+",
        (What.DAY,): r"(?:\b(?:le|un|du|des)\s+|(?<!partir )(?<!compter )(?<!jusqu’)(?<!jusqu')\bd['’])",
        PERIODS: r"\b(?:chaque|toute|de tout|un|dernière|première)\s+",
        OFFSETS: r"\b(?:environ|fait|terminé|fini|achevé|depuis|fois)\s+",
    },
    after={
        NAMED: r"\s+(?:saint|gras|noir|de\s+(?:Pâques|Pentecôte|l['’]Ascension)|des\s+(?:Cendres|Rameaux)|"
        r"(?:du|de\s+chaque)\s+mois|suivant|précédent|sur\s+deux)",
        OFFSETS: r"\s+(?:de|que|d['’]|par|et\s+demie?|ou)\b",
        PERIODS: r"-là|\s+(?:de|du)\s",
        (What.DAY,): r"['’-]\w",
    },
    prepositions={
        "avant": ("avant le", "avant", ""),
        "après": ("après le", "après", ""),
        "pour": ("pour le", "pour", ""),
        "dès": ("dès le", "dès", ""),
        "depuis": ("depuis le", "depuis", ""),
        "d'ici": ("d'ici le", "d'ici", ""),
        "d’ici": ("d’ici le", "d’ici", ""),
        "d'ici à": ("d'ici au", "d'ici", ""),
        "d'ici au": ("d'ici au", "d'ici", ""),
        "à": ("au", "en", ""),
        "jusqu'à": ("jusqu'au", "jusqu'en", ""),
        "jusqu’à": ("jusqu’au", "jusqu’en", ""),
        "jusqu'au": ("jusqu'au", "jusqu'en", ""),
        "jusqu'": ("jusqu'au ", "jusqu'en ", ""),
        "jusqu’": ("jusqu’au ", "jusqu’en ", ""),
        "de": ("du", "de", ""),
        "du": ("du", "de", ""),
        "à partir de": ("à partir du", "à partir de", ""),
        "à partir du": ("à partir du", "à partir de", ""),
        "à partir d'": ("à partir du ", "à partir de ", ""),
        "à partir d’": ("à partir du ", "à partir de ", ""),
        "à compter de": ("à compter du", "à compter de", ""),
        "au": ("au", "en", ""),
        "en": ("le", "en", ""),
        "le": ("le", "en", ""),
    },
    glue={"day": "le", "offset": "le", "span": "en", "year": "en", "week": ""},
    past=("depuis",),
    habit=r"\b(?:hebdomadaires?|toujours|chaque semaine|toutes les semaines|d['’]habitude|habituellement)\b",
    verbs="est|était|sera|a|aura|doit",
    needs=(
        "[Hh]ier",
        r"\b(?:nous|vous|été|avons|avait|était|est|pour|dans|une|aux|avec|qui|sur|pas|les|depuis|livré|déployé|"
        r"c['’]est)\b",
        r"\b(?:der|das|und|ist|nicht|wir|ich|ein|eine|auf|mit|für|zu|im|den|dem|wird|nur|auch|werden|sind|steht|"
        r"liegt)\b",
    ),
    week="la semaine du {}",
)
