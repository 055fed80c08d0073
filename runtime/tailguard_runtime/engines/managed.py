"""vLLM's flags that are not the user's to set, and what to use instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_TLS = "Leave it out: pods speak plain HTTP to Tailguard, TLS ends at the gateway (spec.traffic)."
_NODES = "Leave it out: a replica that spans several nodes isn't supported."
_ADDRESS = "Leave it out: the engine serves HTTP on port 8000 of its pod."
_GRPC = "Leave it out: users, probes and benchmarks speak HTTP."

MANAGED: Mapping[str, str] = {
    "--help": "Leave it out: it only prints help and exits.",
    "--model": "Set spec.model.uri.",
    "--revision": "Set spec.model.revision.",
    "--served-model-name": "Set spec.model.servedName.",
    "--host": _ADDRESS,
    "--port": _ADDRESS,
    "--uds": _ADDRESS,
    "--grpc": _GRPC,
    "--grpc-port": _GRPC,
    "--headless": _NODES,
    "--nnodes": _NODES,
    "--node-rank": _NODES,
    "--master-addr": _NODES,
    "--master-port": _NODES,
    "--config": "Write the file's settings into spec.engine.args, where they are checked and recorded.",
    "--api-key": "Set the variable VLLM_API_KEY from a Secret in spec.engine.template.",
    "--hf-token": "Set the variable HF_TOKEN from a Secret in spec.engine.template.",
    "--ssl-keyfile": _TLS,
    "--ssl-certfile": _TLS,
    "--ssl-ca-certs": _TLS,
    "--ssl-cert-reqs": _TLS,
    "--ssl-ciphers": _TLS,
    "--enable-ssl-refresh": _TLS,
    "--middleware": "Leave it out: Tailguard's own middleware serves probes and drain.",
    "--shutdown-timeout": "Leave it out: it follows from the longest request, with the pod's grace period.",
    "--custom-histogram-buckets": "Leave it out: Tailguard sets buckets that resolve 1 ms.",
    "--disable-log-stats": "Leave it out: liveness and verdicts need the engine's counters.",
}
"""Flag -> what to do instead; the main name of each flag."""


@dataclass(frozen=True)
class Restriction:
    """Values of a flag that Tailguard can serve."""

    allowed: tuple[str, ...]
    reason: str
    action: str


RESTRICTED: Mapping[str, Restriction] = {
    "--runner": Restriction(
        ("auto", "generate"),
        "is not a generating engine, and TTFT and TPOT exist only for generation",
        "Serve pooling models without Tailguard.",
    ),
    "--convert": Restriction(
        ("auto", "none"),
        "is not a generating engine, and TTFT and TPOT exist only for generation",
        "Serve embedding models without Tailguard.",
    ),
}
