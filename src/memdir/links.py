"""`[[links]]` between memories: where they stand in a text, and which memory each of them means.

A link that means no memory is no error, and nothing here follows more than one hop. How much a link counts for is the
selector's to decide.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from memdir.records import Header
from memdir.text import fold_link

_LINK = re.compile(r"\[\[([^\[\]\n]{1,200})\]\]")
_CODE = re.compile(r"```.*?```|~~~.*?~~~|`[^`\n]*`", re.DOTALL)


def find_links(text: str) -> Iterator[tuple[str, int]]:
    """Every `[[link]]` outside code, with its line."""
    if "[[" not in text:
        return
    blank = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    line, place = 1, 0
    for match in _LINK.finditer(blank):
        line, place = line + blank.count("\n", place, match.start()), match.start()
        yield match.group(1).partition("|")[0].strip(), line


def make_targets(headers: Sequence[Header]) -> dict[str, str]:
    """What a link may say, folded, to the name it means: the whole name before its last part before the title.

    Where several memories could be meant, the first of `headers` is.
    """
    targets: dict[str, str] = {}
    spellings = [(at.name, at.name.rpartition("/")[2], at.title) for at in headers]
    for column in range(3):
        for header, spelled in zip(headers, spellings, strict=True):
            targets.setdefault(fold_link(spelled[column]), header.name)
    return targets


def find_target(link: str, targets: Mapping[str, str]) -> str | None:
    return targets.get(fold_link(link.removesuffix(".md")))


def resolve_links(headers: Sequence[Header], texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Name to the names it links to, in their order, each once. Memories whose links lead nowhere are left out.

    `texts` has the text of each memory by name; one that is missing has no links.
    """
    targets = make_targets(headers)
    linked: dict[str, tuple[str, ...]] = {}
    for header in headers:
        found = (find_target(link, targets) for link, _ in find_links(texts.get(header.name, "")))
        names = tuple(dict.fromkeys(name for name in found if name is not None and name != header.name))
        if names:
            linked[header.name] = names
    return linked
