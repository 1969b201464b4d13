"""The six languages whose relative dates memdir understands, one table each. Reading them is the work of `dates`."""

from memdir.tongues.chinese import CHINESE
from memdir.tongues.english import ENGLISH
from memdir.tongues.french import FRENCH
from memdir.tongues.german import GERMAN
from memdir.tongues.grammar import Tongue
from memdir.tongues.japanese import JAPANESE
from memdir.tongues.spanish import SPANISH

TONGUES: tuple[Tongue, ...] = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
