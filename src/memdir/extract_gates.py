"""Why nothing was learned from a turn: the closed list, with the words for it."""

from enum import StrEnum


class ExtractSkip(StrEnum):
    """Every reason why a turn is not learned from, or not now."""

    OFF = "off"
    PAUSED = "paused"
    PRIVATE = "private"
    SUBAGENT = "subagent"
    HEADLESS = "headless"
    NOTHING_NEW = "nothing_new"
    REPEATED = "repeated"
    OWN_WRITES = "own_writes"
    THROTTLED = "throttled"
    BUSY = "busy"
    FAILED = "failed"
    NOTHING_FOUND = "nothing_found"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    ExtractSkip.OFF: "learning is switched off here",
    ExtractSkip.PAUSED: "memory is paused",
    ExtractSkip.PRIVATE: "this conversation is private",
    ExtractSkip.SUBAGENT: "it was a helper of the agent, not the agent itself",
    ExtractSkip.HEADLESS: "nobody sat before it, and only what a person asks for is kept then",
    ExtractSkip.NOTHING_NEW: "nothing was said since the last time",
    ExtractSkip.REPEATED: "these messages were learned from already",
    ExtractSkip.OWN_WRITES: "the agent wrote to memory itself in these messages",
    ExtractSkip.THROTTLED: "it is not the turn for it: extract_every says how often",
    ExtractSkip.BUSY: "another run is under way; this turn follows it",
    ExtractSkip.FAILED: "it came to no good end; the next run tries again",
    ExtractSkip.NOTHING_FOUND: "nothing in it was worth keeping",
}
