"""Which documents hold a term and how often, as strings of 32-bit numbers, and the best documents for weighted terms.

A term's documents lie in blocks by their number, so that changing one document rewrites one block a term. A posting is
the document's number with the count in its last four bits; counts beyond 15 say no more. Pure: `catalog` keeps the
blocks.
"""

import heapq
from array import array
from collections.abc import Iterable, Mapping

BLOCK_BITS = 11  # 2,048 documents a block
SATURATION = 0.9  # BM25's k1: how soon more of the same word counts no more
_COUNT_BITS, _MOST = 4, 15


def make_posting(doc: int, count: int) -> int:
    return doc << _COUNT_BITS | min(count, _MOST)


def find_block(doc: int) -> int:
    return doc >> BLOCK_BITS


def pack(postings: Iterable[int]) -> bytes:
    return array("I", postings).tobytes()


def remove(data: bytes, docs: frozenset[int]) -> bytes:
    """A block without these documents."""
    return pack(at for at in array("I", data) if at >> _COUNT_BITS not in docs)


def find_best(blocks: Iterable[tuple[int, bytes]], weights: Mapping[int, float], most: int) -> list[int]:
    """The documents with the largest sum of weighted terms, at most so many; in no order."""
    scores: dict[int, float] = {}
    find = scores.get
    gains = {
        term: [weight * count / (count + SATURATION) for count in range(_MOST + 1)] for term, weight in weights.items()
    }
    for term, data in blocks:
        gain = gains[term]
        for at in array("I", data):
            doc = at >> _COUNT_BITS
            scores[doc] = find(doc, 0.0) + gain[at & _MOST]
    if len(scores) <= most:
        return list(scores)
    least = heapq.nlargest(most, scores.values())[-1]
    best = [doc for doc, score in scores.items() if score > least]
    # Of those that are all alike the later ones, which are the newer more often than not.
    alike = sorted([doc for doc, score in scores.items() if score == least], reverse=True)
    return best + alike[: most - len(best)]
