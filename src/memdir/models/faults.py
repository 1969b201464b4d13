"""What a provider says when it does not answer, as one of ours: a closed list of reasons, one line of words each.

The words of providers are shown only where they help, shortened, and with whatever looks like a key masked. It does
not decide when to try again (retry): it says only whether that may help.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus

from memdir.errors import UnreachableError
from memdir.models.wire import as_table
from memdir.text import one_line, shorten

# Every reason, in words; `{who}` is the model that was asked.
REASONS: Mapping[str, str] = {
    "key": "{who} does not accept the key",
    "forbidden": "{who} does not allow this",
    "missing": "{who} is not there: no such model or address",
    "too_long": "{who} cannot read that much at once",
    "spent": "the spending limit at the provider of {who} is reached",
    "refused": "{who} refused the request",
    "busy": "{who} has too many requests just now",
    "down": "{who} is out of order just now",
    "offline": "{who} cannot be reached",
    "timeout": "{who} did not answer in time",
    "broken": "the answer of {who} broke off",
}
PASSING = frozenset({"busy", "down", "offline", "timeout", "broken"})
_HINTS = {
    "key": "check the key and the address; `docs/models.md` says where they come from",
    "forbidden": "check what the key may do at the provider",
    "missing": "check the name with the provider: `memdir config get model`, and model_url",
    "too_long": "shorten what is asked, or choose a model with a larger window",
    "spent": "raise it or wait until it is renewed; memdir goes on by rules meanwhile",
    "refused": "the provider's own words say why",
    "busy": "wait a little; memdir tries again by itself the next time",
    "down": "wait a little; memdir tries again by itself the next time",
    "offline": "check the network and the address: `memdir config get model_url`",
    "timeout": "`memdir config set model_seconds 120` waits longer",
    "broken": "memdir tries again by itself the next time",
}
_SPENT_KINDS = re.compile(r"insufficient_|billing|spend_limit|credit_balance|budget_exceeded")
_SPENT = re.compile(
    r"credit balance|spend(?:ing)? (?:limit|cap)|usage limit|insufficient (?:quota|credit|fund|balance)"
    r"|current quota|billing|payment",
    re.IGNORECASE,
)
_LONG_KINDS = frozenset({"context_length_exceeded", "request_too_large", "string_above_max_length"})
_LONG = re.compile(
    r"(?:prompt|input|request|message)s? (?:is|are) too (?:long|large)|context (?:length|window|size)|maximum context",
    re.IGNORECASE,
)
_BUSY_KINDS = frozenset({"rate_limit_error", "rate_limit_exceeded", "too_many_requests"})
_DOWN_KINDS = frozenset({"overloaded_error", "api_error", "server_error", "internal_error", "timeout_error"})
_KEYS = re.compile(r"\b(?:sk|pk|key)[-_][\w.*-]{6,}|\bBearer \S+")
_BY_STATUS = {401: "key", 403: "forbidden", 404: "missing", 408: "timeout", 409: "busy", 413: "too_long", 429: "busy"}
_WORDS_CHARS = 300


def make_fault(who: str, reason: str, *, words: str = "", after: float | None = None) -> UnreachableError:
    """One line: what is wrong, and the provider's own words if there are any."""
    said = shorten(_KEYS.sub("…", one_line(words)).strip(" ."), _WORDS_CHARS)
    message = REASONS[reason].format(who=who) + (f": {said}" if said else "")
    return UnreachableError(message, reason=reason, passing=reason in PASSING, after=after, hint=_HINTS[reason])


def make_status_fault(
    who: str, status: int, body: object, *, headers: Mapping[str, str] | None = None, now: float | None = None
) -> UnreachableError:
    """What an answer with an error in it means; of an error inside a stream the status is 200 and says nothing."""
    kinds, words = read_error(body)
    reason = _find_reason(status, kinds, words)
    if not words and status >= 300:
        words = f"{status} {_phrase(status)}".strip()
    return make_fault(who, reason, words=words, after=read_after(headers or {}, now))


def read_error(body: object) -> tuple[frozenset[str], str]:
    """What it is called, by type and code, and its words; from `{"error": {…}}` or from the inside of that."""
    table = as_table(body)
    inner = table.get("error")
    table = as_table(inner) or table
    names = (table.get("code"), as_table(table.get("details")).get("error_code"), table.get("type"))
    kinds = frozenset(at for at in names if isinstance(at, str) and at)
    words = table.get("message") or (inner if isinstance(inner, str) else "")
    return kinds, words if isinstance(words, str) else ""


def read_after(headers: Mapping[str, str], now: float | None) -> float | None:
    """The seconds that a provider asks to wait; a date is taken against `now`, the seconds since the epoch."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * unit)
        except ValueError:
            continue
    if now is None or "retry-after" not in headers:
        return None
    # Imported here: a date in this place is rare, and its parser would cost every `status` a third of its time.
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None


def _find_reason(status: int, kinds: frozenset[str], words: str) -> str:
    spent = any(_SPENT_KINDS.search(kind) for kind in kinds)
    if spent or status == 402 or (status in (400, 403, 429) and _SPENT.search(words)):
        return "spent"
    if kinds & _LONG_KINDS or (status in (400, 422, 500) and _LONG.search(words)):
        return "too_long"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return "down"
    if status < 300 and kinds & _BUSY_KINDS:
        return "busy"
    return "down" if status < 300 and (kinds & _DOWN_KINDS or not kinds) else "refused"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "overloaded" if status == 529 else ""
