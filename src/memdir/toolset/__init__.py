"""Memory as tools for an agent: the same seven whatever carries them, MCP or an SDK's own tool protocol.

    table.py     names, words and schemas          arguments.py  what a call may hold
    looking.py   search, read, list                writing.py    save, update, forget, log
    addresses.py memdir://SCOPE/NAME

`call_tool` does one call on stores that are open. A refusal is a MemdirError, whose words and hint are for the model.
It keeps nothing between two calls.
"""

from collections.abc import Mapping

from memdir.errors import NotFoundError, SettingsError
from memdir.opening import Opened
from memdir.records import Origin
from memdir.text import one_line, shorten
from memdir.toolset.arguments import check_arguments
from memdir.toolset.looking import Row, Where, list_all, read, search
from memdir.toolset.table import BY_NAME, OFFERS, Offer
from memdir.toolset.writing import forget, log, save, update

__all__ = ["BY_NAME", "OFFERS", "Offer", "Row", "call_tool"]

AGENT = Origin(who="agent")
_LOOKS = {"memory_search": search, "memory_read": read, "memory_list": list_all}
_WRITES = {"memory_save": save, "memory_update": update, "memory_forget": forget}


def call_tool(opened: Opened, name: str, given: Mapping[str, object], *, origin: Origin = AGENT) -> Row:
    """What one tool answers, in the shape of its output schema; `origin.session` is the conversation, if known."""
    if name not in BY_NAME:
        hint = f"there are {', '.join(BY_NAME)}"
        raise NotFoundError(f"there is no tool {shorten(one_line(name), 60)!r}", name=name, hint=hint)
    arguments = check_arguments(BY_NAME[name], given)
    opened.check_on()
    where = Where(opened, origin.session)
    if name in _LOOKS:
        return _LOOKS[name](where, arguments)
    if where.find_record().private:
        raise SettingsError("this conversation is private: nothing is kept of it", hint="ask the person first")
    return _WRITES[name](where, arguments, origin) if name in _WRITES else log(where, arguments)
