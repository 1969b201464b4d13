"""The frozen records that packages pass to each other. They do not access files or clocks.

A `Draft` goes into a store and a `StoredMemory` comes out: unchecked and stored text have different types, so that a
type checker finds a missing check.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from enum import StrEnum
from typing import TypedDict

from memdir.frozen import dataclass, field


class SkipReason(StrEnum):
    """A base for enumerations whose members also have a text for the user, `words`."""

    words: str

    def __new__(cls, value: str, words: str) -> "SkipReason":
        member = str.__new__(cls, value)
        member._value_, member.words = value, words
        return member


class Kind(StrEnum):
    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"


class Scope(StrEnum):
    PRIVATE = "private"
    USER = "user"
    TEAM = "team"
    PROJECT = "project"  # in the project's repository, `.claude/memory/`: shared like a team's
    AGENT = "agent"


# Folders below the private memory directory: team memories and daily logs.
TEAM_FOLDER, LOGS_FOLDER = "team", "logs"


def make_log_path(day: date) -> str:
    return f"{LOGS_FOLDER}/{day.year:04}/{day.month:02}/{day.isoformat()}.md"


class Dialect(StrEnum):
    """The position of the type in a file: `type:` at the top, or inside `metadata:`."""

    FLAT = "flat"
    NESTED = "nested"


class Enforce(StrEnum):
    """What happens at an action that matches a user's rule: show the rule, ask the user, or deny the action."""

    REMIND = "remind"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class When:
    """When a memory is relevant (see `format.when`): always, or for actions that match one of the patterns.

    `always` is True for a standing rule, False for a memory that must not become one, and None if it is not set.
    """

    always: bool | None = None
    paths: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    enforce: Enforce | None = None

    @property
    def has_patterns(self) -> bool:
        return bool(self.paths or self.commands or self.content)


@dataclass(frozen=True, slots=True)
class Draft:
    """A memory to write, before any check.

    If `name` is empty, it is made from the title. An optional field that is None does not change an existing memory. A
    cue is a short task or question for which the memory should be recalled.
    """

    kind: Kind
    title: str
    description: str
    body: str
    name: str | None = None
    pinned: bool | None = None
    cues: tuple[str, ...] | None = None
    when: When | None = None


class FieldChanges(TypedDict, total=False):
    """The fields of a memory to change; `why` and `how` are parts of the body."""

    kind: Kind
    title: str
    description: str
    body: str
    why: str | None
    how: str | None
    cues: tuple[str, ...]
    pinned: bool
    when: When


@dataclass(frozen=True, slots=True)
class Signature:
    """The `stat` values of a file. While they are equal, the content is assumed to be unchanged."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True, slots=True)
class Header:
    """The frontmatter and metadata of a memory file. Unreadable fields are empty."""

    name: str
    title: str
    description: str
    kind: Kind | None
    scope: Scope
    modified: datetime
    pinned: bool
    signature: Signature
    dialect: Dialect | None = None
    problem: str = ""
    cues: tuple[str, ...] = ()
    when: When = When()

    @property
    def file(self) -> str:
        return f"{self.name}.md"


class _Titled:
    """Attributes that forward to the header of a memory."""

    __slots__ = ()
    header: Header

    @property
    def name(self) -> str:
        return self.header.name

    @property
    def title(self) -> str:
        return self.header.title

    @property
    def description(self) -> str:
        return self.header.description

    @property
    def kind(self) -> Kind | None:
        return self.header.kind


@dataclass(frozen=True, slots=True)
class StoredMemory(_Titled):
    """A stored memory with its header, full text, body, and the digest that `expect` is compared with."""

    header: Header
    text: str
    body: str
    digest: str


@dataclass(frozen=True, slots=True)
class Origin:
    who: str = "person"
    why: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Clip:
    """The part of an index that a session loads, with counts of the omitted parts and a warning about them."""

    text: str
    lines: int
    lines_total: int
    bytes: int
    bytes_total: int
    dead: int = 0
    over_lines: bool = False
    over_bytes: bool = False
    warning: str = ""

    @property
    def is_cut(self) -> bool:
        return self.over_lines or self.over_bytes


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """The content digests of a file before and after a change. None means that the file does not exist.

    An index changes at every save, so only the spliced bytes are kept; otherwise history would grow quadratically.
    `redacted`: a server's history no longer has the content.
    """

    path: str
    before: str | None
    after: str | None
    splice: tuple[int, bytes, bytes] | None = None
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """One atomic change in the history of a directory.

    On a server, `actor` is the credential with which the change was made.
    """

    id: int
    at: datetime
    verb: str
    origin: Origin
    files: tuple[ChangedFile, ...] = ()
    undoes: int | None = None
    undone_by: int | None = None
    actor: str = ""


@dataclass(frozen=True, slots=True)
class Save:
    """Write a draft as a new memory or, with `expect`, as a new version of an existing one."""

    draft: Draft
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    name: str
    text: str
    expect: str


@dataclass(frozen=True, slots=True)
class Put:
    """Create a file with exactly this text; `hook` is the text of its index line if it is not the description."""

    name: str
    text: str
    hook: str = ""


@dataclass(frozen=True, slots=True)
class Forget:
    name: str
    expect: str | None = None


@dataclass(frozen=True, slots=True)
class Pin:
    """Pin or unpin a memory."""

    name: str
    pinned: bool


@dataclass(frozen=True, slots=True)
class AddPointer:
    """Add the index line of a memory, unless the line exists or the memory does not."""

    name: str


@dataclass(frozen=True, slots=True)
class DropPointer:
    name: str


@dataclass(frozen=True, slots=True)
class ReplaceLine:
    """Replace an index line that points to a memory. `was` is the line as the caller read it."""

    name: str
    was: str
    line: str


IndexEdit = AddPointer | DropPointer | ReplaceLine
Edit = Save | Rewrite | Put | Forget | Pin | IndexEdit


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch: the change, or None if nothing changed, and the memory name of each edit.

    `dropped` are the names of skipped edits, whose memory was changed by others or is pinned. `repeated` means that a
    change with this idempotency key already existed; `change` and `names` then describe it.
    """

    change: int | None
    names: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    repeated: bool = False


class InboxKind(StrEnum):
    """The reason for review: text of doubtful origin, a conflict, a proposal, or a request for approval."""

    MEMORY = "memory"
    CONFLICT = "conflict"
    PROPOSAL = "proposal"
    APPROVAL = "approval"


class InboxState(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One item of the inbox, pending or decided.

    `key` identifies its subject, so that it is never pending twice; items without a key are always added. `name` is
    the memory that it concerns, if any. `payload` is JSON, described in `store.inbox`. The store assigns the `id`.
    """

    kind: InboxKind
    title: str
    why: str
    at: datetime
    key: str = ""
    name: str = ""
    origin: Origin = Origin()
    payload: Mapping[str, object] = field(default_factory=dict)
    id: int = 0
    state: InboxState = InboxState.WAITING
    decided: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """The input of a selector. `wide` asks for the best matches up to the limit, instead of those that certainly help.

    `skips_rules`: standing rules cannot be selected, because the conversation has them from its start. `acts`: the
    host also shows memories at later actions, so a memory with paths or content in `when` may wait for them.
    """

    text: str
    recent_tools: tuple[str, ...] = ()
    now: datetime = field(kw_only=True)
    wide: bool = field(default=False, kw_only=True)
    skips_rules: bool = field(default=False, kw_only=True)
    acts: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Evidence:
    """The components of a score: matched words, similarity of meaning, and the prior."""

    lexical: float = 0.0
    semantic: float = 0.0
    prior: float = 0.0
    words: tuple[str, ...] = ()
    sure: float | None = None  # confidence that showing it helps, if computed; above 0 it is shown


@dataclass(frozen=True, slots=True)
class Pick:
    """A candidate. `dropped` is the reason why it was not selected, or ""; `by` is the name of the selector."""

    header: Header
    score: float
    evidence: Evidence
    dropped: str = ""
    by: str = ""


# Returns the selected headers, best first, up to the limit, possibly none, all from the headers passed.
Selector = Callable[[Query, Sequence[Header], int], Sequence[Pick]]


@dataclass(frozen=True, slots=True)
class Excerpt(_Titled):
    """The part of a memory shown in a conversation, with its text cut to the limits and the path of the full file."""

    header: Header
    path: str
    text: str
    digest: str
    lines: int
    lines_total: int
    score: float = 0.0
    truncated: bool = False
    caveat: str = ""
    author: str = ""  # of a team memory, if known
    since: datetime | None = None  # the time its age counts from; None: the header's time

    @property
    def dated(self) -> datetime:
        """Return the time from which the memory's age is counted."""
        return self.since or self.header.modified

    @property
    def size(self) -> int:
        """Return the size in UTF-8 bytes, as counted in the conversation's budget."""
        return len(self.text.encode("utf-8", "replace"))


class Moment(StrEnum):
    """The occasion on which a memory was shown.

    The last three record what followed: the action was carried out, the user allowed it, or the memory was not useful.
    """

    START = "start"
    PROMPT = "prompt"
    ACTION = "action"
    READ = "read"  # the agent read the definition of something that the memory names
    FAILURE = "failure"
    LATE = "late"  # selected in the background, and shown with the next prompt
    TOO_LATE = "too late"  # the same, but not shown
    CARRIED_OUT = "carried out"
    OVERRIDDEN = "overridden"
    NOT_USEFUL = "not useful"

    @property
    def is_shown(self) -> bool:
        return self not in (Moment.TOO_LATE, Moment.CARRIED_OUT, Moment.OVERRIDDEN, Moment.NOT_USEFUL)

    @classmethod
    def _missing_(cls, value: object) -> "Moment":
        return cls.PROMPT  # a value that a newer version wrote


@dataclass(frozen=True, slots=True)
class ActionOutcomes:
    """How often a memory was shown at an action, the action was then dropped, or the user allowed it."""

    fired: int = 0
    followed: int = 0
    overridden: int = 0

    def describe(self) -> str:
        return f"{self.fired} times, followed {self.followed}, overridden {self.overridden}"


@dataclass(frozen=True, slots=True)
class Surfacing:
    """A row of the recall log: which memory was shown, when, for which query and in which conversation."""

    name: str
    at: datetime
    query: str
    session: str = ""
    selector: str = ""
    score: float = 0.0
    moment: Moment = Moment.PROMPT


def count_outcomes(recalls: Iterable[Surfacing]) -> ActionOutcomes:
    counts = Counter(recall.moment for recall in recalls)
    fired = counts[Moment.ACTION]
    return ActionOutcomes(fired, max(0, fired - counts[Moment.CARRIED_OUT]), counts[Moment.OVERRIDDEN])


@dataclass(frozen=True, slots=True)
class RecallCounts:
    """How often memories were shown, according to the recall log."""

    total: int = 0
    by_name: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    input: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Message:
    """One message; its role is user, assistant or tool.

    `is_meta` marks text that the host inserted. `answers` is the ID of the call that a tool result belongs to, and
    `failed` means that the call failed or was refused. `raw` is the message as its provider wrote it, to be sent back
    unchanged by a provider of the same kind.
    """

    role: str
    text: str
    id: str = ""
    at: datetime | None = None
    is_meta: bool = False
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    failed: bool = False
    raw: object = None


SELECT = "select"  # the purpose of a request that selects memories


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model. `schema` is the JSON schema of the answer.

    `parent` is the body of an earlier request of a host. It is sent again unchanged, so that the provider's cache
    applies, followed by `messages`; `system` and `tools` are then empty. `purpose` is for the usage record.
    """

    system: str
    messages: tuple[Message, ...]
    max_tokens: int
    schema: Mapping[str, object] | None = None
    on_text: Callable[[str], None] | None = None
    cancelled: Callable[[], bool] | None = None
    tools: tuple[Tool, ...] = ()
    parent: Mapping[str, object] | None = None
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The token counts of a request (uncached, cached and stored input, and output) and its cost, if known."""

    fresh: int = 0
    cached: int = 0
    output: int = 0
    stored: int = 0
    dollars: float | None = None

    @property
    def input(self) -> int:
        return self.fresh + self.cached + self.stored


class StopReason(StrEnum):
    """The reason a model stopped: it finished, called tools, reached the token limit, or declined."""

    DONE = "done"
    CALLS = "calls"
    LENGTH = "length"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    usage: Usage = Usage()
    calls: tuple[ToolCall, ...] = ()
    stop: StopReason = StopReason.DONE
    raw: object = None


# Sends a request to a model and returns its reply. Raises only ModelError and BudgetError.
Model = Callable[[Request], Reply]
