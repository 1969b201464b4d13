"""The local extractor: what a conversation wants remembered or forgotten, found by rules in six languages, no model.

    messages --find_wishes--> wishes --place--> staging

`tongue` and the languages hold the patterns, `hearing` and `joining` find what they fit, `naming` words it as a memory,
`merging` lets it meet what is there already. It hears a person's own plain words; what was pasted is told by `taint`.
"""

from memdir.rules.composing import compose, is_forgetting
from memdir.rules.merging import is_said, place
from memdir.rules.records import Placed, Wish
from memdir.rules.tongue import Category
from memdir.rules.wishing import find_hidden_wishes, find_wishes

__all__ = [
    "Category",
    "Placed",
    "Wish",
    "compose",
    "find_hidden_wishes",
    "find_wishes",
    "is_forgetting",
    "is_said",
    "place",
]
