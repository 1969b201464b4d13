"""Remove messages that the user does not want to be remembered ("don't write this down", "off the record").

    messages --leave_out--> the messages without that text, for every request to a model and for the built-in patterns

Requests are recognised in six languages (`language.wishes`); others are left to the model. A request applies to its own sentence and the following ones. If it contains nothing itself, it applies to the text before it,
to the previous message if it refers to that, to all sentences about a subject that it names, or to the entire conversation.
If unclear, more is removed. Sentences that the user asks to keep remain. Later sentences that repeat removed text, and the
agent's answers to it, are removed too.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from memdir.conversation.typed import find_runs, find_typed, is_by_person, strip_reminders
from memdir.frozen import compile_late, dataclass, replace
from memdir.language import compile_any, load_stop_words, read_sections
from memdir.language.requests import find_request_languages
from memdir.language.sentences import find_sentences
from memdir.language.wishes import find_wish
from memdir.records import Message
from memdir.text import CJK, fold_words

_STEM, _WORD_CHARS = 5, 4
_FACT_WORDS, _FACT_STEMS, _FACT_CHARS = (
    5,
    3,
    14,
)  # of a fact next to a request: min words, content words, CJK characters
_ABOUT = 0.5  # share of a text's words that must occur in the removed text
_WIDE = compile_late(rf"[{CJK}]")
_WIDE_PAIR = compile_late(rf"(?=([{CJK}]{{2}}))")
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _RequestPatterns:
    """The patterns of one language for what a request not to remember something applies to."""

    code: str
    whole: re.Pattern[str]  # applies to the entire conversation
    back: re.Pattern[str]  # refers to what was said before
    about: re.Pattern[str]  # the subject, as the group `what`
    keeps: re.Pattern[str]  # asks to remember something


@dataclass(frozen=True, slots=True)
class OpenMessages:
    """The messages that may be remembered. `hidden` is the removed text; `whole`: everything was removed."""

    messages: tuple[Message, ...]
    hidden: str = ""
    whole: bool = False

    def hides(self, text: str) -> bool:
        """Return whether a text repeats a removed passage or most of its words."""
        if not self.hidden:
            return False
        shown = "\n".join(message.text for message in self.messages if is_by_person(message))
        if not find_runs(text).isdisjoint(find_runs(self.hidden) - find_runs(shown)):
            return True
        own, hidden = _list_stems(text), _list_stems(self.hidden)
        return bool((own & hidden) - _list_stems(shown)) and len(own & hidden) >= _ABOUT * len(own)


@cache
def _load_patterns() -> dict[str, _RequestPatterns]:
    sections = read_sections("confidential")
    return {
        code: _RequestPatterns(code, **{name: re.compile(pattern, re.IGNORECASE) for name, pattern in section.items()})
        for code, section in sections.items()
    }


def leave_out(messages: Sequence[Message], *, whole: bool = False) -> OpenMessages:
    """Remove what the user asked not to keep; with `whole`, that is the entire conversation."""
    texts = [strip_reminders(message.text) if is_by_person(message) else "" for message in messages]
    hidden: dict[int, list[Span]] = {}
    for number, message in enumerate(messages):
        typed = find_typed(message, uncertain=True) if texts[number] else ""
        for code, wishes in _find_wishes(typed).items():
            whole = _add_covered(texts, number, _load_patterns()[code], wishes, hidden) or whole
    if whole:
        removed = "\n".join(text for text in texts if text)
        return OpenMessages(tuple(replace(one, text="", calls=()) for one in messages), removed, True)
    if not hidden:
        return OpenMessages(tuple(messages))
    removed = "\n".join(texts[number][slice(*span)] for number, spans in hidden.items() for span in spans)
    return OpenMessages(tuple(_remove_hidden(messages, texts, hidden, find_runs(removed))), removed)


def _normalise_quotes(text: str) -> str:
    return text.replace("\u2019", "'")


def _find_wishes(typed: str) -> dict[str, dict[str, str]]:
    """Return the sentences that ask not to remember something, each with the clause that asks, by language."""
    codes = [language.name for language in find_request_languages(typed)] if typed else []
    text, wishes = _normalise_quotes(typed), dict[str, dict[str, str]]()
    for sentence in {text[start:end] for start, end in find_sentences(text)} if codes else ():
        for code in codes:
            if span := find_wish(sentence, code):
                wishes.setdefault(code, {})[sentence] = sentence[slice(*span)]
    return wishes


def _add_covered(
    texts: Sequence[str],
    number: int,
    patterns: _RequestPatterns,
    wishes: Mapping[str, str],
    hidden: dict[int, list[Span]],
) -> bool:
    """Add the text that the requests in a message apply to. Return whether they apply to the entire conversation."""
    text = _normalise_quotes(texts[number])
    sentences = list(find_sentences(text))
    for index, (start, end) in enumerate(sentences):
        sentence = text[start:end]
        if not (asked := wishes.get(sentence)):
            continue
        if patterns.whole.search(sentence):
            return True
        back = patterns.back.search(sentence)
        above = list(_list_neighbours(text, sentences[:index][::-1], start, patterns))
        is_own = not back and _has_fact(sentence, asked)
        spans = [(start, end), *_list_neighbours(text, sentences[index + 1 :], end, patterns)]
        spans += above if not is_own or compile_any("points_to").search(asked) else []
        if is_own:
            _add_earlier(texts, number, sentence, patterns, hidden, is_sure=False)
        elif (back or not any(_has_fact(text[slice(*span)]) for span in above)) and not sentence.rstrip().endswith(
            (":", "：")
        ):
            is_found = _add_earlier(texts, number, sentence, patterns, hidden)
            following = [later for later in range(number + 1, len(texts)) if texts[later]][:1]
            for later in following if not is_found and len(spans) == 1 else ():
                hidden.setdefault(later, []).append((0, len(texts[later])))
        hidden.setdefault(number, []).extend(spans)
    return False


def _list_neighbours(text: str, sentences: Iterable[Span], edge: int, patterns: _RequestPatterns) -> Iterator[Span]:
    """Yield the sentences next to a request in its paragraph, up to one that the user wants to keep."""
    for start, end in sentences:
        gap = text[end:edge] if end <= edge else text[edge:start]
        if "\n" in gap or patterns.keeps.search(text[start:end]):
            return
        yield start, end
        edge = start if end <= edge else end


def _has_fact(sentence: str, asked: str = "") -> bool:
    rest = sentence.replace(asked, " ")
    is_long = len(rest.split()) >= _FACT_WORDS and len(_list_stems(rest)) >= _FACT_STEMS
    is_long = is_long or len(_WIDE.findall(rest)) >= _FACT_CHARS
    return is_long or re.search(r"\d", rest) is not None


def _add_earlier(
    texts: Sequence[str],
    number: int,
    sentence: str,
    patterns: _RequestPatterns,
    hidden: dict[int, list[Span]],
    *,
    is_sure: bool = True,
) -> bool:
    """Add the earlier sentences about a subject that a request names, or else the message before it.

    If no subject is recognised, sentences that share a word with the request are added too. Without `is_sure`, add only
    sentences about the subject. Returns whether there are earlier messages.
    """
    subject = patterns.about.search(sentence)
    stems = _list_stems(subject["what"] if subject else sentence if is_sure else "", patterns.code)
    earlier = [index for index in range(number) if texts[index].strip()]
    is_added = False
    for index in earlier if stems else ():
        for start, end in find_sentences(texts[index]):
            if stems & _list_stems(texts[index][start:end]):
                hidden.setdefault(index, []).append((start, end))
                is_added = subject is not None
    if is_sure and not is_added and earlier:
        hidden.setdefault(earlier[-1], []).append((0, len(texts[earlier[-1]])))
    return bool(earlier)


def _remove_hidden(
    messages: Sequence[Message], texts: Sequence[str], hidden: dict[int, list[Span]], runs: set[int]
) -> Iterator[Message]:
    is_answer = False
    for number, message in enumerate(messages):
        if is_by_person(message):
            is_answer = number in hidden
            yield replace(message, text=_remove_spans(texts[number], hidden.get(number, []), runs))
        elif is_answer and not message.is_meta:
            yield replace(message, text="", calls=())
        else:
            yield replace(message, text=_remove_spans(message.text, [], runs))


def _remove_spans(text: str, spans: Iterable[Span], runs: set[int]) -> str:
    repeats = () if runs.isdisjoint(find_runs(text)) else find_sentences(text)
    spans = [*spans, *((start, end) for start, end in repeats if not runs.isdisjoint(find_runs(text[start:end])))]
    for start, end in sorted(set(spans), reverse=True):
        text = f"{text[:start]}\n{text[end:]}" if end <= len(text) else text[:start]
    return re.sub(r"\n[\n\s]*\n", "\n\n", text).strip() if spans else text


def _list_stems(text: str, code: str = "en") -> set[str]:
    """Return the stems of the longer words in a text, and its pairs of Chinese and Japanese characters."""
    words = (word for word in fold_words(text).split() if len(word) >= _WORD_CHARS and not _WIDE.search(word))
    spaced = {word[:_STEM] for word in words if word not in load_stop_words(code)}
    return spaced | {pair[1] for pair in _WIDE_PAIR.finditer(text)}
