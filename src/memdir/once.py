"""Kept as by `functools.cache`, but made once: threads that need the same thing wait for the one that makes it.

The patterns of a language take a large part of a second to compile. A hundred users who come at the same moment would
otherwise each compile them, and wait for all the others doing so.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Made = TypeVar("Made")
_MAKING = threading.RLock()  # one for all: what is made may need another thing that is made once


def once(make: Callable[Given, Made]) -> Callable[Given, Made]:
    """The function, called once for each of the arguments it is ever given; they go by place and are hashable."""
    kept: dict[tuple[object, ...], Made] = {}

    @wraps(make)
    def find(*given: Given.args, **_: Given.kwargs) -> Made:
        try:
            return kept[given]
        except KeyError:
            pass
        with _MAKING:
            if given not in kept:
                kept[given] = make(*given, **_)
            return kept[given]

    return find
