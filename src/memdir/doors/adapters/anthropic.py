"""Anthropic's memory tool (`memory_20250818`) on a memdir store, for the SDK's own tool runner.

    memory = MemoryTool(memdir.open_store())
    client.beta.messages.tool_runner(model=…, max_tokens=…, messages=[…], tools=[memory]).until_done()

What a command refuses comes back to the model as an error of the tool, in the words it knows. What each command does is
in `commands`.
"""

from typing import Any

from memdir.doors.adapters import make_missing
from memdir.doors.adapters.commands import MemoryCommands
from memdir.doors.adapters.paths import RefusedError
from memdir.store.files import FileStore

try:
    import anyio.to_thread
    from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
except ModuleNotFoundError as error:
    raise make_missing(error, "anthropic") from None


class MemoryTool(BetaAbstractMemoryTool):
    """`session` is the conversation that history files the changes under."""

    def __init__(self, store: FileStore, *, session: str = "", cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self.commands = MemoryCommands(store, session=session)

    def call(self, input: object) -> str:
        """As the model gave it: what the SDK's types require may be missing."""
        return _run(self.commands, input)

    def execute(self, command: Any) -> str:
        return _run(self.commands, command.model_dump())

    view = create = str_replace = insert = delete = rename = execute

    def clear_all_memory(self) -> str:
        return self.commands.clear()


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """The same for the asynchronous client; the work is done in a thread."""

    def __init__(self, store: FileStore, *, session: str = "", cache_control: Any = None) -> None:
        super().__init__(cache_control=cache_control)
        self.commands = MemoryCommands(store, session=session)

    async def call(self, input: object) -> str:
        return await anyio.to_thread.run_sync(_run, self.commands, input)

    async def execute(self, command: Any) -> str:
        return await anyio.to_thread.run_sync(_run, self.commands, command.model_dump())

    view = create = str_replace = insert = delete = rename = execute

    async def clear_all_memory(self) -> str:
        return await anyio.to_thread.run_sync(self.commands.clear)


def _run(commands: MemoryCommands, given: object) -> str:
    try:
        return commands.run(given)
    except RefusedError as error:
        raise ToolError(str(error)) from None
