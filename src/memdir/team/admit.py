"""Whether a file may come into the team's folder, or leave it: the same checks in both directions, for every file.

Refused: a name outside the grammar or another spelling of one that is there, whatever is not a plain file, too much of
it, control characters, a head that cannot be read, a memory about a person, a secret. What is refused stays as it is on
either side. A text that speaks to the agent like an instruction is not refused but needs review. That check is a second
line only, because whoever knows the patterns can avoid them: text from others is always shown with its author and never
as an instruction, and a team may ask for review of all of it.

Authors are not considered: a teammate's machine may be anybody's.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache
from urllib.parse import unquote

from memdir.errors import PathError
from memdir.format import frontmatter, index
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.limits import DESCRIPTION_CHARS, FILE_BYTES, INDEX_FILE_BYTES, TITLE_CHARS
from memdir.records import Kind
from memdir.store.plan import TEAM_FOLDER, Finder
from memdir.store.secret_text import fold_text
from memdir.store.secrets import render_findings
from memdir.text import find_forbidden, fold, one_line, shorten

PLAIN_MODE = "100644"
_MODES = {
    "120000": "it is a symbolic link",
    "160000": "it is another repository",
    "040000": "it is a folder",
    "100755": "it is a program",
}
# What it is, words of which one must be there before the pattern is tried, and the pattern. Six languages.
_SIGNS: tuple[tuple[str, str, str], ...] = (
    (
        "it wants other instructions ignored",
        "instruction|prompt|rule|guideline|direction|message|memor|restriction|polic|anweisung|"
        "vorgabe|regel|consigne|règle|regla|instruccion|indicacion|指令|指示|提示|规则|说明|命令|ルール|プロンプト",
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^.\n]{0,40}\b(?:previous|prior|above|earlier|other|all|any|your|system)\b"
        r"[^.\n]{0,30}\b(?:instruction|prompt|rule|guideline|direction|message|memor|restriction|polic)"
        r"|\b(?:ignorier|vergiss|missachte)\w*\b[^.\n]{0,40}\b(?:anweisung|vorgabe|regel|prompt|instruktion)"
        r"|\b(?:ignore[zrs]?|oublie[zrs]?)\b[^.\n]{0,40}\b(?:instructions?|consignes?|règles?)\b"
        r"|\b(?:ignora|olvida|omite)\w*\b[^.\n]{0,40}\b(?:instruccion|regla|indicacion)"
        r"|(?:忽略|无视|忘记|不要理会)[^。\n]{0,20}(?:指令|指示|提示|规则|说明)"
        r"|(?:指示|命令|ルール|プロンプト)[^。\n]{0,10}(?:無視|忘れ)",
    ),
    (
        "it speaks in the tags of a host",
        "<|[inst|[sys|[/inst|[/sys|system|assistant|human",
        r"</?\s*(?:system|admin|assistant|human|user|tool|function|antml)[\w:-]*(?:\s[^>\n]{0,80})?>|\[/?(?:INST|SYS)\]|<\|[\w-]{2,30}\|>"
        r"|^\s*(?:system|assistant|human)\s*(?:prompt)?\s*:",
    ),
    (
        "it is addressed to the agent",
        "assistant| ai|agent|model|llm|system",
        r"\b(?:note|message|notice|instructions?|attention)\s*(?:to|for|:)\s*(?:the )?(?:ai )?"
        r"(?:assistants?|ai|agents?|model|llm)\b"
        r"|\bsystem (?:update|override|directive|command)\b|\bif you are an? (?:ai|llm|assistant|language model)\b"
        r"|\b(?:new|updated|real|actual|hidden) (?:system )?(?:instructions?|directive)s?:",
    ),
    (
        "it wants something kept from the person",
        "user|person|human|operator|developer|nutzer|anwender|utilisateur|usuario|用户|ユーザー",
        r"\b(?:do not|don['’]t|never|without)\b[^.\n]{0,30}"
        r"\b(?:tell|mention|inform|ask|notify|reveal|show)(?:ing|fying)?\b"
        r"[^.\n]{0,30}\b(?:user|person|human|operator|developer)\b"
        r"|\b(?:sag|verrate?|erwähn|frag)\w*\b[^.\n]{0,30}\b(?:nutzer|benutzer|anwender|person)\w*\b[^.\n]{0,20}\bnicht"
        r"|\bne\b[^.\n]{0,20}\b(?:dis|dites|mentionne|révèle)\w*\b[^.\n]{0,30}\butilisateur"
        r"|\bno\b[^.\n]{0,20}\b(?:digas|menciones|reveles|informes)\b[^.\n]{0,30}\busuario"
        r"|(?:不要|别)[^。\n]{0,10}(?:告诉|提及|通知)[^。\n]{0,10}用户|ユーザー[^。\n]{0,12}(?:言わない|伝えない|知らせない)",
    ),
    (
        "it has the agent fetch and run something",
        "curl|wget|iwr|invoke-webrequest|base64|rm ",
        r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^\n]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"
        r"|\b(?:eval|exec)\s*\(?\s*[\"'$(`]+\s*(?:curl|wget)|\bbase64\s+(?:-d|--decode)\b[^\n]{0,80}\|\s*(?:ba|z)?sh\b"
        r"|\brm\s+-[a-z]*r[a-z]*f[a-z]*\s+(?:/|~|\$HOME)",
    ),
    (
        "it has the agent send something away",
        "://|@| to ",
        r"\b(?:send|post|upload|exfiltrate|forward|email|leak)\b[^.\n]{0,60}\b(?:env|environment|credential|secret|token|password|key|ssh|conversation|memor|transcript)\w*"
        r"[^.\n]{0,60}(?:https?://|@\w|\bto\b\s+\S+\.\w{2,})",
    ),
    (
        "it gives the agent another part to play or leave to do anything",
        "you|act as|mode|permission|approval|confirmation|sandbox|safety|guard|--dangerously|"
        "du bist|tu es|ahora eres|你现在是|あなたは",
        r"\byou are (?:now|no longer)\b|\bfrom now on,? you (?:are|act|will act|must act)\b"
        r"|\bact as (?:the )?(?:system|root|administrator)\b"
        r"|\b(?:developer|admin|god|dan|jailbreak|unrestricted)[ -]mode\b"
        r"|\b(?:auto-?approve|skip|bypass|disable)\b[^.\n]{0,30}\b(?:permission|approval|confirmation|sandbox|safety|guard)"
        r"|--dangerously-\w+|\bdu bist (?:jetzt|ab sofort)\b"
        r"|\btu es (?:maintenant|désormais)\b|\bahora eres\b|你现在是|あなたは今から",
    ),
)


class AdmitRuling(StrEnum):
    """Whether something may come in: yes, only after review, no."""

    ACCEPT = "accept"
    HOLD = "hold"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class AdmitVerdict:
    ruling: AdmitRuling
    why: str = ""


ACCEPTED = AdmitVerdict(AdmitRuling.ACCEPT)


def judge_place(path: str, mode: str, size: int) -> str:
    """Why a file cannot be a memory by its name, kind or size; empty if it can. The index is one of its own."""
    if mode != PLAIN_MODE:
        return _MODES.get(mode, "it is no plain file")
    if not path.endswith(".md"):
        return "it is no memory: its name does not end in .md"
    if size > (limit := INDEX_FILE_BYTES if path == INDEX_FILE else FILE_BYTES):
        return f"it is larger than {limit:,} bytes"
    if path == INDEX_FILE:
        return ""
    try:
        check_name(f"{TEAM_FOLDER}/{path.removesuffix('.md')}")
    except PathError as error:
        return error.reason
    return ""


def judge_text(path: str, data: bytes, find: Finder) -> AdmitVerdict:
    """What may become of a memory file by its content."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return AdmitVerdict(AdmitRuling.REFUSE, "it is not UTF-8")
    if why := _find_fault(path, text):
        return AdmitVerdict(AdmitRuling.REFUSE, why)
    if secrets := (*render_findings(find(text)), *render_findings(find(path.removesuffix(".md")), place="its name")):
        return AdmitVerdict(AdmitRuling.REFUSE, f"it holds a secret: {', '.join(secrets[:3])}")
    if why := find_instruction(text):
        return AdmitVerdict(AdmitRuling.HOLD, why)
    return ACCEPTED


def judge_line(line: str, find: Finder) -> str:
    """Why a line of somebody else's index is left out; empty if it may stand."""
    if found := find_forbidden(line, lines=True):
        return f"it holds {found}"
    if _leads_outside(line):
        return "it points outside of the team's folder"
    if secrets := render_findings(find(line)):
        return f"it holds a secret: {secrets[0]}"
    return find_instruction(line)


def find_twins(paths: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Paths that are another spelling of one that is there -> that one; ours comes before, then the alphabet."""
    mine = set(ours)
    seen: dict[str, str] = {}
    twins: dict[str, str] = {}
    for path in sorted(paths, key=lambda at: (at not in mine, at)):
        first = seen.setdefault(fold(path), path)
        if first != path:
            twins[path] = first
    return twins


def _find_fault(path: str, text: str) -> str:
    if found := find_forbidden(text, lines=True):
        return f"it holds {found}"
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return shorten(one_line(fields.problem), 200)
    if fields.kind is None:
        return "it has no type that memdir knows"
    if fields.kind is Kind.USER:
        return "it is about a person: a `user` memory never leaves its owner"
    if not fields.description or len(fields.description) > DESCRIPTION_CHARS or len(fields.title) > TITLE_CHARS:
        return "its title or description is missing or too long"
    if find_forbidden(fields.title + fields.description, lines=False):
        return "its title or description holds a control character"
    return "" if path != INDEX_FILE else "it is the index"


def _leads_outside(line: str) -> bool:
    """Whether a list item's link goes to a file, but to none below the index."""
    for part in line.split("](")[1:]:
        target = unquote(unquote(part.split(")", 1)[0].strip().strip("<>").split("#", 1)[0]))
        folded = fold(target).replace("\\", "/")
        if ".." in folded.split("/") or folded.startswith(("/", "~", "file:")) or folded[1:3] == ":/":
            return True
        is_file = folded.endswith(".md") and "://" not in folded
        if is_file and not index.parse_index(f"- [x]({target})")[0].is_pointer:
            return True
    return False


def find_instruction(text: str) -> str:
    """What in a text speaks to the agent itself, in words; empty if nothing does."""
    folded = fold_text(text).text
    # Once with the lines as they are, once on one line, so that a sentence may go over several.
    readings = {text, folded, " ".join(folded.split())}
    small = folded.lower()
    likely = ((why, pattern) for why, hints, pattern in _SIGNS if any(hint in small for hint in hints.split("|")))
    return next((why for why, pattern in likely if any(map(_compile(pattern).search, readings))), "")


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
