"""English words as the tidying rules compare them: inflection is taken off, derivation is not, few words are the same.

A stemmer is of no use here: to it "production" is "product" and "marketing" is "market", and two memories that differ
in just that would be taken for one. Nor are word vectors: Tuesday is nearest to Thursday, left to right, enabled to
disabled. So only endings of number and tense go, and words count as the same only if they stand together below. What
is missing from these tables makes two memories stay two, which does no harm.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate

from memdir.frozen import dataclass

# --- words ---

# Words that carry no fact: articles, and the auxiliaries by which tense and voice are made.
ARTICLES = frozenset("a an the its".split())
BE = frozenset("be am is are was were been being".split())
AUXILIARY = BE | frozenset("have has had having do does did will shall".split())
# Those of them that are verbs of their own where they help no other one.
FULL_VERBS = dict.fromkeys("have has had having".split(), "have") | dict.fromkeys("do does did".split(), "do")
# Adverbs that may stand between an auxiliary and its verb.
BETWEEN = frozenset("not never also always already still only just now usually often all both currently".split())
# A noun phrase begins anew with one of these.
DETERMINERS = ARTICLES | frozenset(
    "this that these those each every all both no any some our your my their its his her nobody everybody everyone "
    "we they you it he she i anyone someone nothing everything".split()
)
PREPOSITIONS = frozenset(
    "from to in on at for with by of over above below under into onto through via during between before after until "
    "inside within without against about per behind beside toward towards across along except instead despite "
    "as".split()
)
_SAME_PREPOSITION = {"over": "above", "under": "below", "within": "inside", "into": "to", "towards": "toward"}

# What is done by one of these has no doer.
MEANS = frozenset("hand mail email default design phone post accident mistake law heart chance far way".split())

# What changes the truth of a sentence although it is a small word; two texts must agree in these to the letter.
NEGATIONS = frozenset(
    "not never no none nobody nothing nowhere neither nor cannot without except unless hardly rarely seldom avoid "
    "skip refuse reject forbid stop lack fail instead".split()
)
LIMITS = frozenset(
    "only always all any some every each both most many few several least up exactly about almost nearly must should "
    "may might can could would first second third last next previous before after until since more less fewer than "
    "above below over under if when whenever while once otherwise but still again twice half double".split()
)
# An added clause with one of these may narrow what the rest says, and is then no addition.
NARROWING = NEGATIONS | frozenset(
    "only if when whenever until before after once but however though although otherwise rather just mostly partly "
    "sometimes may might at-least at-most provided assuming depending except most some few several half often "
    "maybe perhaps probably possibly supposedly apparently".split()
)

# Opposites of one attribute: (said, denied).
OPPOSITES = {
    "disable": "enable",
    "forbid": "allow",
    "disallow": "allow",
    "unsupported": "support",
    "unencrypted": "encrypt",
    "private": "public",
    "inactive": "active",
    "unavailable": "available",
    "invalid": "valid",
    "optional": "mandatory",
    "dislike": "like",
}

_IRREGULAR = """
arise arose arisen|begin began begun|bind bound|break broke broken|bring brought|build built|buy bought|catch caught|
choose chose chosen|come came|cost costs|deal dealt|draw drew drawn|drive drove driven|eat ate eaten|fall fell fallen|
feed fed|feel felt|find found|flow flowed|fly flew flown|forget forgot forgotten|freeze froze frozen|get got gotten|
give gave given|go went gone goes|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|
know knew known|lead led|leave left|lend lent|lose lost|make made|mean meant|meet met|pay paid|ride rode ridden|
ring rang rung|rise rose risen|run ran|say said|see saw seen|seek sought|sell sold|send sent|show shown|shut shuts|
sing sang sung|sit sat|sleep slept|speak spoke spoken|spend spent|split splits|stand stood|steal stole stolen|
stick stuck|swim swam|take took taken|teach taught|tell told|think thought|throw threw thrown|understand understood|
wear wore worn|win won|write wrote written|rewrite rewrote rewritten|overwrite overwrote overwritten|rebuild rebuilt|
undo undid undone|withdraw withdrew withdrawn|set sets|put puts|cut cuts|read reads|let lets|hit hits|reset resets
"""
_BASE = {form: group.split()[0] for group in _IRREGULAR.replace("\n", "").split("|") for form in group.split()}
_BASE |= {"left": "left", "found": "found", "set": "set", "bound": "bound", "thought": "thought", "caches": "cache"}
PARTICIPLES = frozenset(_BASE) - frozenset(
    "began came did drew drove ate fell flew forgot froze went grew hid knew rode rang rose saw sang spoke stole "
    "swam took threw wore wrote".split()
) | {"found", "left"}
_PAST = frozenset(
    "arose began broke brought built bought caught chose came dealt drew drove ate fell fed felt found flew forgot "
    "froze got gave went grew heard hid held kept knew led lent lost made meant met paid rode rang rose ran said saw "
    "sought sold sent sang sat slept spoke spent stood stole stuck swam took taught told thought threw understood "
    "wore won wrote lived".split()
)

# Groups of words that can stand for one another in what memories say; the first is the one they are compared by.
_SAME = """
start begin commence|end finish|fix repair|change modify alter|create generate produce|need require demand|
use employ utilise utilize|run execute|split divide|stay remain|choose select pick|suggest propose|allow permit|
forbid prohibit ban|reject refuse|collect gather|watch monitor|keep store|send transmit|fetch retrieve load|
show display|switch-off turn-off|rise climb|buy purchase|add introduce|drop discard|reason motive|audit examine|
each every|big large|bigger larger|wide broad|hard difficult|slow sluggish|fast quick rapid|full complete|
external outside|shared common|main chief|usually generally normally typically|better preferable|
because since|whenever each-time|once as-soon-as|sure certain|answer reply response|summary recap|folder directory|
picture image|chart plot|drawback disadvantage|defect bug|everybody everyone|nobody no-one|we us|they them|he him|i me
"""
_CANON = {word: group.split()[0] for group in _SAME.replace("\n", "").split("|") for word in group.split()}
_CANON |= _SAME_PREPOSITION
# Several words that are one, the longest first.
PHRASES = (
    (("as", "soon", "as"), "once"),
    (("each", "time"), "whenever"),
    (("every", "time"), "whenever"),
    (("as", "well", "as"), "and"),
    (("as", "well"), "also"),
    (("in", "order", "to"), "to"),
    (("so", "that"), "so-that"),
    (("turn", "off"), "switch-off"),
    (("turn", "down"), "reject"),
    (("switch", "off"), "switch-off"),
    (("at", "least"), "at-least"),
    (("at", "most"), "at-most"),
    (("up", "to"), "at-most"),
    (("no", "one"), "nobody"),
    (("no", "longer"), "no-longer"),
    (("used", "to"), "used-to"),
    (("instead", "of"), "instead"),
    (("because", "of"), "because-of"),
    (("have", "to"), "must"),
    (("has", "to"), "must"),
    (("had", "to"), "must"),
)
NUMBERS = {
    word: str(value)
    for value, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
        "seventeen eighteen nineteen twenty".split()
    )
} | {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
WEEKDAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
PERIODS = frozenset("second minute hour day night morning evening week month quarter year weekday weekend".split())
CONTRACTIONS = {
    "cannot": "can not",
    "can't": "can not",
    "won't": "will not",
    "shan't": "shall not",
    "n't": " not",
    "i'm": "i am",
    "'re": " are",
    "'ve": " have",
    "'ll": " will",
    "'d": " would",
    "let's": "let us",
}
# Endings that look like a plural or a tense and are none.
_WHOLE = frozenset(
    "news series species status bus gas lens basis access process class address always its this thus plus less "
    "across canvas kubernetes redis https dns aws ios tls sass focus bonus virus campus census analysis axis alias "
    "atlas unless bias chaos business need feed speed seed weed breed exceed proceed succeed indeed hundred sacred "
    "embed naked wicked shed red bed bring thing king ring string spring during nothing something anything "
    "everything ceiling wing sting swing".split()
)
_VOWELS = frozenset("aeiouy")
# Stems that lost a silent e before their ending.
_SILENT = re.compile(
    r"""
      \A[^aeiou]*[aeiouy][^aeiouwxyh]\Z                  # hop(e)d, us(e)d; without one the letter is doubled
    | [vcuz]\Z | [aeiourlnp]s\Z | [aeiou]g\Z | (?:[ae]n|d|r)g\Z | [bdtpgkfz]l\Z
    | (?<![eo])at\Z | creat\Z | (?<=[cpb])ut\Z | (?:let|plet)\Z | [iu]r\Z | (?:st|n|pl)or\Z | (?:p|cl)ar\Z
    | (?<![aeo])in\Z | (?<![aeo])id\Z | rad\Z | (?<=[cl])ud\Z | cod\Z | ib\Z | (?:sum|nam|com)\Z
    """,
    re.VERBOSE,
)
_SPELLED = {
    stem: word
    for word in "format focus input output cache invite unite write like make take visit edit benefit".split()
    for stem in (word.removesuffix("e"), word)
}


@lru_cache(maxsize=32_768)
def find_lemma(word: str) -> str:
    """A small-letter word without its ending of number or past tense; `-ing` stays, for it makes nouns too."""
    if word in _BASE:
        return _BASE[word]
    if word in _WHOLE or len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    if word.endswith("ed"):
        return _strip(word, "ed")
    if word.endswith("ies"):
        return word[:-3] + "y" if len(word) > 4 else word[:-1]
    if word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


@lru_cache(maxsize=8_192)
def strip_progressive(word: str) -> str:
    """The verb of an `-ing` form."""
    if word in _WHOLE or not word.endswith("ing") or len(word) < 5:
        return find_lemma(word)
    return _strip(word, "ing")


@lru_cache(maxsize=32_768)
def find_canon(lemma: str) -> str:
    """The word by which a lemma is compared."""
    return _CANON.get(lemma, lemma)


def find_preposition(word: str) -> str:
    return _SAME_PREPOSITION.get(word, word)


def is_participle(word: str) -> bool:
    return word in PARTICIPLES or (word.endswith("ed") and len(word) > 3 and word not in _WHOLE)


def is_past(word: str) -> bool:
    return word in _PAST or (word.endswith("ed") and len(word) > 4 and word not in _WHOLE)


def _strip(word: str, ending: str) -> str:
    """The base of a regular form."""
    stem = word[: -len(ending)]
    if not any(letter in _VOWELS for letter in stem) or word.endswith("eed"):
        return word
    if ending == "ed" and stem.endswith("i"):
        return stem[:-1] + "y"
    if stem in _SPELLED:
        return _SPELLED[stem]
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsz":
        return stem[:-1]
    return stem + "e" if _SILENT.search(stem) else stem


# Verbs by which memories state how something is; what stands before one is what the statement is about.
VERBS = frozenset(
    find_canon(find_lemma(word))
    for word in (
        "accept add allow announce answer apply arrive ask base begin belong block bring build call carry change "
        "check close collect come compile connect contain copy cost count cover create cut decide delete deliver "
        "depend deploy do drop edit enable encrypt end expect expire export fail fetch file fill find finish fit fix "
        "flow follow format freeze get give go handle happen have hold host import include keep kept last launch "
        "lead learn leave lie like limit list listen live load lock log look maintain make manage mean measure merge "
        "migrate monitor move name need offer open own pass pay pin plan poll prefer produce publish push put raise "
        "reach read receive refuse reject release rely remain remove renew replace report require reset restart "
        "retire retry return review roll rotate round run save say scale scan see sell send serve set ship show shut "
        "sit speak split squash start stay stop store support switch sync take target teach tell test throw track "
        "treat trigger turn update upgrade upload use wait want watch work wrap write".split()
    )
)
# Of these a thing has one: where it runs, who owns it, in what it is tracked.
SINGLE = frozenset(
    find_canon(find_lemma(word))
    for word in (
        "run own track announce live host deploy target format pin belong keep file base flow start build".split()
    )
)


# --- quantities ---
# Numbers, dates and times in one form: "3 May 2027" is 2027-05-03, "1,000" is 1000, "two" is 2.
#
# Pure. It knows what a value covers, so that "in February 2027" and "on 2027-02-15" are not taken for a contradiction.

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


# --- tokens ---
# A text as tokens in the form in which two texts are compared: words without inflection, values in one spelling.
#
# What must match to the letter keeps its letters: code, quotations, addresses, identifiers, channels, units in
# capitals.
# Articles and the auxiliaries of tense and voice are kept as tokens of no weight, since they tell where phrases begin
# and
# which clause is passive. English; of other languages it makes tokens that equal only themselves.


class Sort(StrEnum):
    """What a token is. `EXACT` is code and the like; a `BREAK` is punctuation, `EMPTY` a word without a fact."""

    WORD = "word"
    NAME = "name"
    NUMBER = "number"
    DATE = "date"
    EXACT = "exact"
    BREAK = "break"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Token:
    """`key` is what is compared, `word` the small-letter word as it stood, `start` and `end` its place in the text."""

    sort: Sort
    key: str
    word: str
    start: int
    end: int
    opens: bool = False

    @property
    def is_hard(self) -> bool:
        return self.sort in (Sort.NUMBER, Sort.DATE, Sort.EXACT)

    @property
    def is_sign(self) -> bool:
        return self.sort is Sort.WORD and not self.word[:1].isalnum()


_OTHER = re.compile(
    r"""
      (?P<code>`[^`\n]+`) | (?P<quote>"[^"\n]+"|“[^”\n]+”|„[^“”\n]+[“”]|«[^»\n]+»)
    | (?P<link>\[\[[^\[\]\n]+\]\])
    | (?P<exact>[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`]*[\w/] | (?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w
        | (?<![\w/])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]+)* | (?<!\w)[#@][\w-]+ | (?<![\w-])--?[A-Za-z][\w-]*
        | \d{1,2}:\d\d(?::\d\d)? | [A-Za-z]*\d[\w]*(?:[.,:/-]?[A-Za-z0-9_]+)*(?:[.,]\d+)*
        | [A-Za-z_][\w]*(?:[./_][\w-]+)+(?:-[\w-]+)* | [^\W\d_]+(?:-\w+)*-\w*\d\w* )
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*(?:-[^\W\d_]+(?:['’][^\W\d_]+)*)*)
    | (?P<stop>[.!?](?=[\s"'”’»)*_]|\Z)|[。！？]|\n\s*\n) | (?P<semi>[;；])
    | (?P<comma>[,，、]|[:：]|[()\[\]]|[—–]|\s-\s)
    | (?P<sign>(?<=\d)['"’”′″]|[^\s'’‘"“”„«»…])              # all else: -20 is not 20, ✅ not ❌, C# not C
    """,
    re.VERBOSE,
)
# Marks of Markdown: bullets, headings, and stars in pairs. Not underscores, which names have, nor the numbers of lists.
_MARKS = re.compile(
    r"""
      `[^`\n]+` | ^[ \t>]*(?:[-*+•]|\#{1,6})[ \t]+
    | (?<![\w*])(?P<stars>\*{1,3})(?=[^\s*])[^*\n]*(?<=[^\s*])(?P=stars)(?![\w*])
    """,
    re.MULTILINE | re.VERBOSE,
)
_FIRST: dict[str, list[int]] = {}  # the places of the phrases that begin with a word
for _at, (_words, _) in enumerate(PHRASES):
    _FIRST.setdefault(_words[0], []).append(_at)
_CAMEL = re.compile(r".[A-Z]|\A[A-Z]\Z")


def parse_tokens(text: str) -> tuple[Token, ...]:
    """The tokens of a text, its marks of Markdown left out; places are those of the text given."""
    bare = _MARKS.sub(_blank, text)
    return tuple(_join_phrases(_finish(list(_scan(bare)))))


def _blank(match: re.Match[str]) -> str:
    """The mark of a list item ends what stood before it; code is left as it is."""
    raw = match.group()
    if stars := match["stars"]:
        size = len(stars)
        return f"{' ' * size}{raw[size:-size]}{' ' * size}"
    return raw if raw.startswith("`") else "." + " " * (len(raw) - 1)


def _scan(text: str) -> Iterator[Token]:
    place = 0
    for date in [*DATE.finditer(text), None]:  # noqa: F402
        stop = date.start() if date else len(text)
        for match in _OTHER.finditer(text, place, stop):
            yield from _read(match)
        if date:
            yield Token(Sort.DATE, find_date(date), date.group().lower(), date.start(), date.end())
            place = date.end()


def _read(match: re.Match[str]) -> Iterator[Token]:
    kind, raw = match.lastgroup or "", match.group()
    start, end = match.span()
    if kind == "stop":
        if raw in "?？":  # what is asked is not said
            yield Token(Sort.WORD, "?", "?", start, end)
        yield Token(Sort.BREAK, ".", raw, start, end)
    elif kind in ("semi", "comma"):
        yield Token(Sort.BREAK, ";" if kind == "semi" else ",", raw, start, end)
    elif kind in ("code", "quote"):
        yield Token(Sort.EXACT, " ".join(raw[1:-1].split()), raw, start, end)
    elif kind == "word":
        yield from _read_word(raw, start, end)
    elif kind == "exact":
        number = find_number(raw)
        plain = number and re.fullmatch(r"[\d.]+", number)
        yield Token(Sort.NUMBER if plain else Sort.EXACT, number if plain else raw, raw, start, end)
    else:
        yield Token(Sort.EXACT if kind == "link" else Sort.WORD, raw, raw, start, end)


def _read_word(raw: str, start: int, end: int) -> Iterator[Token]:
    low = raw.replace("’", "'").lower()
    for short, long in CONTRACTIONS.items() if "'" in low or low == "cannot" else ():
        if low == short or (short[0] in "'n" and low.endswith(short)):
            first, *others = (low.removesuffix(short) + long).split()
            yield Token(Sort.WORD, "", first, start, end)
            yield from (Token(Sort.WORD, "", word, start, end) for word in others)
            return
    low = low.removesuffix("'s").removesuffix("'")
    if _CAMEL.search(raw) and raw not in ("I", "A"):
        yield Token(Sort.NAME, raw.removesuffix("'s"), low, start, end)
    elif raw[:1].isupper():
        yield Token(Sort.NAME, "", low, start, end)
    else:
        yield Token(Sort.WORD, "", low, start, end)


def _finish(tokens: Sequence[Token]) -> Iterator[Token]:
    """Keys for the words, which need their neighbours: sentence beginnings, auxiliaries before a verb."""
    opens, progressive = True, False
    for at, token in enumerate(tokens):
        if token.sort is Sort.BREAK:
            opens = opens or token.key == "."
            progressive = progressive and token.key == ","
            yield token
            continue
        made = token
        if not token.key:
            name = token.sort is Sort.NAME and not opens
            running = token.word.endswith("ing") and (_follows(tokens, at, BE) or (progressive and _begins(tokens, at)))
            progressive = progressive or running
            helps = token.word in FULL_VERBS and _is_helping(tokens, at)
            made = _make_word(token, name=name, running=running, helps=helps, opens=opens)
        yield made if made.sort is Sort.EMPTY or made.opens == opens else _copy(made, opens=opens)
        opens = False


def _make_word(token: Token, *, name: bool, running: bool, helps: bool, opens: bool) -> Token:
    word = token.word
    if number := find_number(word):
        return Token(Sort.NUMBER, number, word, token.start, token.end, opens)
    if name:
        return Token(Sort.NAME, word, word, token.start, token.end)
    if word in FULL_VERBS and not helps:
        return Token(Sort.WORD, FULL_VERBS[word], word, token.start, token.end, opens)
    if word in ARTICLES or word in AUXILIARY:
        return Token(Sort.EMPTY, "", word, token.start, token.end)
    lemma = strip_progressive(word) if running else find_lemma(word)
    return Token(Sort.WORD, find_canon(lemma), word, token.start, token.end, opens)


def _copy(token: Token, *, opens: bool) -> Token:
    return Token(token.sort, token.key, token.word, token.start, token.end, opens)


def _follows(tokens: Sequence[Token], at: int, words: frozenset[str]) -> bool:
    """Whether one of these auxiliaries stands before, adverbs between them or not."""
    for token in reversed(tokens[max(0, at - 3) : at]):
        if token.word in words:
            return True
        if token.word not in BETWEEN:
            return False
    return False


def _is_helping(tokens: Sequence[Token], at: int) -> bool:
    """Whether "have" or "do" only helps another verb: "has moved", "does not fail", and not "has root", "did it"."""
    have = FULL_VERBS.get(tokens[at].word) == "have"
    for token in tokens[at + 1 : at + 4]:
        if not have and token.word in ("not", "never"):
            return True
        if token.word not in BETWEEN:
            return have and (token.word in BE or is_participle(token.word))
    return False


def _begins(tokens: Sequence[Token], at: int) -> bool:
    return at > 0 and (tokens[at - 1].sort is Sort.BREAK or tokens[at - 1].word in ("and", "or"))


def _join_phrases(tokens: Iterator[Token]) -> Iterator[Token]:
    """Several words that are one become one token."""
    held = list(tokens)
    at = 0
    while at < len(held):
        joined = _find_phrase(held, at)
        if joined is None:
            yield held[at]
            at += 1
            continue
        first, last = held[at], held[at + len(joined[0]) - 1]
        yield Token(Sort.WORD, joined[1], joined[1], first.start, last.end, first.opens)
        at += len(joined[0])


def _find_phrase(tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], str] | None:
    word = tokens[at].word
    spelt = (word, tokens[at].key, find_lemma(word))
    if _FIRST.keys().isdisjoint(spelt):
        return None
    places = sorted({place for first in spelt for place in _FIRST.get(first, ())})
    return next((PHRASES[place] for place in places if _is_at(tokens, at, PHRASES[place][0])), None)


def _is_at(tokens: Sequence[Token], at: int, words: Sequence[str]) -> bool:
    here = tokens[at : at + len(words)]
    return len(here) == len(words) and all(
        token.sort in (Sort.WORD, Sort.EMPTY, Sort.NAME) and word in (token.word, token.key, find_lemma(token.word))
        for token, word in zip(here, words, strict=True)
    )


def is_past_tense(tokens: Sequence[Token]) -> bool:
    """Whether a sentence speaks of the past: by its auxiliary, or by a verb in the past without one."""
    for at, token in enumerate(tokens):
        if token.word in ("was", "were", "had", "did", "used-to"):
            return True
        if token.sort is Sort.WORD and is_past(token.word) and not _follows(tokens, at, AUXILIARY):
            return True
    return False


# --- pieces ---
# Clauses as phrases: which word stands under which preposition, who does it and to whom. A passive is turned round.
#
# Pieces are equal when they say the same of the same; how clauses follow one another is the business of `shape`.

Keys = tuple[str, ...]
# Phrases in their order, each by its preposition; the empty one is for subject, verb and object.
Piece = tuple[tuple[str, Keys], ...]

# Where phrases were set off by a comma: on their own, or said of what stands before.
APART = Token(Sort.BREAK, ",", ",", -1, -1)
APPOSED = Token(Sort.BREAK, "=", ",", -1, -1)


@dataclass(frozen=True, slots=True)
class _Phrase:
    marker: str
    tokens: list[Token]


def make_pieces(tokens: Sequence[Token]) -> tuple[Piece, ...]:
    """What a clause says, cut at each bare "and"."""
    return tuple(piece for part in _split_and(tokens) if (piece := _make_piece(part)))


def make_key(token: Token) -> str:
    return token.key if token.sort is not Sort.EXACT else f"`{token.key}`"


def is_floating(part: Sequence[Token]) -> bool:
    return all(phrase.marker for phrase in _cut_phrases(part))


def _split_and(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for at, token in enumerate(tokens):
        if token.sort is Sort.WORD and token.key in ("and", "or") and not _joins_nouns(tokens, at):
            yield part
            part = [token] if token.key == "or" else []
        else:
            part.append(token)
    yield part


def _joins_nouns(tokens: Sequence[Token], at: int) -> bool:
    """`colours and spacing`: the word behind ends its phrase, and is no verb."""
    if at == 0 or at + 1 >= len(tokens) or tokens[at - 1].sort not in (Sort.WORD, Sort.NAME):
        return False
    after, then = tokens[at + 1], tokens[at + 2] if at + 2 < len(tokens) else None
    ends = then is None or then.sort in (Sort.EMPTY, Sort.BREAK) or then.word in PREPOSITIONS
    return ends and after.sort is Sort.WORD and after.key not in VERBS and after.word not in PREPOSITIONS


def _make_piece(tokens: Sequence[Token]) -> Piece:
    phrases = _cut_phrases(tokens)
    lead = next((at for at, phrase in enumerate(phrases) if not phrase.marker), 0)
    phrases = [*phrases[lead:], *phrases[:lead]]  # what stands in front could as well stand behind
    verb = _find_passive(tokens)
    if verb is not None:
        phrases = _turn(phrases, *verb)
    return tuple((phrase.marker, tuple(map(make_key, phrase.tokens))) for phrase in phrases)


def _turn(phrases: list[_Phrase], auxiliary: Token, verb: Token) -> list[_Phrase]:
    """A passive piece as it reads when it is active: who does it, the verb, to whom, and the rest in its order."""
    place = next((at for at, phrase in enumerate(phrases) if verb in phrase.tokens), None)
    if place is None or phrases[place].marker:
        return phrases
    held = phrases[place].tokens
    adverbs = [at for at in held if auxiliary.start < at.start < verb.start]
    subject, after = [at for at in held if at.start < auxiliary.start], [at for at in held if at.start > verb.start]
    doer = next((at for at in phrases[place + 1 :] if at.marker == "by" and not _is_means(at)), None)
    before = [*phrases[:place], *([_Phrase("", subject)] if subject else [])]
    first = before[0].tokens if before and not before[0].marker else []
    core = _Phrase("", [*(doer.tokens if doer else []), *adverbs, verb, *first])
    others = before[1:] if first else before
    if after and not others:
        core.tokens.extend(after)
    elif after:
        others = [*others, _Phrase("", after)]
    return [core, *others, *(at for at in phrases[place + 1 :] if at is not doer)]


def _is_means(phrase: _Phrase) -> bool:
    return len(phrase.tokens) == 1 and phrase.tokens[0].key in MEANS


def _find_passive(tokens: Sequence[Token]) -> tuple[Token, Token] | None:
    """The form of "be" and the participle after it, if a piece has them."""
    armed: Token | None = None
    for token in tokens:
        if token.sort is Sort.EMPTY and token.word in BE:
            armed = token
        elif armed is not None and token.sort is Sort.WORD and is_participle(token.word):
            return armed, token
        elif token.word not in BETWEEN:
            armed = None
    return None


def _cut_phrases(tokens: Sequence[Token]) -> list[_Phrase]:
    """The tokens by the preposition they stand under: up to the next one, or to where a new phrase begins."""
    phrases = [_Phrase("", [])]
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        last = phrases[-1]
        if token is APART or token is APPOSED:
            phrases.append(_Phrase("" if token is APART else "=", []))
        elif _is_marker(token, following):
            measured = following is not None and following.sort in (Sort.DATE, Sort.NUMBER)
            phrases.append(_Phrase(_name_marker(token) + ("#" if measured else ""), []))
        elif last.marker and last.tokens and (_ends_phrase(token) or _ends_front(phrases, token)):
            phrases.append(_Phrase("", [] if token.sort is Sort.EMPTY else [token]))
        elif token.sort is not Sort.EMPTY:
            last.tokens.append(token)
    return [phrase for phrase in phrases if phrase.tokens]


def _ends_front(phrases: Sequence[_Phrase], token: Token) -> bool:
    """After a date, and after a phrase in front when a verb follows: "for reports write SQL"."""
    fronted = all(phrase.marker or not phrase.tokens for phrase in phrases)
    return phrases[-1].tokens[-1].sort is Sort.DATE or (fronted and token.word == token.key and token.key in VERBS)


def _ends_phrase(token: Token) -> bool:
    return token.word in DETERMINERS or token.word in AUXILIARY or _is_finite(token)


def _is_finite(token: Token) -> bool:
    """A verb of the third person or of the past ends the phrase before it: "the freeze for release 9 begins"."""
    return token.sort is Sort.WORD and token.key in VERBS and (token.word.endswith("s") or is_past(token.word))


def _is_marker(token: Token, following: Token | None) -> bool:
    if token.sort is Sort.NAME or following is None:
        return False
    if token.key == "each":
        counted = following.sort is Sort.NUMBER and following.word != "one"
        return counted or following.key in PERIODS or following.word in WEEKDAYS
    return token.word in PREPOSITIONS or token.word == "since"


def _name_marker(token: Token) -> str:
    return "every" if token.key == "each" else find_preposition(token.word)


# --- shape ---
# The build of what a text says, so that it can be seen whether another says the same in other words.
#
# A sentence is cut into units (at full stops and semicolons), units into blocks (at commas and conjunctions), blocks
# into
# pieces (at a bare "and"). A piece is its phrases in their order, each with the preposition before it; a phrase in
# front
# is taken behind, and a passive piece is turned round. Two texts say the same if their pieces are equal: so a clause
# may
# stand before or behind its neighbour and a phrase before or behind its clause, but nothing changes its role, its
# clause
# or its place among its like. "A depends on B" and "B depends on A" have the same words and differ here; so do two
# numbers that changed places.
#
# It does not understand English. Whatever it cannot follow makes two texts differ, never agree.

_CAUSE, _EFFECT = "because", "so"
# Words that open a clause, with the label it gets; "which" and "who" go on telling.
_OPENERS = {
    "because": _CAUSE,
    "so": _EFFECT,
    "so-that": "so-that",
    "when": "when",
    "whenever": "when",
    "if": "if",
    "unless": "unless",
    "while": "while",
    "once": "once",
    "where": "where",
    "although": "although",
    "though": "although",
    "but": "but",
    "which": "",
    "who": "",
}
_ADDED_WORDS = 2  # an added clause of fewer may be one more item of a list


@dataclass(frozen=True, slots=True)
class Block:
    label: str
    pieces: tuple[Piece, ...]


Unit = tuple[Block, ...]


class Shape:
    """A text ready to be compared: its bag of keys, which equal texts share, and its keys in order.

    Its build and the clauses it could do without are made when a comparison first asks: of most texts none ever does.
    """

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self.keys = tuple(make_key(token) for token in tokens if _is_key(token))

    @cached_property
    def bag(self) -> Keys:
        marked = (at for at in self._tokens if at.sort is not Sort.BREAK and at.sort is not Sort.EMPTY)
        return tuple(sorted(make_key(token) for token in marked if not _is_joint(token)))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        return tuple(unit for part in _split(self._tokens, ".;") if (unit := _make_unit(part)))

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The keys of each clause that could have been added, as places in `keys`."""
        return tuple(_find_spans(self._tokens))

    def leave_out(self, span: tuple[int, int]) -> Keys:
        return (*self.keys[: span[0]], *self.keys[span[1] :])


def is_same(one: Shape, other: Shape) -> bool:
    """Whether two texts say the same in the same words, in whatever order of clauses and phrases, active or passive."""
    if one.bag != other.bag or len(one.units) != len(other.units) or not one.keys:
        return False
    return all(map(_is_turned, one.units, other.units))


def cut_clauses(tokens: Sequence[Token]) -> list[tuple[str, list[Token]]]:
    """The clauses of one sentence, each with the label of what opens it."""
    return list(_cut_segments(tokens))


def _is_turned(one: Unit, other: Unit) -> bool:
    """The same clauses in the same order, the last ones put first, or all from the last to the first.

    What no word ties to the rest keeps its order: it may be the order in which things are done.
    """
    if len(one) != len(other) or [at for at in one if not at.label] != [at for at in other if not at.label]:
        return False
    return one == other[::-1] or any(one == (*other[turn:], *other[:turn]) for turn in range(len(other)))


def _is_key(token: Token) -> bool:
    return token.sort is not Sort.BREAK and token.sort is not Sort.EMPTY and token.key != "and"


def _is_joint(token: Token) -> bool:
    return token.sort is Sort.WORD and token.key in ("and", "so", "because", "which", "who", "by")


def _split(tokens: Sequence[Token], marks: str) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token in tokens:
        if token.sort is Sort.BREAK and token.key in marks:
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _make_unit(tokens: Sequence[Token]) -> Unit:
    """The blocks of a sentence, with what is cause and what effect told in one way."""
    segments = _join_floating(list(_cut_segments(tokens)))
    blocks: list[Block] = []
    for label, part in segments:
        if pieces := make_pieces(part):
            blocks.append(Block(label, pieces))
    effect = next((at for at, block in enumerate(blocks) if block.label == _EFFECT), None)
    if effect:
        causes = [Block(_CAUSE if not at.label else at.label, at.pieces) for at in blocks[:effect]]
        blocks = [*causes, *(Block("" if at.label == _EFFECT else at.label, at.pieces) for at in blocks[effect:])]
    return tuple(blocks)


def _cut_segments(tokens: Sequence[Token]) -> Iterator[tuple[str, list[Token]]]:
    label, part = "", list[Token]()
    for at, token in enumerate(tokens):
        opener = _find_opener(tokens, at)
        if token.sort is Sort.BREAK or opener is not None:
            if part:
                yield label, part
                label, part = "", []
            label = opener if opener is not None else label
        elif not (token.key == "and" and not part):  # ", and": the comma has cut already
            part.append(token)
    if part:
        yield label, part


def _find_opener(tokens: Sequence[Token], at: int) -> str | None:
    token = tokens[at]
    if token.sort not in (Sort.WORD, Sort.NAME):
        return None
    first = at == 0 or tokens[at - 1].sort is Sort.BREAK
    if token.word == "as":
        return _CAUSE if first else None
    if token.word == "since":
        return None if any(_has_digit(after) for after in tokens[at + 1 : at + 3]) else _CAUSE
    return _OPENERS.get(token.key)


def _has_digit(token: Token) -> bool:
    return token.sort in (Sort.NUMBER, Sort.DATE) or any(letter.isdigit() for letter in token.word)


def _join_floating(segments: list[tuple[str, list[Token]]]) -> list[tuple[str, list[Token]]]:
    """A segment that is one phrase with a preposition belongs to the clause beside it."""
    joined: list[tuple[str, list[Token]]] = []
    for at, (label, part) in enumerate(segments):
        floats = bool(joined) and not label and _floats(part) and _is_last(segments[at:])
        leads = bool(joined) and not label and all(not mark and _floats(before) for mark, before in segments[:at])
        if floats or leads:
            joined[-1][1].extend([APPOSED if _is_apposed(part) else APART, *part])
        else:
            joined.append((label, list(part)))
    return joined


def _is_last(segments: Sequence[tuple[str, list[Token]]]) -> bool:
    """Whether only such phrases follow up to the next clause; between two clauses one could belong to either."""
    for label, part in segments:
        if label:
            return True
        if not _floats(part):
            return False
    return True


def _floats(part: Sequence[Token]) -> bool:
    return is_floating(part) or _is_apposed(part)


def _is_apposed(part: Sequence[Token]) -> bool:
    """`vault "Sandbox"`, `level AA`: one word and a name, said of what stands before it."""
    return len(part) == 2 and part[0].sort is Sort.WORD and part[1].sort in (Sort.EXACT, Sort.NAME)


def _find_spans(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Where each clause stands that only adds: set off by marks, with nothing in it that could narrow the rest."""
    edges = [at for at, token in enumerate(tokens) if token.sort is Sort.BREAK]
    keys = [0, *accumulate(map(_is_key, tokens))]
    narrowing = [0, *accumulate(map(_narrows, tokens))]
    ends = [*edges, len(tokens)]
    for first, left in enumerate(edges):
        for marks, right in enumerate(ends[first + 1 :]):
            if narrowing[right] > narrowing[left]:
                break  # and so would every longer one
            if right - left - 1 - marks > _ADDED_WORDS:
                yield keys[left], keys[right]


def _narrows(token: Token) -> bool:
    return _is_telling(token) or token.word in NARROWING or token.key in NARROWING


def _is_telling(token: Token) -> bool:
    return (token.is_hard and token.word != "one") or token.sort is Sort.NAME or token.is_sign
