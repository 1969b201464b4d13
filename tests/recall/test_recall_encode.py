"""The sentence encoder: pieces, the network, what is kept of memories, and what a search makes of it."""

import json
import os
import struct
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

np: Any = pytest.importorskip("numpy", reason="the extra semantic is not installed")

from memdir.operations.memory import Memory  # noqa: E402
from memdir.recall import encode  # noqa: E402  (it needs numpy)
from memdir.recall.pipeline import find_encoder, recall_in_project  # noqa: E402
from memdir.recall.prefetch import open_selector  # noqa: E402
from memdir.store.open import open_project  # noqa: E402
from memdir.store.state import STATE_FILES  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "deploy", "##s", "ferry", "the", "ü", "u", "##ber", ".", "we"]
WIDTH, LAYERS = 24, 2
REAL = os.environ.get("MEMDIR_MINILM", "")  # read before the tests' own environment is made


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny encoder of the same shape, with made-up weights."""
    made, rng = {}, np.random.default_rng(7)

    def add(name: str, *shape: int) -> None:
        made[name] = rng.normal(0, 0.3, shape).astype(np.float32)

    for name, rows in (("word", len(WORDS)), ("position", 512), ("token_type", 2)):
        add(f"embeddings.{name}_embeddings.weight", rows, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{number}" for number in range(LAYERS)):
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            add(f"{layer}.{name}.weight", WIDTH, WIDTH)
            add(f"{layer}.{name}.bias", WIDTH)
        add(f"{layer}.intermediate.dense.weight", 2 * WIDTH, WIDTH)
        add(f"{layer}.intermediate.dense.bias", 2 * WIDTH)
        add(f"{layer}.output.dense.weight", WIDTH, 2 * WIDTH)
        add(f"{layer}.output.dense.bias", WIDTH)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    for name in norms:
        made[f"{name}.weight"], made[f"{name}.bias"] = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
    path = tmp_path / "tiny"
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    head: dict[str, Any] = {"__metadata__": {}}
    data, start = b"", 0
    for name, rows in made.items():
        data += rows.tobytes()
        head[name] = {"dtype": "F32", "shape": list(rows.shape), "data_offsets": [start, len(data)]}
        start = len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    (path / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def test_a_text_becomes_known_pieces(folder: Path) -> None:
    split = encode.SentenceEncoder(folder)._split
    names = dict(enumerate(WORDS))
    read = [[names[at] for at in split(text)] for text in ("We Deploys.", "über zz", "", "the " * 500)]
    assert read[0] == ["[CLS]", "we", "deploy", "##s", ".", "[SEP]"]
    assert read[1] == ["[CLS]", "u", "##ber", "[UNK]", "[SEP]"] and read[2] == ["[CLS]", "[SEP]"]
    assert len(read[3]) == encode.TOKENS and read[3][-1] == "[SEP]"


def test_vectors_have_length_one_and_do_not_depend_on_what_is_encoded_beside_them(folder: Path) -> None:
    encoder = encode.SentenceEncoder(folder)
    together = encoder(["we deploy", "the ferry", "we deploys the ferry."])
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    assert np.allclose(together[2], encoder(["we deploys the ferry."])[0], atol=1e-5)
    assert not np.allclose(together[0], together[1], atol=1e-2)


def test_every_weight_of_every_layer_counts(folder: Path) -> None:
    weights, ids = encode.read_safetensors(folder / "model.safetensors"), np.array([[2, 4, 6, 3]])
    names = [name for name in weights if name.startswith("encoder.layer.") and name.endswith(".weight")]
    vector = encode.run_bert(weights, ids)
    for name in names:
        changed = encode.run_bert({**weights, name: np.zeros_like(weights[name])}, ids)
        assert not np.allclose(changed, vector, atol=1e-4), name
    assert len(names) == 8 * LAYERS


def test_a_search_uses_it_keeps_vectors_by_file_and_drops_them_with_the_memory(folder: Path, tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path / "home"), "MEMDIR_ENCODER": str(folder)}
    (tmp_path / "home").mkdir()
    memory = tmp_path / "memory"
    with closing(open_project(tmp_path, environ=env, directory=memory)) as project:
        assert find_encoder(project.settings) == folder
        Memory(project.private).remember("The ferry to Lindholm leaves at six, from pier nine")
        ask: Any = {"peek": True, "make_selector": partial(open_selector, project)}
        found = recall_in_project(project, "when does the ferry to Lindholm leave?", **ask)
        assert found.selector == "encoder", "made-up weights select nothing for sure"
        kept = memory / ".memdir" / encode.FILE
        before = kept.stat().st_mtime_ns
        recall_in_project(project, "and the bus to Lindholm?", **ask)
        assert kept.stat().st_mtime_ns == before, "nothing is encoded twice"
    assert encode.FILE in [row.name for row in STATE_FILES]


def test_a_broken_encoder_costs_nothing_but_a_record(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "MEMDIR_ENCODER": str(tmp_path / "nowhere")}
    with closing(open_project(tmp_path, environ=env, directory=tmp_path / "memory")) as project:
        Memory(project.private).remember("The ferry to Lindholm leaves at six, from pier nine")
        ask: Any = {"make_selector": partial(open_selector, project)}
        found = recall_in_project(project, "when does the ferry to Lindholm leave?", **ask)
        assert found.selector == "local" and found.memories
        assert "encoder:" in (project.private.state / "problems.jsonl").read_text(encoding="utf-8")


@pytest.mark.skipif(not REAL, reason="MEMDIR_MINILM names no folder with the real weights")
def test_the_real_weights_put_a_question_beside_its_memory() -> None:
    encoder = encode.SentenceEncoder(Path(REAL))
    asked, right, other = encoder(
        ["When do we deploy?", "Releases go out on Tuesdays only", "The ferry leaves at six from pier nine"]
    )
    assert asked @ right > 0.3 > asked @ other
