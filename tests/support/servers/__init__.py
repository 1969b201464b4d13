"""Both providers' protocols on 127.0.0.1, so that tests run the real clients against answers that a script gives."""

from servers.chat_server import OpenAIServer
from servers.loopback import Received, refusing_url
from servers.messages_server import AnthropicServer
from servers.messages_wire import sign_thinking
from servers.scripts import FAULTS, Answer, Call, Fault, FaultKind, Part, Say, Script, Think, read_blocks

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
    "Think",
    "read_blocks",
    "refusing_url",
    "sign_thinking",
]
