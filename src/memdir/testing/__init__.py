"""For people who test their own stores and agents: docs/testing.md has the examples.

`check_store` is the contract of a store, `ScriptedModel` a model that says what it was told to say, and the two servers
speak the providers' own protocols on 127.0.0.1, so that an agent is tested through its real client. All of it needs the
standard library only. The names load on first use: who wants a sample draft does not pay for a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memdir.testing.chat_server import OpenAIServer
    from memdir.testing.contract import check_store, sample_memory
    from memdir.testing.loopback import Received, refusing_url
    from memdir.testing.messages_server import AnthropicServer
    from memdir.testing.messages_wire import sign_thinking
    from memdir.testing.scripts import FAULTS, Answer, Call, Fault, FaultKind, Part, Say, Script, ScriptedModel, Think

_HOMES = {
    "FAULTS": "scripts",
    "Answer": "scripts",
    "AnthropicServer": "messages_server",
    "Call": "scripts",
    "Fault": "scripts",
    "FaultKind": "scripts",
    "OpenAIServer": "chat_server",
    "Part": "scripts",
    "Received": "loopback",
    "Say": "scripts",
    "Script": "scripts",
    "ScriptedModel": "scripts",
    "Think": "scripts",
    "check_store": "contract",
    "refusing_url": "loopback",
    "sample_memory": "contract",
    "sign_thinking": "messages_wire",
}

__all__ = [
    "FAULTS",
    "Answer",
    "AnthropicServer",
    "Call",
    "Fault",
    "FaultKind",
    "OpenAIServer",
    "Part",
    "Received",
    "Say",
    "Script",
    "ScriptedModel",
    "Think",
    "check_store",
    "refusing_url",
    "sample_memory",
    "sign_thinking",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'memdir.testing' has no attribute {name!r}")
    value = getattr(import_module(f"memdir.testing.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
