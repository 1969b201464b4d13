"""Spanish relative dates as a table. A weekday needs its article ("el jueves"); the plural ("los jueves") is a habit.

"mañana" is tomorrow only where it cannot be the morning.
"""

from memdir.language.grammar import NAMED, OFFSETS, PERIODS, DateForm, DateLanguage, count_words, periods, split_forms

SPANISH = DateLanguage(
    forms=(
        ("pasado mañana", DateForm.DAY, 2),
        ("anteayer", DateForm.DAY, -2),
        ("hoy", DateForm.DAY, 0),
        ("mañana", DateForm.DAY, 1),
        ("ayer", DateForm.DAY, -1),
        ("anoche", DateForm.DAY, -1, " por la noche"),
        ("esta noche", DateForm.DAY, 0, " por la noche"),
        ("esta mañana", DateForm.DAY, 0, " por la mañana"),
        ("esta tarde", DateForm.DAY, 0, " por la tarde"),
        ("(?:[Ee]l )?{W} de la (?:próxima semana|semana (?:próxima|que viene))", DateForm.IN_WEEK, 1),
        ("(?:[Ee]l )?{W} de esta semana", DateForm.IN_WEEK, 0),
        ("(?:[Ee]l )?{W} de la semana pasada", DateForm.IN_WEEK, -1),
        ("(?:[Ee]l )?{W} (?:próximo|que viene)", DateForm.COMING, 0),
        ("(?:[Ee]ste|(?:[Ee]l )?[Pp]róximo) {W}", DateForm.COMING, 0),
        ("(?:[Ee]l )?{W} pasado", DateForm.PREVIOUS, 0),
        ("(?:[Ee]l )?[Pp]asado {W}", DateForm.PREVIOUS, 0),
        ("el {W}", DateForm.WEEKDAY, 0),
        ("(?<=\\bdel\\x20){W}", DateForm.WEEKDAY, 0),
        ("(?<=\\bal\\x20){W}", DateForm.WEEKDAY, 0),
        ("(?:dentro de|en) {N} días?", DateForm.DAYS, 1),
        ("(?:dentro de|en) {N} semanas?", DateForm.WEEKS, 1),
        ("(?:dentro de|en) {N} mes(?:es)?", DateForm.MONTHS, 1),
        ("(?:dentro de|en) {N} años?", DateForm.YEARS, 1),
        ("hace {N} días?", DateForm.DAYS, -1),
        ("hace {N} semanas?", DateForm.WEEKS, -1),
        ("hace {N} mes(?:es)?", DateForm.MONTHS, -1),
        ("hace {N} años?", DateForm.YEARS, -1),
        ("(?:(?:el|al|a) )?(?:final|fin) de (?:la|esta) semana", DateForm.WEEK_END, 0),
        ("(?:(?:el|al|a) )?(?:final|fin) de la (?:próxima semana|semana que viene)", DateForm.WEEK_END, 1),
        ("(?:(?:el|al|a) )?(?:final|fin) del (?:próximo mes|mes que viene)", DateForm.MONTH_END, 1),
        ("(?:(?:el|al|a) )?(?:final|fin) de(?:l| este)? mes", DateForm.MONTH_END, 0),
        ("(?:(?:el|al|a) )?(?:final|fin) del próximo trimestre", DateForm.QUARTER_END, 1),
        ("(?:(?:el|al|a) )?(?:final|fin) de(?:l| este)? trimestre", DateForm.QUARTER_END, 0),
        ("(?:(?:el|al|a) )?(?:final|fin) del (?:próximo año|año que viene)", DateForm.YEAR_END, 1),
        ("(?:(?:el|al|a) )?(?:final|fin) de(?:l| este)? año", DateForm.YEAR_END, 0),
        *periods(
            1,
            week="la (?:próxima semana|semana (?:próxima|que viene))",
            month="(?:[Ee]l )?(?:próximo mes|mes (?:próximo|que viene))",
            quarter="(?:[Ee]l )?(?:próximo trimestre|trimestre (?:próximo|que viene))",
            year="(?:[Ee]l )?(?:próximo año|año (?:próximo|que viene))",
        ),
        *periods(
            -1,
            week="la (?:semana pasada|pasada semana)",
            month="(?:[Ee]l )?mes pasado",
            quarter="(?:[Ee]l )?trimestre pasado",
            year="(?:[Ee]l )?año pasado",
        ),
        *periods(0, week="esta semana", month="este mes", quarter="este trimestre", year="este año"),
    ),
    weekdays=("lunes", "martes", "mi[ée]rcoles", "jueves", "viernes", "s[áa]bado", "domingo"),
    numbers={"un": 1, "una": 1} | count_words("dos tres cuatro cinco seis siete ocho nueve diez once doce", 2),
    stems=split_forms(
        "mañana,ayer,hoy,noche,tarde,semana,lunes,martes,rcoles,jueves,viernes,bado,domingo,día,mes,año,trimestre"
    ),
    before={
        NAMED: r"\b(?:los|cada|todos|un|otro|primer|segundo|tercer|último|siempre|entre|[Tt]odo)\s+",
        (
            DateForm.DAY,
        ): r"\b(?:la|las|cada|una|toda|media|por|esta|buena|el|del|(?<!partir )(?<!ntes )(?<!espués )de)\s+",
        PERIODS: r"\b(?:cada|todo|toda|un|fin de|durante)\s+",
        OFFSETS: r"\b(?:desde|unos|hecho|terminado|terminamos|completado|listo|veces|vez|entre)\s+",
    },
    after={
        NAMED: r"\s+(?:[Ss]anto|[Nn]egro|de\s+(?:[Cc]eniza|[Rr]amos|[Rr]esurrección|[Pp]ascua|cada)|"
        r"del?\s+mes|siguiente|anterior|sí)",
        (DateForm.DAY,): r"\s+en\s+(?:día|adelante)",
        OFFSETS: r"\s+(?:de|que|por|y\s+medi[oa]|o)\b",
        PERIODS: r"\s+del?\s",
    },
    prepositions={
        "antes de": ("antes del", "antes de", ""),
        "después de": ("después del", "después de", ""),
        "a partir de": ("a partir del", "a partir de", ""),
        "desde": ("desde el", "desde", ""),
        "hasta": ("hasta el", "hasta", ""),
        "para": ("para el", "para", ""),
        "de": ("del", "de", ""),
        "del": ("del", "de", ""),
        "al": ("al", "en", ""),
        "en": ("el", "en", ""),
        "hacia": ("hacia el", "hacia", ""),
    },
    glue={"day": "el", "offset": "el", "span": "en", "year": "en", "week": ""},
    habit=r"\b(?:semanal(?:es|mente)?|siempre|cada semana|todas las semanas|habitualmente)\b",
    verbs="es|era|fue|será|ha|tiene",
    week="la semana del {}",
)
