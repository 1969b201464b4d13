"""Numbers, dates and times in one form: "3 May 2027" is 2027-05-03, "1,000" is 1000, "two" is 2.

Pure. It knows what a value covers, so that "in February 2027" and "on 2027-02-15" are not taken for a contradiction.
"""

import re
from datetime import date

from memdir.tidy.words import NUMBERS

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = {name: at for at, name in enumerate(_MONTHS, 1)} | {name[:3]: at for at, name in enumerate(_MONTHS, 1)}
_MONTH["sept"] = 9
_NAMES = "|".join(name.title() for name in sorted(_MONTH, key=len, reverse=True))
DATE = re.compile(
    rf"""
      (?<![\w.-])(?P<iso>\d{{4}}-\d\d(?:-\d\d)?)(?![\w-])
    | (?<![\w.])(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\ (?P<month>{_NAMES})\b\.?(?:,?\ (?P<year>\d{{4}})(?!\w))?
    | (?<!\w)(?P<month2>{_NAMES})\b\.?\ (?P<day2>\d{{1,2}})(?:st|nd|rd|th)?(?:,\ |\ )(?P<year2>\d{{4}})(?!\w)
    | (?<!\w)(?P<month3>{_NAMES})\b\.?\ (?P<year3>\d{{4}})(?!\w)
    | (?<!\w)(?P<quarter>Q[1-4])\ (?P<year4>\d{{4}})(?!\w)
    """,
    re.VERBOSE,
)


def find_date(match: re.Match[str]) -> str:
    """A match of DATE as `2027`-`2027-05-03`, `2027-05` or `2027-Q1`; without a year `-05-03`."""
    at = match.groupdict()
    if at["iso"]:
        return at["iso"]
    if at["quarter"]:
        return f"{at['year4']}-{at['quarter']}"
    month = at["month"] or at["month2"] or at["month3"]
    number = _MONTH[month.lower().rstrip(".")]
    year, day = at["year"] or at["year2"] or at["year3"] or "", at["day"] or at["day2"]
    return f"{year}-{number:02}-{int(day):02}" if day else f"{year}-{number:02}"


def find_number(word: str) -> str:
    """A number in digits without its thousands' marks; empty if the word is none."""
    if word in NUMBERS:
        return NUMBERS[word]
    if not word[:1].isdigit():
        return ""
    return word.replace(",", "") if re.fullmatch(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", word) else word


def covers(wide: str, narrow: str) -> bool:
    """Whether a date or a version says the same as another one, less exactly."""
    if wide == narrow:
        return True
    if "-Q" in wide and (found := re.fullmatch(r"(\d{4})-(\d\d)(?:-\d\d)?", narrow)):
        return wide == f"{found[1]}-Q{(int(found[2]) + 2) // 3}"
    return narrow.startswith((f"{wide}-", f"{wide}.")) or (wide.startswith("-") and narrow.endswith(wide))


def find_day(value: str) -> date | None:
    """The last day a date value can mean; None without a year."""
    if found := re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)", value):
        year, month, day = map(int, found.groups())
    elif found := re.fullmatch(r"(\d{4})-(\d\d)", value):
        year, month, day = int(found[1]), int(found[2]), 28
    elif found := re.fullmatch(r"(\d{4})-Q([1-4])", value):
        year, month, day = int(found[1]), int(found[2]) * 3, 28
    else:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None
