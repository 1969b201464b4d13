"""How far a request to leave memory alone reaches."""

from enum import StrEnum


class Ignoring(StrEnum):
    """How far a request reaches; LIFTED takes an earlier one back."""

    TURN = "turn"
    CONVERSATION = "conversation"
    LIFTED = "lifted"
