"""HTML comments that stand as blocks of their own are notes between people: they are dropped before anything is loaded.

A comment inside a line, or inside code, stays. So does one that is never closed: a slip of the pen must not hide the
rest of a file.
"""

from memdir.project_files.blocks import Block, split_blocks


def strip_comments(text: str) -> str:
    """The text without its block comments; every other character stays."""
    if "<!--" not in text:
        return text
    return "".join(piece.text for piece in split_blocks(text) if piece.block is not Block.COMMENT)
