"""The six languages whose relative dates memdir understands, one table each. Reading them is the work of `dates`."""

from enum import StrEnum

from memdir.language.grammar import DateLanguage
from memdir.tongues.chinese import CHINESE
from memdir.tongues.english import ENGLISH
from memdir.tongues.french import FRENCH
from memdir.tongues.german import GERMAN
from memdir.tongues.japanese import JAPANESE
from memdir.tongues.spanish import SPANISH

# --- tongues ---

TONGUES: tuple[DateLanguage, ...] = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)


# --- reach ---
# How far a request to leave memory alone reaches.


class IgnoreReach(StrEnum):
    """How far a request reaches; LIFTED takes an earlier one back."""

    TURN = "turn"
    CONVERSATION = "conversation"
    LIFTED = "lifted"
