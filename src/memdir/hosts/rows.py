"""One row a coding agent: what its hooks are called, which of them we want, and how it likes to be answered.

    Event    what can happen in a conversation, as memdir names it; `memdir hook EVENT` takes these names
    Hook     one event of one host: its own name there, which tools it is wanted for, how long the host shall wait
    Host     the row

All of it was read in the hosts' documentation or source. The rows of Claude Code, Codex and Gemini CLI were tried with
the real clients, the others only against their documented forms.

What it does not do: know where anything lies on this machine (places), or speak to a host (the hook door).
"""

from collections.abc import Mapping
from enum import StrEnum

from memdir.frozen import dataclass, field


class Event(StrEnum):
    START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    STOP = "stop"
    COMPACT = "before-compact"
    AGENT = "subagent-start"
    END = "session-end"


class Style(StrEnum):
    """How an answer is spelled."""

    CLAUDE = "claude"  # hookSpecificOutput, permissionDecision; Codex and VS Code took it over
    GEMINI = "gemini"  # the same but for refusals: decision and reason


@dataclass(frozen=True, slots=True)
class Hook:
    """`seconds` is the host's patience, far above ours: it counts the start of the interpreter, too."""

    event: Event
    name: str
    tools: str = ""
    seconds: int = 10
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """`loads_index`: it puts the project's MEMORY.md before the model by itself. `learns`: we can read its transcripts.

    `unit` is how many of the host's units of time make a second. `told` are the events after which it puts context
    before the model; where the start of a session is not among them, the index goes with the first prompt.
    """

    key: str
    title: str
    hooks: tuple[Hook, ...] = ()
    style: Style = Style.CLAUDE
    loads_index: bool = False
    learns: bool = False
    unit: int = 1
    told: frozenset[Event] = frozenset((Event.START, Event.PROMPT, Event.BEFORE_TOOL, Event.AGENT))
    aliases: Mapping[str, Event] = field(default_factory=dict)


CLAUDE_CODE = Host(
    "claude-code",
    "Claude Code",
    (
        Hook(Event.START, "SessionStart"),
        Hook(Event.PROMPT, "UserPromptSubmit"),
        Hook(Event.BEFORE_TOOL, "PreToolUse", tools="Write|Edit|MultiEdit|NotebookEdit|Bash"),
        # Nothing is answered there, so nobody need wait for it.
        Hook(Event.AFTER_TOOL, "PostToolUse", tools="Read|Write|Edit|MultiEdit", is_async=True),
        Hook(Event.STOP, "Stop"),
        Hook(Event.COMPACT, "PreCompact"),
        Hook(Event.AGENT, "SubagentStart"),
        Hook(Event.END, "SessionEnd", seconds=5),
    ),
    loads_index=True,
    learns=True,
)
CODEX = Host(
    "codex",
    "Codex CLI",
    (
        Hook(Event.START, "SessionStart"),
        Hook(Event.PROMPT, "UserPromptSubmit"),
        Hook(Event.BEFORE_TOOL, "PreToolUse", tools="Bash|apply_patch|Edit|Write"),
        Hook(Event.STOP, "Stop"),
        Hook(Event.COMPACT, "PreCompact"),
        Hook(Event.AGENT, "SubagentStart"),
        Hook(Event.END, "SessionEnd", seconds=3),  # more is cut to this
    ),
    learns=True,
)
GEMINI = Host(
    "gemini-cli",
    "Gemini CLI",
    (
        Hook(Event.START, "SessionStart"),
        Hook(Event.PROMPT, "BeforeAgent"),
        Hook(Event.BEFORE_TOOL, "BeforeTool", tools="write_file|replace|run_shell_command"),
        Hook(Event.AFTER_TOOL, "AfterTool", tools="read_file|write_file|replace"),
        Hook(Event.STOP, "AfterAgent"),
        Hook(Event.END, "SessionEnd", seconds=5),
    ),
    style=Style.GEMINI,
    learns=True,
    unit=1000,
    # Not at the start: `gemini -p` puts that before the prompt itself, takes no `/command` there any more, and forgets
    # the prompt when the conversation is taken up again.
    told=frozenset((Event.PROMPT,)),
    # Not asked for: it comes with every turn, before Gemini has looked whether there is anything to compress.
    aliases={"precompress": Event.COMPACT},
)
VSCODE = Host(
    "vscode",
    "VS Code",
    (
        Hook(Event.START, "SessionStart"),
        Hook(Event.PROMPT, "UserPromptSubmit"),
        Hook(Event.BEFORE_TOOL, "PreToolUse"),  # it has no matchers
        Hook(Event.AFTER_TOOL, "PostToolUse"),
        Hook(Event.AGENT, "SubagentStart"),
    ),
)
# No hook of Cursor's is known to put anything before the model: a rule file and MCP do.
CURSOR = Host("cursor", "Cursor")

HOSTS: Mapping[str, Host] = {host.key: host for host in (CLAUDE_CODE, CODEX, GEMINI, VSCODE, CURSOR)}
_SPELLINGS = {
    "claude": CLAUDE_CODE,
    "gemini": GEMINI,
    "code": VSCODE,
    "copilot": VSCODE,
}


def find_host(text: str) -> Host | None:
    """The host of that name, in any usual spelling."""
    plain = _plain(text)
    known = {_plain(key): host for key, host in HOSTS.items()} | _SPELLINGS
    return known.get(plain)


def find_event(text: str, host: Host) -> Event | None:
    """The event of that name, ours or the host's own; Claude Code's names are understood everywhere."""
    plain = _plain(text)
    names = {_plain(event): event for event in Event}
    for row in (CLAUDE_CODE, host):
        names |= {_plain(hook.name): hook.event for hook in row.hooks}
    return (names | dict(host.aliases)).get(plain)


def find_name(event: Event, host: Host) -> str:
    """What the host calls an event; Claude Code's name where it has none of its own."""
    for row in (host, CLAUDE_CODE):
        for hook in row.hooks:
            if hook.event is event:
                return hook.name
    return event.value


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if "a" <= char <= "z")
