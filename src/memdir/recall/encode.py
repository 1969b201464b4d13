"""Find memories by meaning with a sentence encoder. Requires the extra `semantic`.

Loading numpy and the weights takes too long for a prompt hook, so only background processes and `memdir recall` use this.
The encoder is all-MiniLM-L6-v2 (or any BERT of that shape): six layers in numpy, equal to the original to six digits. Its
weights come from an installed package, or from the folder in the setting `encoder`; nothing is downloaded. The vectors of
memories are stored in `encoded.db` next to the derived index, by file signature, and can be deleted at any time.
"""

import json
import math
import sqlite3
import struct
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from memdir.errors import MemdirError
from memdir.format.frontmatter import parse_fields
from memdir.records import StoredMemory
from memdir.store.contract import Folder, StoreReader

np: Any = import_module("numpy")  # mypy runs without this package
Array = Any

FILE = "encoded.db"
TOKENS = 128  # max tokens of a text; more hardly change its vector
BODY_CHARS = 1_000
SECONDS = 20.0  # limit of one update; the next update continues
BATCH = 1_024  # tokens per run
_WORD_CHARS = 100
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS vectors (path TEXT PRIMARY KEY, sig TEXT NOT NULL, count INTEGER, data BLOB NOT NULL)"
)
EncodedParts = tuple[float, float, float]


class SentenceEncoder:
    """Encode texts as vectors of length 1. `folder` contains `model.safetensors` and `vocab.txt`."""

    def __init__(self, folder: Path) -> None:
        weights = folder / "model.safetensors"
        self.name = f"{folder.name}-{weights.stat().st_size}"
        self._weights = read_safetensors(weights)
        words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
        self._vocabulary = {word: number for number, word in enumerate(words)}

    def __call__(self, texts: Sequence[str]) -> Array:
        pieces = [self._split(text) for text in texts]
        by_length = defaultdict(list)
        for number, ids in enumerate(pieces):
            by_length[len(ids)].append(number)
        vectors = None
        for length, numbers in by_length.items():  # texts of the same length need no padding
            for start in range(0, len(numbers), max(1, BATCH // length)):
                batch = numbers[start : start + max(1, BATCH // length)]
                rows = run_bert(self._weights, np.array([pieces[index] for index in batch]))
                vectors = np.zeros((len(texts), rows.shape[1]), np.float32) if vectors is None else vectors
                vectors[batch] = rows
        return vectors

    def _split(self, text: str) -> list[int]:
        """Return the token IDs of a text. Words are split into the longest known parts."""
        plain = unicodedata.normalize("NFD", text.lower())
        spaced = "".join(_space(char) for char in plain if unicodedata.category(char) != "Mn")
        ids = [self._vocabulary["[CLS]"]]
        for word in spaced.split():
            ids += self._split_word(word)
            if len(ids) >= TOKENS - 1:
                break
        return [*ids[: TOKENS - 1], self._vocabulary["[SEP]"]]

    def _split_word(self, word: str) -> list[int]:
        ids, start = list[int](), 0
        while start < len(word) <= _WORD_CHARS:
            ends = range(len(word), start, -1)
            mark = "##" if start else ""
            end = next((end_option for end_option in ends if mark + word[start:end_option] in self._vocabulary), 0)
            if not end:
                break
            ids.append(self._vocabulary[mark + word[start:end]])
            start = end
        return ids if start == len(word) else [self._vocabulary["[UNK]"]]


def _space(char: str) -> str:
    """Surround symbols and CJK characters with spaces, and replace control characters by a space."""
    kind = unicodedata.category(char)
    if kind[0] == "C" or char.isspace():
        return " "
    is_sign = kind[0] == "P" or (char.isascii() and not char.isalnum())
    return f" {char} " if is_sign or 0x3400 <= ord(char) <= 0x9FFF else char


def read_safetensors(path: Path) -> dict[str, Array]:
    """Return the float32 arrays in a file, memory-mapped."""
    with path.open("rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        head = json.loads(file.read(size))
    data = np.memmap(path, np.uint8, "r", offset=8 + size)
    arrays = {}
    for name, tensor in head.items():
        if name != "__metadata__" and tensor["dtype"] == "F32":
            start, end = tensor["data_offsets"]
            arrays[name] = np.asarray(data[start:end]).view(np.float32).reshape(tensor["shape"])
    return arrays


def run_bert(weights: Mapping[str, Array], ids: Array, *, heads: int = 12) -> Array:
    """Run the network on texts with the same number of tokens. Return a normalised row for each text."""

    def linear(rows: Array, name: str) -> Array:
        return rows @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def level(rows: Array, name: str) -> Array:
        centred = rows - rows.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    count, length = ids.shape
    state = weights["embeddings.word_embeddings.weight"][ids]
    width = state.shape[-1]
    state = state + weights["embeddings.position_embeddings.weight"][:length]
    state = level(state + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    layers = sum(name.endswith("attention.self.query.bias") for name in weights)
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
        query, key, value = (
            linear(state, f"{layer}.attention.self.{part}").reshape(count, length, heads, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(width / heads))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True) @ value).transpose(0, 2, 1, 3).reshape(count, length, width)
        state = level(state + linear(mixed, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        inner = linear(state, f"{layer}.intermediate.dense")
        inner = inner * (1 + find_erf(inner / np.float32(2**0.5))) / 2
        state = level(state + linear(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    rows = state.mean(1)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(1e-6)


def find_erf(rows: Array) -> Array:
    """Approximate the error function (Abramowitz and Stegun 7.1.26) to 1.5e-7, without scipy."""
    t = 1 / (1 + np.float32(0.3275911) * np.abs(rows))
    factors = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    tail = np.zeros_like(rows)
    for factor in factors:
        tail = (tail + np.float32(factor)) * t
    return np.sign(rows) * (1 - tail * np.exp(-rows * rows))


def make_encoder(
    folder: Path,
) -> tuple[Callable[[str], list[float]], Callable[[StoreReader, str], Mapping[str, EncodedParts]]]:
    """Return a function that encodes a question, and a function that compares a question with a store's memories.

    The latter returns three cosines by path: with all cues, the mean of the two best cues, and with the full text.
    """
    encoder = SentenceEncoder(folder)

    def encode(text: str) -> list[float]:
        return [float(value) for value in encoder([text])[0]]

    def compare(store: StoreReader, text: str) -> Mapping[str, EncodedParts]:
        index = store.find_index_file() if isinstance(store, Folder) else None
        if index is None:
            return {}
        with closing(sqlite3.connect(index.with_name(FILE), timeout=1.0)) as db:
            db.execute(_SCHEMA)
            _refresh(db, store, encoder)
            (query,) = encoder([text])
            return {path: compare_rows(query, data, count) for path, count, data in
                    db.execute("SELECT path, count, data FROM vectors")}  # fmt: skip

    return encode, compare


def compare_rows(query: Array, data: bytes, count: int) -> EncodedParts:
    """Compare a question with one memory. The first `count` rows are its cues, the last one is its full text."""
    values = np.frombuffer(data, np.float32).reshape(count + 1, -1) @ query
    pooled = np.frombuffer(data, np.float32).reshape(count + 1, -1)[:count].mean(0)
    best = sorted(values[:count], reverse=True)[:2]
    length = float(np.linalg.norm(pooled)) or 1.0
    return float(pooled @ query) / length, float(sum(best)) / len(best), float(values[count])


def list_texts(memory: StoredMemory) -> tuple[list[str], str]:
    """Return the cues of a memory, or its title and description, and its full text."""
    header = memory.header
    head = f"{header.title}. {header.description}"
    return list(parse_fields(memory.text).cues) or [head], f"{head}. {memory.body[:BODY_CHARS]}"


def _refresh(db: sqlite3.Connection, store: StoreReader, encoder: SentenceEncoder) -> None:
    """Update the vectors of changed files, newest first, for at most SECONDS."""
    listed = {path: f"{encoder.name} {signature}" for path, signature in store.list_signatures().items()}
    known = dict(db.execute("SELECT path, sig FROM vectors"))
    gone = [(path,) for path in known if path not in listed]
    end = time.monotonic() + SECONDS
    for path in sorted(listed, key=lambda path: listed[path], reverse=True):
        if known.get(path) == listed[path]:
            continue
        if time.monotonic() > end:
            break
        try:
            cues, whole = list_texts(store.read(path.removesuffix(".md")))
        except MemdirError:
            continue
        data = encoder([*cues, whole]).astype(np.float32).tobytes()
        db.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", (path, listed[path], len(cues), data))
    db.executemany("DELETE FROM vectors WHERE path = ?", gone)
    db.commit()
