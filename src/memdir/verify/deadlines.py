"""Dates that end something: "freeze until 2026-03-05", "due March 5, 2026", "spätestens 5. März 2026".

A date of an observation ("as of 2026-03-05") claims nothing that could pass, nor does a sentence about the past. Dates
are absolute here: relative ones become so when a memory is written.
"""

import re
from collections.abc import Iterator
from datetime import date

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar janvier enero",
            "february feb februar février febrero",
            "march mar märz mars marzo",
            "april apr avril abril",
            "may mai mayo",
            "june jun juni juin junio",
            "july jul juli juillet julio",
            "august aug août agosto",
            "september sep sept septembre septiembre",
            "october oct oktober octobre octubre",
            "november nov novembre noviembre",
            "december dec dezember décembre diciembre",
        ),
        1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DATE = re.compile(
    rf"""
      (?<![\d/-])(?P<y1>\d{{4}})-(?P<m1>\d{{2}})-(?P<d1>\d{{2}})(?![\d])
    | (?<!\w)(?P<m2>{_MONTH})\.?\ (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\ (?P<y2>\d{{4}})(?!\w)
    | (?<!\w)(?P<d3>\d{{1,2}})(?:\.|st|nd|rd|th)?\ (?:de\ )?(?P<m3>{_MONTH})\.?(?:,|\ de)?\ (?P<y3>\d{{4}})(?!\w)
    | (?P<y4>\d{{4}})年(?P<m4>\d{{1,2}})月(?P<d4>\d{{1,2}})日
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LEADS = re.compile(
    r"\b(?:until|till|deadline|no later than|expires?|"
    r"bis|spätestens|frist|jusqu'?\w*|au plus tard|échéance|hasta|fecha límite|a más tardar)\b|截止|期限|最迟|最晚",
    re.IGNORECASE,
)
# Words that end something only right before a date: "by Anna on", "due to the outage of" say when something was.
_CLOSE_LEADS = re.compile(
    r"\b(?:by|due(?: date)?|end(?:s|ing)?(?: date)?|closes?|freeze|frozen|at the latest)\b"
    r"(?:[\s:,(*]|\b(?:on|at|is|the|of|end|eod|cob|noon|midnight|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b)*\Z",
    re.IGNORECASE,
)
_STARTS = re.compile(
    r"\b(?:from|since|after|start(?:s|ing)?|begin(?:s|ning)?|seit|ab|von|desde|depuis)(?: on)?[\s:(]*\Z", re.IGNORECASE
)
_TRAILS = re.compile(r"(?:まで|前|之前|为止|\s+(?:deadline|cut-?off|freeze)\b)")
_PAST = re.compile(
    r"\b(?:was|were|had|did|ended|expired|shipped|released|merged|happened|closed|fixed|done|completed|passed|finished|"
    r"war|waren|wurde|était|fue|decided|since|as of|verified|observed|measured)\b",
    re.IGNORECASE,
)
_LEAD_CHARS = 50
_STOPS = re.compile(r"[.;!?。！？]\s|[。！？]")


def find_deadlines(prose: str) -> Iterator[tuple[date, int, int]]:
    """Each date in a line of prose that something ends with, and its place."""
    for match in _DATE.finditer(prose):
        day = _read_date(match)
        lead = prose[max(0, match.start() - _LEAD_CHARS) : match.start()]
        lead = _STOPS.split(lead)[-1]
        trail = prose[match.end() : match.end() + _LEAD_CHARS]
        said = _LEADS.search(lead) or _CLOSE_LEADS.search(lead) or _TRAILS.match(trail)
        if (
            day is not None
            and said
            and not _STARTS.search(lead)
            and not _PAST.search(lead + " " + _STOPS.split(trail)[0])
        ):
            yield day, match.start(), match.end()


def _read_date(match: re.Match[str]) -> date | None:
    parts = {key[0]: value for key, value in match.groupdict().items() if value is not None}
    month = _MONTHS.get(parts["m"].lower()) or (int(parts["m"]) if parts["m"].isdecimal() else 0)
    try:
        return date(int(parts["y"]), month, int(parts["d"]))
    except ValueError:
        return None
