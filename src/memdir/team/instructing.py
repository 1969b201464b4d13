"""Does a text speak to the agent that will read it, instead of telling it something? A few plain signs, six languages.

A memory tells facts and wishes of the people of a project. One that wants earlier instructions forgotten, that speaks
in the tags of a host, that wants something kept from the person, or that has the agent fetch and run something, is not
one of those; if it comes from somebody else, it waits for a person.

It is a second line and not the first: whoever knows these signs can avoid them. What holds is that text from others is
shown with its author, as text and never as an instruction, and that a team may ask for review of all of it. It says
nothing about whether a memory is true.
"""

import re
from functools import cache

from memdir.secrets.folding import fold_text

# What it is, words of which one must be there before the pattern is even tried, and the pattern.
_SIGNS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "it wants other instructions ignored",
        (
            "instruction",
            "prompt",
            "rule",
            "guideline",
            "direction",
            "message",
            "memor",
            "restriction",
            "polic",
            "anweisung",
            "vorgabe",
            "regel",
            "consigne",
            "règle",
            "regla",
            "instruccion",
            "indicacion",
            "指令",
            "指示",
            "提示",
            "规则",
            "说明",
            "命令",
            "ルール",
            "プロンプト",
        ),
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
        ("<", "[inst", "[sys", "[/inst", "[/sys", "system", "assistant", "human"),
        r"</?\s*(?:system|admin|assistant|human|user|tool|function|antml)[\w:-]*(?:\s[^>\n]{0,80})?>|\[/?(?:INST|SYS)\]|<\|[\w-]{2,30}\|>"
        r"|^\s*(?:system|assistant|human)\s*(?:prompt)?\s*:",
    ),
    (
        "it is addressed to the agent",
        ("assistant", " ai", "agent", "model", "llm", "system"),
        r"\b(?:note|message|notice|instructions?|attention)\s*(?:to|for|:)\s*(?:the )?(?:ai )?"
        r"(?:assistants?|ai|agents?|model|llm)\b"
        r"|\bsystem (?:update|override|directive|command)\b|\bif you are an? (?:ai|llm|assistant|language model)\b"
        r"|\b(?:new|updated|real|actual|hidden) (?:system )?(?:instructions?|directive)s?:",
    ),
    (
        "it wants something kept from the person",
        (
            "user",
            "person",
            "human",
            "operator",
            "developer",
            "nutzer",
            "anwender",
            "utilisateur",
            "usuario",
            "用户",
            "ユーザー",
        ),
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
        ("curl", "wget", "iwr", "invoke-webrequest", "base64", "rm "),
        r"\b(?:curl|wget|iwr|invoke-webrequest)\b[^\n]{0,200}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b"
        r"|\b(?:eval|exec)\s*\(?\s*[\"'$(`]+\s*(?:curl|wget)|\bbase64\s+(?:-d|--decode)\b[^\n]{0,80}\|\s*(?:ba|z)?sh\b"
        r"|\brm\s+-[a-z]*r[a-z]*f[a-z]*\s+(?:/|~|\$HOME)",
    ),
    (
        "it has the agent send something away",
        ("://", "@", " to "),
        r"\b(?:send|post|upload|exfiltrate|forward|email|leak)\b[^.\n]{0,60}\b(?:env|environment|credential|secret|token|password|key|ssh|conversation|memor|transcript)\w*"
        r"[^.\n]{0,60}(?:https?://|@\w|\bto\b\s+\S+\.\w{2,})",
    ),
    (
        "it gives the agent another part to play or leave to do anything",
        (
            "you",
            "act as",
            "mode",
            "permission",
            "approval",
            "confirmation",
            "sandbox",
            "safety",
            "guard",
            "--dangerously",
            "du bist",
            "tu es",
            "ahora eres",
            "你现在是",
            "あなたは",
        ),
        r"\byou are (?:now|no longer)\b|\bfrom now on,? you (?:are|act|will act|must act)\b"
        r"|\bact as (?:the )?(?:system|root|administrator)\b"
        r"|\b(?:developer|admin|god|dan|jailbreak|unrestricted)[ -]mode\b"
        r"|\b(?:auto-?approve|skip|bypass|disable)\b[^.\n]{0,30}\b(?:permission|approval|confirmation|sandbox|safety|guard)"
        r"|--dangerously-\w+|\bdu bist (?:jetzt|ab sofort)\b"
        r"|\btu es (?:maintenant|désormais)\b|\bahora eres\b|你现在是|あなたは今から",
    ),
)


def find_instruction(text: str) -> str:
    """What in a text speaks to the agent itself, in words; empty if nothing does."""
    folded = fold_text(text).text
    # One reading in which lines are what they were, and one in which a sentence may go over several.
    readings = {text, folded, " ".join(folded.split())}
    small = folded.lower()
    for why, hints, pattern in _SIGNS:
        if any(hint in small for hint in hints) and any(_compile(pattern).search(reading) for reading in readings):
            return why
    return ""


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)
