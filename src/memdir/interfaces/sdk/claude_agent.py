"""The Claude Agent SDK with a memory in the same process: hooks and tools, without `memdir install`.

    with AgentMemory(memdir.FileStore("agent/memory")) as memory:
        async for message in query(prompt="…", options=memory.add_to(ClaudeAgentOptions(…))):
            …

The UserPromptSubmit hook recalls; Stop learns from the transcript in the background, and `with` waits for it at the end. Each
conversation is a memdir session with the same ID, so a memory shown by one process is not shown again by another. If memdir's
hooks are installed for Claude Code itself, the client runs them too: use one of the two.

The SDK contains the client, some 350 MB; it is only imported by `hooks`, `make_server` and `add_to`.
"""

import asyncio
import copy
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from memdir import __version__
from memdir.conversation.transcripts import read_messages
from memdir.errors import MemdirError
from memdir.interfaces.sdk import SdkTools, make_missing
from memdir.limits import DRAIN_SECONDS, HOOK_CHARS, HOOK_PROMPT_SECONDS, HOOK_TOKENS
from memdir.recall.reminder import fit_memories, measure_reply
from memdir.records import Model
from memdir.session import SILENT, Callbacks, Session
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.text import estimate_tokens

SERVER = "memdir"
Given = Mapping[str, Any]


class AgentMemory:
    """Memory for all conversations of one process. A prompt waits at most `seconds` for recalled memories."""

    def __init__(
        self,
        where: FileStore | Project,
        *,
        model: Model | None = None,
        callbacks: Callbacks = SILENT,
        seconds: float = HOOK_PROMPT_SECONDS,
    ) -> None:
        self._where, self._model, self._callbacks, self._seconds = where, model, callbacks, seconds
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}
        self._transcripts: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self, seconds: float = DRAIN_SECONDS) -> bool:
        """Wait for extraction; return whether it is finished. The client writes its transcript with a delay, so Stop may
        not see the end of it. Call this after the client has ended, so that the rest is read."""
        with self._lock:
            sessions, transcripts = dict(self._sessions), dict(self._transcripts)
        for id, path in transcripts.items():
            self._extract(sessions[id], path)
        return all([session.close(seconds) for session in sessions.values()])

    def add_to(self, options: Any) -> Any:
        changed = copy.copy(options)
        hooks = dict(options.hooks or {})
        for event, matchers in self.hooks().items():
            hooks[event] = [*hooks.get(event, ()), *matchers]
        servers = dict(options.mcp_servers) if isinstance(options.mcp_servers, dict) else {}
        changed.hooks, changed.mcp_servers = hooks, {**servers, SERVER: self.make_server()}
        changed.allowed_tools = [*options.allowed_tools, *self.list_tools()]
        return changed

    def hooks(self) -> dict[str, list[Any]]:
        """Return the hooks for `ClaudeAgentOptions(hooks=…)`."""
        try:
            from claude_agent_sdk import HookMatcher
        except ModuleNotFoundError as error:
            raise make_missing(error, "agent") from None
        return {"UserPromptSubmit": [HookMatcher(hooks=[self.on_prompt])], "Stop": [HookMatcher(hooks=[self.on_stop])]}

    def make_server(self) -> Any:
        """Return the seven memory tools for `ClaudeAgentOptions(mcp_servers={"memdir": …})`."""
        try:
            from claude_agent_sdk import create_sdk_mcp_server, tool
        except ModuleNotFoundError as error:
            raise make_missing(error, "agent") from None
        own = SdkTools(self._where, by="the Claude Agent SDK")
        tools = [
            tool(offer.name, offer.description, dict(offer.input))(_make_tool(own, offer.name)) for offer in own.offers
        ]
        return create_sdk_mcp_server(SERVER, __version__, tools)

    @staticmethod
    def list_tools() -> list[str]:
        """Return the tools' names in the client, for `allowed_tools`."""
        return [f"mcp__{SERVER}__{offer.name}" for offer in SdkTools.offers]

    async def on_prompt(self, hook_input: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """Return the memories recalled for a prompt; waits at most `seconds`, so some may be missing."""
        text = await asyncio.to_thread(self._recall, hook_input)
        if not text:
            return {}
        return {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}}

    async def on_stop(self, hook_input: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        await asyncio.to_thread(self._note_transcript, hook_input)
        return {}

    def _recall(self, hook_input: Given) -> str:
        session = self._open(hook_input)
        if session is None:
            return ""
        rules = session.rules_notice()
        session.prompt_arrived(str(hook_input.get("prompt", "")))
        reminders = session.take_reminders(seconds=self._seconds)
        if reminders is None:
            return rules
        now, before = session.stores[0].clock(), rules and f"{rules}\n\n"
        chars, tokens = HOOK_CHARS - measure_reply(before), HOOK_TOKENS - estimate_tokens(before)
        return before + fit_memories(reminders.recalled.memories, now=now, chars=chars, tokens=tokens)

    def _note_transcript(self, hook_input: Given) -> None:
        session, path = self._open(hook_input), str(hook_input.get("transcript_path") or "")
        if session is not None and path:
            with self._lock:
                self._transcripts[session.id] = path
            self._extract(session, path)

    def _extract(self, session: Session, path: str) -> None:
        try:
            session.turn_ended(list(read_messages(path)))
        except MemdirError as error:  # report the error, because memory must not stop the agent
            self._callbacks.error(error)

    def _open(self, hook_input: Given) -> Session | None:
        id, cwd = str(hook_input.get("session_id") or ""), hook_input.get("cwd")
        if not id:
            return None
        with self._lock:
            if id not in self._sessions:
                path = Path(str(cwd)) if cwd else None
                try:
                    session = Session(self._where, model=self._model, id=id, cwd=path, callbacks=self._callbacks)
                    self._sessions[id] = session
                except MemdirError as error:
                    self._callbacks.error(error)
            return self._sessions.get(id)


def _make_tool(tools: SdkTools, name: str) -> Callable[..., Any]:
    async def run_tool(arguments: Any) -> dict[str, Any]:
        result = await asyncio.to_thread(tools.call, name, arguments)
        return {"content": [{"type": "text", "text": result.text}], "is_error": result.refused}

    return run_tool
