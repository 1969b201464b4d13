"""Which lines of an instruction file are facts worth a memory: neither orders, nor to be seen in the code.

Precision over recall: an instruction belongs into an instruction file, where an agent reads it anyway, and what the
project shows need not be remembered. What is left names somebody, a date, a decision, a reason, or a place outside.
"""

import re
from pathlib import Path

from memdir.derivable import find_derivable

_ORDER = re.compile(
    r"(?:always|never|do(?:n't| not)?|please|make sure|ensure|be sure|avoid|use|run|prefer|keep|write|add|follow|check|"
    r"read|see|call|create|put|place|include|update|remove|delete|commit|push|test|format|lint|install|build|start|stop|"
    r"set|name|import|export|return|document|verify|ask|only|no|must|should|when|before|after|if|refer|limit|apply|"
    r"respect|wrap|handle|validate|mark|move|rename|store|treat|respond|answer|reply|explain|think|plan)\b",
    re.IGNORECASE,
)
_DUTY = re.compile(r"\b(?:must|should|shall|need(?:s)? to|have to|are required|is required|has to)\b", re.IGNORECASE)
_OUTSIDE = re.compile(
    r"https?://|\b(?:i|i'm|my|me|we|our|us|user|customer|client|team|manager|owner|owned|maintain\w*|contact|because|"
    r"decided|decision|deadline|until|since|legacy|deprecated|frozen|freeze|on[- ]call|slack|jira|linear|notion|"
    r"grafana|sentry|confluence|dashboard|legal|compliance|contract|budget|launch|20\d\d)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]*`|\$\s?\w+ |(?:\w+/)+\w+|--\w+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_WORDS = 5


def find_refusal(said: str, root: Path, source: Path) -> str:
    """Why a line is no fact to remember; empty if it is one. `source` is the file it stands in."""
    words = _CODE.sub(" ", said).split()
    if _ORDER.match(said) or (_DUTY.search(said) and not re.search(r"\bbecause\b|\b20\d\d\b", said)):
        return "it is an instruction, and belongs into an instruction file"
    if len(words) + len(_WIDE.findall(said)) // 2 < _WORDS:
        return "too little is said in words"
    if not _OUTSIDE.search(said):
        return "the project itself shows it"
    for reason in find_derivable(said, root, timeout=2.0):
        if not _is_same(root / reason.source, source):
            return f"{reason.what} ({reason.source})"
    return ""


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False
