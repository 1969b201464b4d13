"""English words as the tidying rules compare them: inflection is taken off, derivation is not, few words are the same.

A stemmer is of no use here: to it "production" is "product" and "marketing" is "market", and two memories that differ
in just that would be taken for one. Nor are word vectors: Tuesday is nearest to Thursday, left to right, enabled to
disabled. So only endings of number and tense go, and words count as the same only if they stand together below. What
is missing from these tables makes two memories stay two, which does no harm.
"""

import re
from functools import lru_cache

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
