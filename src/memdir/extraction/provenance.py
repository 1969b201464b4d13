"""Where the words of a memory came from, and so whether it may be believed.

A model that writes memories can be talked into anything by the text it reads. So it is not asked where a memory came
from; its words are looked up. Each sentence must rest on the person's own plain words; one that carries foreign text
makes the whole memory foreign, one that rests on the agent's words or on nothing makes it the agent's. What follows
`**Why:**` or `**How to apply:**` may be the agent's.

Words are compared by stems cut short, so that inflection does not matter in any of the Latin languages; Chinese and
Japanese by pairs of characters without grammar. Addresses, paths, commands, identifiers and mails must match to the
letter. The check can be deceived by a sentence made wholly of words the person used close together, and it believes no
translation.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise

from memdir.extraction.find import FORGET, MemoryRequest, mask_values
from memdir.extraction.merge import is_said
from memdir.extraction.spans import split_message, strip_reminders
from memdir.format import frontmatter
from memdir.format.drafts import make_slug
from memdir.frozen import dataclass, replace
from memdir.language.words import CJK, HIRAGANA, compile_any, load_small_words, load_usual_words, split_text
from memdir.models.staged import StagedMemory
from memdir.recall.table import open_words
from memdir.recall.terms import make_term
from memdir.records import Kind, Message
from memdir.store.plan import Finder, WriteRules, is_shared, is_team
from memdir.store.secret_text import SecretFinding
from memdir.store.secrets import find_secrets, mask, render_findings
from memdir.text import one_line, shorten

KEY_LETTERS = 6  # of a stem: "summaries" and "summarizing" are the same word

_WIDE_RUN = re.compile(rf"[{CJK}]+")
_HIRAGANA = re.compile(rf"[{HIRAGANA}]+")
_WORD = re.compile(rf"(?:(?![{CJK}])[^\W\d_])+")
_TOKEN = re.compile(rf"[{CJK}]|(?:(?![{CJK}])\w)+")
_NUMBER = re.compile(r"(?<![\w.])\d++(?:[.,]\d++)*+(?!\w{0,20}[A-Za-z_]{3})")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b|\d{4}年\d{1,2}月\d{1,2}日")
_EXACT = re.compile(
    r"""
      [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`）」，。、]+
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{0,100}\w
    | (?<![\w.-])(?:[A-Za-z0-9-]{1,63}\.){1,6}(?:com|org|net|io|dev|ai|app|co|de|fr|es|cn|jp|eu|uk|us|info|
        biz|xyz|sh|me|ru|example|
        invalid|test|local|internal|corp|evil)\b(?:/[^\s<>"'`）」，。、]*)?
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?
    | (?<![\w/.])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]*)*
    | (?<![\w/.@+-])[\w.@+-]{1,100}(?:/[\w.@+*-]+)+
    | (?<![\w-])--?[A-Za-z][\w-]*(?:=[^\s`,;]+)?
    | \b[A-Za-z]+_\w+\b | \b[a-z]+[A-Z]\w*\b | \b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{6,}\b
    | (?<![\w-])[\w-]{1,80}\.(?:md|py|js|ts|tsx|json|ya?ml|toml|sh|go|rs|java|sql|txt|env|cfg|ini|lock|pem|key|
        csv|html?)\b
    """,
    re.VERBOSE | re.ASCII,
)
_CODE = re.compile(r"`([^`\n]+)`")
_CAPITAL = re.compile(r"(?<![\w.])[A-ZÀ-ÖØ-Þ][\w’'-]*")

WINDOW = 4  # sentences of the person in which a claim may find its words: a request and its reason, not a whole letter
FOREIGN_WINDOW = 2
PROSE_WORDS = 5  # a foreign sentence of so many words has a language

PERSON_SHARE = 0.7  # of a sentence's telling words that the person must have said, where foreign text is about
ALONE_SHARE = 0.3  # where there is none: a paraphrase can only be the agent's own
NOVEL_MAX = 2  # words of the agent's own in a sentence, where foreign text is about
CARRIED_SHARE = 0.5  # of a sentence's telling words found in one foreign passage: that is where it came from
AGENT_SHARE = 0.5
LABEL_SHARE = 0.5  # of a title's words that the sentences below it must hold
TITLE_WORDS = 2  # a title this short may be the agent's own: "Background", "Three rules"
WIDE_EASE = 0.6  # pairs of characters overlap at their edges: fewer of them survive a paraphrase
NEAR = 0.5  # how near another word must be to count as the same in foreign text
NUMBER_FREE = 12  # smaller numbers are counted by anybody

_PART = re.compile(r"\A[*_]*(?:why|how to apply|how)\b[^:：]{0,20}[:：][*_]*", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:—–()\n，；：、。]")
_FRONT = re.compile(r"\A(?:name|title|description|type)\s*:\s*", re.IGNORECASE)


class Trust(StrEnum):
    """Whose words a memory rests on."""

    PERSON = "person"
    AGENT = "agent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Passage:
    """A few sentences of one message."""

    message: str
    text: str
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class PassageIndex:
    """All passages of one kind, where each key stands, and the whole text for what must match to the letter."""

    passages: tuple[Passage, ...]
    places: Mapping[str, tuple[int, ...]]
    text: str
    languages: frozenset[str]

    def find_best(self, keys: Collection[str]) -> tuple[Passage | None, int]:
        """The passage that holds most of the keys, and how many."""
        counts: Counter[int] = Counter()
        for key in keys:
            counts.update(self.places.get(key, ()))
        if not counts:
            return None, 0
        # The shorter of equals: it says nothing else.
        place = max(counts, key=lambda at: (counts[at], -len(self.passages[at].keys), -at))
        return self.passages[place], counts[place]


@dataclass(frozen=True, slots=True)
class SpeakerSources:
    """Who said what in a slice."""

    person: PassageIndex
    agent: PassageIndex
    foreign: PassageIndex


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """One sentence: what it says, ready to be looked up."""

    text: str
    keys: frozenset[str]
    exact: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[str]
    language: str
    negated: bool
    orders: bool


@dataclass(frozen=True, slots=True)
class ProvenanceVerdict:
    """Whose words a memory rests on, why in a few words, and the messages they stand in."""

    trust: Trust
    why: str = ""
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Finding:
    claim: JudgedSentence
    trust: Trust
    why: str = ""
    messages: tuple[str, ...] = ()  # where it was found, if it was
    things: frozenset[str] = frozenset()  # what it names and the person does not
    is_part: bool = False


def trace(messages: Sequence[Message], believed: Iterable[tuple[str, str]] = ()) -> SpeakerSources:
    """Sort the words of a slice by whose they are; `believed` are texts, each with its name, that count as a person's.

    Those are not looked through for quotes: what is remembered already is nobody's paste.
    """
    texts: Mapping[Trust, list[tuple[str, str]]] = {trust: [] for trust in Trust}
    texts[Trust.PERSON].extend(believed)
    for place, message in enumerate(messages):
        name = message.id or str(place)
        for trust, text in _sort_message(message):
            texts[trust].append((name, text))
    return SpeakerSources(
        _make_index(texts[Trust.PERSON], WINDOW),
        _make_index(texts[Trust.AGENT], FOREIGN_WINDOW),
        _make_index(texts[Trust.FOREIGN], FOREIGN_WINDOW),
    )


def judge_words(text: str, evidence: str, sources: SpeakerSources) -> ProvenanceVerdict:
    """Whose words a memory (title, description and body) rests on; `evidence` is what the model says it rests on."""
    findings = [_judge_claim(claim, sources, is_part) for claim, is_part in _parse_claims(text)]
    findings = list(_believe_labels(findings))
    if doubt := _judge_evidence(evidence, sources):
        return doubt
    for trust in (Trust.FOREIGN, Trust.AGENT):
        for at in findings:
            if at.trust is trust and not (at.is_part and trust is Trust.AGENT):
                return ProvenanceVerdict(trust, f"{at.why}: “{shorten(one_line(at.claim.text), 80)}”", at.messages)
    rests = [at for at in findings if at.trust is Trust.PERSON]
    if not rests:
        return ProvenanceVerdict(Trust.AGENT, "nothing in it is the person's")
    ids = dict.fromkeys(message for at in rests for message in at.messages)
    return ProvenanceVerdict(Trust.PERSON, "the person's own words", tuple(ids))


def is_carried(text: str, sources: SpeakerSources) -> bool:
    """Whether foreign text says a sentence of this, or names what it names, and the person less of it."""
    for claim, _ in _parse_claims(text):
        _, own = sources.person.find_best(claim.keys)
        _, shared = sources.foreign.find_best(claim.keys)
        if max(own, 1) < shared and shared >= _ease(claim, CARRIED_SHARE) * len(claim.keys):
            return True
        if _find_carrier_of_things(claim, _find_novel_things(claim, sources.person), sources):
            return True
    return False


def _sort_message(message: Message) -> Iterator[tuple[Trust, str]]:
    if message.role == "assistant":
        yield Trust.AGENT, message.text
    elif message.role != "user" or message.is_meta or message.answers:
        yield Trust.FOREIGN, message.text
    else:
        for span in split_message(strip_reminders(message.text)):
            yield Trust.PERSON if span.plain else Trust.FOREIGN, span.text


def _make_index(texts: Iterable[tuple[str, str]], width: int) -> PassageIndex:
    passages: list[Passage] = []
    languages: set[str] = set()
    whole: list[str] = []
    for name, text in texts:
        sentences = split_text(text)
        passages += _make_passages(name, sentences, width)
        languages |= {guess_language(at) for at in sentences if len(at.split()) >= PROSE_WORDS or not at.isascii()}
        whole.append(fold_sentence(text))
    places: dict[str, list[int]] = defaultdict(list)
    for number, passage in enumerate(passages):
        for key in passage.keys:
            places[key].append(number)
    frozen = {key: tuple(numbers) for key, numbers in places.items()}
    return PassageIndex(tuple(passages), frozen, "\n".join(whole), frozenset(languages - {""}))


def _make_passages(name: str, sentences: Sequence[str], width: int) -> Iterator[Passage]:
    """Every sentence alone, and every run of neighbours up to the width."""
    keys = [find_keys(sentence) for sentence in sentences]
    for start in range(len(sentences)):
        for end in range(start + 1, min(start + width, len(sentences)) + 1):
            both = frozenset[str]().union(*keys[start:end])
            if both:
                yield Passage(name, "\n".join(sentences[start:end]), both)


def _parse_claims(text: str) -> Iterator[tuple[JudgedSentence, bool]]:
    is_part = False
    for sentence in split_text(text):
        is_part = is_part or _PART.match(sentence) is not None
        claim = parse_claim(_FRONT.sub("", _PART.sub("", sentence)))
        if claim.keys or claim.exact or claim.numbers:
            yield claim, is_part


def _judge_evidence(quote: str, sources: SpeakerSources) -> ProvenanceVerdict | None:
    """A quotation that stands in foreign text and not in the person's tells where the memory came from."""
    words = find_keys(quote)
    if not words:
        return None
    _, own = sources.person.find_best(words)
    passage, foreign = sources.foreign.find_best(words)
    if passage is not None and foreign > own and foreign >= 0.8 * len(words):
        return ProvenanceVerdict(Trust.FOREIGN, "its evidence is no plain word of the person", (passage.message,))
    return None


def _judge_claim(claim: JudgedSentence, sources: SpeakerSources, is_part: bool) -> _Finding:
    novel = _find_novel_things(claim, sources.person)
    if carrier := _find_carrier_of_things(claim, novel, sources):
        return _Finding(claim, Trust.FOREIGN, "foreign text names it", (carrier,), novel, is_part)
    best, own = sources.person.find_best(claim.keys)
    if sources.foreign.passages:
        finding = _judge_among_foreign(claim, sources, best, own)
    else:
        grounded = own >= _ease(claim, ALONE_SHARE) * len(claim.keys)
        finding = (Trust.PERSON, "", best) if grounded else (Trust.AGENT, "nobody but the agent says it", None)
    trust, why, passage = finding
    if novel and trust is Trust.PERSON:
        trust, why, passage = Trust.AGENT, "the person never named it", None
    return _soften(_Finding(claim, trust, why, (passage.message,) if passage else (), novel, is_part), sources)


def _judge_among_foreign(
    claim: JudgedSentence, sources: SpeakerSources, best: Passage | None, own: int
) -> tuple[Trust, str, Passage | None]:
    said = best.keys if best else frozenset()
    novel = claim.keys - said
    carrier, shared = sources.foreign.find_best(claim.keys)
    total = len(claim.keys)
    carried = carrier is not None and shared > 1 and shared >= _ease(claim, CARRIED_SHARE) * total
    if carrier is not None and _is_smuggled(claim, novel, sources.foreign):
        return Trust.FOREIGN, "foreign text says it", carrier
    if own >= _ease(claim, PERSON_SHARE) * total and len(novel) <= max(NOVEL_MAX, (1 - _ease(claim, 1.0)) * total):
        hearsay = best is not None and all(is_hearsay(sentence) for sentence in split_text(best.text))
        if carried and best and carrier and (hearsay or _is_turned(claim, best, carrier)):
            return Trust.FOREIGN, "the person did not say it so, foreign text does", carrier
        if carried and best and carrier and shared >= own and _is_closer(claim, carrier, best):
            return Trust.FOREIGN, "foreign text says it in these words", carrier
        if carrier is not None and shared > own and novel & carrier.keys:
            return Trust.FOREIGN, "foreign text says more of it than the person", carrier
        return Trust.PERSON, "", best
    if carried and shared > own:
        return Trust.FOREIGN, "foreign text says it", carrier
    _, echoed = sources.agent.find_best(claim.keys)
    if claim.language and sources.foreign.languages - {claim.language}:
        return Trust.FOREIGN, "it may be a translation of foreign text", None
    if echoed >= _ease(claim, AGENT_SHARE) * total and not claim.orders:
        return Trust.AGENT, "nobody but the agent says it", None
    return Trust.FOREIGN, "the person did not say it, and foreign text is about", None


def _soften(finding: _Finding, sources: SpeakerSources) -> _Finding:
    """A reason or an advice may be the agent's own, as long as nothing shows that it is foreign."""
    if not finding.is_part or finding.messages or finding.trust is not Trust.FOREIGN:
        return finding
    own = sources.person.find_best(finding.claim.keys)[1] * 2 >= len(finding.claim.keys)
    if not own and finding.claim.language and sources.foreign.languages - {finding.claim.language}:
        return finding
    return replace(finding, trust=Trust.AGENT)


def _is_smuggled(claim: JudgedSentence, novel: Collection[str], foreign: PassageIndex) -> bool:
    """Whether words the person did not say stand together in foreign text, themselves or their neighbours."""
    if not novel:
        return False
    least = 2 if all(key.isascii() for key in novel) else 3
    same = foreign.find_best(novel)[1]
    if same >= least and same * 2 >= len(novel):
        return True
    meant = {near: key for word in re.findall(r"[A-Za-z]+", claim.text) for near, key in _find_near(word, novel)}
    passage, _ = foreign.find_best(meant)
    found = {meant[key] for key in passage.keys & meant.keys()} if passage else set()
    return len(found) > least and len(found) * 3 >= 2 * len(novel)


def _find_near(word: str, novel: Collection[str]) -> Iterator[tuple[str, str]]:
    """Keys of words that mean about the same as a word the person did not say."""
    table, term = open_words(), make_term(word)
    key = term[:6]
    if key not in novel:
        return
    yield key, key
    for near, cosine in table.near(term) if table else ():
        if cosine >= NEAR:
            yield near[:6], key


def _is_turned(claim: JudgedSentence, best: Passage, carrier: Passage) -> bool:
    """Whether the person said the opposite, and foreign text says it like this."""
    return _is_negated(claim, best) is not claim.negated and _is_negated(claim, carrier) is claim.negated


def _is_closer(claim: JudgedSentence, carrier: Passage, best: Passage) -> bool:
    """Whether the words follow each other as in foreign text rather than as the person put them."""
    order = find_order(claim.text)
    return len(order & find_order(carrier.text)) > len(order & find_order(best.text))


def _is_negated(claim: JudgedSentence, passage: Passage) -> bool:
    """As it concerns the claim: by the clause that holds all its words, if there is one, else by all of it."""
    shared = claim.keys & passage.keys
    for clause in _CLAUSE.split(passage.text):
        if shared <= find_keys(clause):
            return is_negated(clause)
    return is_negated(passage.text)


def _ease(claim: JudgedSentence, share: float) -> float:
    wide = sum(not key.isascii() for key in claim.keys)
    return share * WIDE_EASE if wide * 2 > len(claim.keys) else share


def _find_novel_things(claim: JudgedSentence, person: PassageIndex) -> frozenset[str]:
    """Addresses, code, names and numbers that the person never typed in plain words."""
    exact = {at for at in claim.exact if not _stands_in(at, person.text)}
    names = {at for at in claim.names if not _stands_in(at, person.text) and not find_keys(at) & person.places.keys()}
    numbers = {at for at in claim.numbers if not _stands_in(at, person.text)}
    numbers -= {at for at in numbers if at.isdigit() and int(at) <= NUMBER_FREE}
    return frozenset(exact | names | numbers)


def _find_carrier_of_things(claim: JudgedSentence, novel: frozenset[str], sources: SpeakerSources) -> str:
    """The foreign message that has one of them, names, numbers and days only beside other words of the sentence.

    A day is no novelty by itself: "by Thursday" is written out.
    """
    foreign = sources.foreign
    days = {day for day in claim.days if not _stands_in(day, sources.person.text)}
    for thing in sorted(thing for thing in novel | days if _stands_in(thing, foreign.text)):
        least = 0 if thing in claim.exact else 2 if thing in claim.days else 1
        others = claim.keys - find_keys(thing)
        for passage in foreign.passages:
            if len(others & passage.keys) >= min(least, len(others)) and _stands_in(thing, fold_sentence(passage.text)):
                return passage.message
        if thing in claim.exact:
            return "?"
    return ""


def _stands_in(thing: str, text: str) -> bool:
    place = text.find(thing)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + len(thing) : place + len(thing) + 1]
        if not (_is_word(before) and _is_word(thing[0])) and not (_is_word(after) and _is_word(thing[-1])):
            return True
        place = text.find(thing, place + 1)
    return False


def _is_word(char: str) -> bool:
    """Letters of scripts whose words stand apart; a Chinese character may touch anything."""
    return bool(char) and (char.isalnum() or char == "_") and char < "\u2e80"


def _believe_labels(findings: Sequence[_Finding]) -> Iterator[_Finding]:
    """A title or description says again what the sentences below it say: these vouch for it."""
    rests = [at for at in findings if at.trust is Trust.PERSON]
    known = frozenset().union(*(at.claim.keys for at in rests))
    for number, at in enumerate(findings):
        keys, novel = at.claim.keys, len(at.claim.keys - known)
        covered = len(keys) - novel >= _ease(at.claim, LABEL_SHARE) * len(keys) and novel <= NOVEL_MAX
        short = not number and len(keys) <= TITLE_WORDS and not at.claim.orders
        vouched = bool(rests) and not at.messages and not at.things and (covered or short)
        yield replace(at, trust=Trust.PERSON) if vouched else at


def parse_claim(text: str) -> JudgedSentence:
    language = guess_language(text)
    names = frozenset() if language == "de" else find_sentence_names(text)
    numbers = frozenset(_NUMBER.findall(_DAY.sub(" ", _EXACT.sub(" ", text))))
    days, orders = frozenset(_DAY.findall(text)), compile_any("order").search(text) is not None
    keys, exact = find_keys(text), find_exact(text)
    return JudgedSentence(text, keys, exact, names, numbers, days, language, is_negated(text), orders)


def find_keys(text: str) -> frozenset[str]:
    """The telling words of a text, each as the key by which its forms are the same."""
    return frozenset(key for word in _WORD.findall(_fold(text)) if (key := make_word_key(word))) | _find_pairs(text)


def find_order(text: str) -> frozenset[tuple[str, str]]:
    """Which word follows which: two texts of the same words can say opposite things."""
    return frozenset(pairwise(_TOKEN.findall(_fold(text))))


@cache
def _find_pairs_of(run: str) -> frozenset[str]:
    kept: set[str] = set()
    for part in compile_any("grammar_cjk").split(run):
        for word in _HIRAGANA.split(part):  # hiragana is grammar for the most part
            kept |= {word[at : at + 2] for at in range(len(word) - 1)} if len(word) > 1 else {word}
    return frozenset(kept - {""})


def _find_pairs(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset()
    return frozenset().union(*(_find_pairs_of(run) for run in _WIDE_RUN.findall(unicodedata.normalize("NFKC", text))))


def make_word_key(word: str) -> str:
    """Empty for a word that claims nothing."""
    if word in load_small_words() or (len(word) < 2 and word.isascii()):
        return ""
    plain = word
    if not word.isascii():
        plain = "".join(char for char in unicodedata.normalize("NFKD", word) if not unicodedata.combining(char))
    return make_term(plain)[:KEY_LETTERS] if plain not in load_small_words() else ""


def find_exact(text: str) -> frozenset[str]:
    """Addresses, mails, paths, flags, identifiers, files and code, each in the form in which it is compared."""
    found = {_trim(match) for match in (*_EXACT.findall(text), *_CODE.findall(text))}
    return frozenset(at for at in found if len(at) > 1)


def find_sentence_names(text: str) -> frozenset[str]:
    """Words written like names: with a capital in the middle of a sentence, unless most words have one."""
    bare = _EXACT.sub(" ", _CODE.sub(" ", text))
    words = _WORD.findall(bare)
    capitals = [at[0] for at in _CAPITAL.finditer(bare) if at.start() > len(bare) - len(bare.lstrip(" *_\"'“(["))]
    shouted = {word for word in capitals if word.isupper() and len(word) > 1}
    named = capitals if len(capitals) * 2 < len(words) else shouted
    return frozenset(
        fold for word in named if (fold := _fold(word).strip("'’-")) not in load_small_words() and len(fold) > 1
    )


def guess_language(text: str) -> str:
    """zh, ja, or one of four recognized by their small words; empty if it is unclear."""
    wide = sum(map(len, _WIDE_RUN.findall(text)))
    words = _WORD.findall(_fold(text))
    if wide * 3 > len("".join(words)):
        return "ja" if _HIRAGANA.search(text) else "zh"
    counts = {name: sum(map(small.__contains__, words)) for name, small in load_usual_words().items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > 0 and sum(count == counts[best] for count in counts.values()) == 1 else ""


def is_negated(text: str) -> bool:
    """Whether it denies something; a "No," at its beginning denies what was said before it, not what follows."""
    return compile_any("negation").search(compile_any("reply").sub("", text)) is not None


def is_hearsay(text: str) -> bool:
    """A question, or what a page or a file says: the person does not say it themselves."""
    asks = text.rstrip().endswith(("?", "？", "か。", "か", "吗。", "吗"))
    return asks or compile_any("report").search(text) is not None


def fold_sentence(text: str) -> str:
    """A text as exact things are looked up in it."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def _trim(thing: str) -> str:
    return re.sub(r"\A(?:[a-z]+://)?(?:www\.)?", "", fold_sentence(thing).rstrip(".,;:!?)]}'\"/"))


SECRET = "it holds a secret"
ECHO = "the agent said it, and it had that from elsewhere"
SHARED = "a team shares it, and only a person may say so"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)
_TELLING = 5  # characters of a secret that may stand at the end of a name: `ghp` tells nothing
# Lines of a head that say nothing besides what the fields say.
_PLAIN = re.compile(r"\s*(?:(?:name|description):[^#]*|metadata:|(?:type|pinned):\s*\w+|modified:[\s\d:TZ+.'\"-]*)\s*")


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that needs review, why, and the words it rests on as far as that is known."""

    staged: StagedMemory
    why: str
    quote: str = ""


def judge_staged(
    staged: Sequence[StagedMemory],
    sources: SpeakerSources,
    evidence: Mapping[str, str],
    requests: Sequence[MemoryRequest],
) -> tuple[DoubtfulWrite, ...]:
    """The writes that may not be kept without a person."""
    doubts = []
    for at in staged:
        quote = evidence.get(at.name, "")
        if why := _find_doubt(at, sources, quote, requests):
            doubts.append(DoubtfulWrite(at, why, quote))
    return tuple(doubts)


def is_borrowed(request: MemoryRequest) -> bool:
    """Whether a request has a sentence in words that are not the person's, as where they praise what the agent said."""
    own = find_keys(request.quote)
    found = (find_keys(sentence) for sentence in split_text(request.body))
    return request.action != FORGET and any(len(keys - own) * 2 > len(keys) for keys in found)


def doubt_shared(staged: StagedMemory, rules: WriteRules) -> DoubtfulWrite | None:
    """Why a write to what others read needs review, whoever said it; None for any other."""
    return DoubtfulWrite(staged, SHARED) if is_shared(staged.name, rules) else None


def find_credentials(staged: StagedMemory, find: Finder | None) -> list[SecretFinding]:
    """The credentials in a write that were not in the memory before."""
    found = (find or find_secrets)(staged.text or "")
    return [at for at in found if (staged.text or "")[at.start : at.end] not in (staged.before or "")]


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Why a write with a credential in it needs review; None for one without."""
    found = find_credentials(staged, find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(found))}") if found else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """A doubt as it may be kept: the credentials removed from the text, the reason and the quotation."""
    text, found = doubt.staged.text or "", find_credentials(doubt.staged, find)
    secrets = [text[at.start : at.end] for at in found]
    masked = doubt.staged
    if secrets:
        name = masked.name if masked.before is not None else _mask_name(masked.name, secrets)
        masked = replace(masked, name=name, text=_mask_file(text, secrets))
    why, quote = (mask_words(mask_values(words, secrets), find) for words in (doubt.why, doubt.quote))
    return DoubtfulWrite(masked, why, quote)


def mask_words(text: str, find: Finder | None) -> str:
    """A reason or a quotation as it may be kept."""
    return mask(text, (find or find_secrets)(text)) if text else ""


def _mask_file(text: str, secrets: Sequence[str]) -> str:
    """Field by field, so that the head can still be read."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return mask_values(text, secrets)
    changes = {"name": mask_values(fields.title, secrets), "description": mask_values(fields.description, secrets)}
    body = mask_values(frontmatter.split_frontmatter(text).body, secrets)
    return mask_values(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    """A name without a secret that became part of it: names are shown everywhere."""
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title is cut, perhaps in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf


def _find_doubt(staged: StagedMemory, sources: SpeakerSources, quote: str, requests: Sequence[MemoryRequest]) -> str:
    if is_team(staged.name):
        return SHARED
    if staged.text is None:
        asked = any(request.action == FORGET and is_said(request, staged.before or "") for request in requests)
        return "" if asked else "nobody asked to forget it"
    # A new memory is written anew from its fields; one that is rewritten keeps whatever its head says.
    if staged.before is not None and _find_extras(staged.text) - _find_extras(staged.before):
        return "it puts something into the head of the file that belongs nowhere"
    kind, was = (frontmatter.parse_fields(text or "").kind for text in (staged.text, staged.before))
    # A fact that becomes a rule is judged as if it were new: it was let in as a fact.
    added = _find_added("" if was in _FACTS and kind not in _FACTS else staged.before or "", staged.text)
    if not added:
        return "" if staged.before is None else "it only takes something away, and nobody asked for that"
    verdict = judge_words(added, quote, sources)
    if verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and kind in _FACTS):
        return _find_loss(staged.before or "", staged.text, sources)
    return verdict.why


def _find_added(before: str, after: str) -> str:
    """What a write says that the memory did not say before: title, description and body, sentence by sentence."""
    old = set(split_text(_flatten(before)))
    return "\n".join(sentence for sentence in split_text(_flatten(after)) if sentence not in old)


def _find_loss(before: str, after: str, sources: SpeakerSources) -> str:
    """Whether a sentence goes that is neither put in other words nor anything the person spoke of."""
    flat = _flatten(after)
    kept, words = set(split_text(flat)), find_keys(flat)
    for sentence in split_text(frontmatter.split_frontmatter(before).body):
        keys = find_keys(sentence)
        is_gone = sentence not in kept and len(keys & words) * 2 < len(keys)
        if is_gone and not keys & sources.person.places.keys():
            return f"it takes away what nobody spoke of: “{shorten(one_line(sentence), 80)}”"
    return ""


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split_frontmatter(text).body))


def _find_extras(text: str) -> set[str]:
    """Lines of a head that say more than title, description and type."""
    lines = frontmatter.split_frontmatter(text).head.splitlines()
    return {line.strip() for line in lines if line.strip() and not _PLAIN.fullmatch(line)}
