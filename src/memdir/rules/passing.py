"""What is not worth keeping even if somebody asks: what the project itself tells, and what passes with the task.

Narrow patterns over words that programmers share in every language: source files, commits, calls, branches. Whether a
text really stands in the project is `derivable`'s question, which reads it.
"""

import re

_SOURCE = (
    r"(?:py|pyi|js|jsx|ts|tsx|mjs|go|rs|java|rb|c|cc|cpp|h|hpp|cs|php|kt|swift|scala|ex|toml|ya?ml|json|cfg|ini|lock|"
    r"css|scss|html|sql|sh)"
)
_DERIVABLE = re.compile(
    rf"(?<![\w/:.@-])(?:[\w.-]+/)*[\w-]+\.{_SOURCE}\b(?![/.]\w)|"  # a source file
    r"\bcommit [0-9a-f]{7,40}\b|\b(?:PR|pull request|issue|ticket) #?\d+ (?:fixed|introduced|added|removed)\b|"
    r"\b\w+\(\)|"
    r"\b(?:class|function|method|interface|struct|enum|module|component|hook)\b.{0,30}\b(?:inherits|extends|"
    r"implements|returns|"
    r"takes|calls|wraps)\b|\b(?:[A-Z][a-z]+){2,}\b.{0,20}\b(?:inherits|extends|implements|returns|is an? (?:singleton|"
    r"subclass|"
    r"interface|abstract|class|function|method))\b"
)
_RECORDED = re.compile(
    r"\bcommit [0-9a-f]{7,40}\b|\b(?:in|see|from) (?:the )?(?:package\.json|pyproject\.toml|cargo\.toml|go\.mod|"
    r"pom\.xml)\b",
    re.IGNORECASE,
)
_RECIPE = re.compile(r"(?:the )?(?:fix|solution|workaround)(?:\s*:| (?:is|was) to\b)", re.IGNORECASE)
# Holidays and meals are decided and due as well, but they are no project.
_PRIVATE = re.compile(
    r"\b(?:pizza|lunch|dinner|breakfast|restaurant|vacation|wedding|party|birthday|movies?|airport|flight|"
    r"train|dentist|doctor|gym|school|groceries|kino|essen|urlaub|mittag\w*|hochzeit|flughafen|déjeuner|dîner|"
    r"vacances|"
    r"mariage|cena|almuerzo|vacaciones|boda|fiesta)\b|披萨|吃饭|午饭|旅行|度假|ピザ|ランチ|旅行|休暇",
    re.IGNORECASE,
)

# What is decided about a part of the code, or put into a variable or a file, is the task at hand.
_PART = re.compile(
    r"\b(?:the|this|that|die|der|das|diese[rsn]?|la|le|cette|el|esta|este) (?:variable|function|funktion|fonction|"
    r"función|"
    r"method|methode|méthode|método|class|klasse|classe|clase|loop|schleife|boucle|bucle|button|parameter|argument|"
    r"column|field)\b(?! names?)|这个(?:变量|函数|方法|类)|この(?:変数|関数|メソッド|クラス)",
    re.IGNORECASE,
)
_KEPT = re.compile(
    r"\b(?:in|dans|en) (?:an?|einer?|une?|una?) (?:\w+ )?(?:variablen?|file|datei|fichier|archivo)\b", re.IGNORECASE
)


def is_recorded(content: str) -> bool:
    """Whether it points to where the project itself records it: a commit, a file of dependencies."""
    return _RECORDED.search(content) is not None


def is_derivable(content: str) -> bool:
    """Whether it says what the code, its layout or its history say, or how something was mended."""
    return bool(_DERIVABLE.search(content) or _RECIPE.match(content))


def is_private(text: str) -> bool:
    return _PRIVATE.search(text) is not None


def is_about_code(text: str) -> bool:
    """Whether it is about one part of the code at hand."""
    return _PART.search(text) is not None


def is_put_away(text: str) -> bool:
    """Whether what is to be remembered goes into a variable or a file."""
    return _KEPT.search(text) is not None
