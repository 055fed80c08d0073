"""A stand-in for the API server on loopback, real samples, and the command run as a user runs it."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tailguard_runtime.cli.main import app
from tailguard_runtime.judge import Arm, Half, JudgeSpec, Metric, RequestClass, Slot, encode_slot, judge

Object = dict[str, Any]
ROOT = "/apis/tailguard.dev/v1alpha1/namespaces/default"


class StubApiServer:
    """Answers GET and merge PATCH on `objects` by path, as an API server would, and notes what was patched."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.patched: list[tuple[str, str, Object]] = []
        """Path, content type and body of every PATCH."""
        self.refusal: tuple[int, str] | None = None
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*stub.get(self.path))

            def do_PATCH(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.patched.append((self.path, self.headers["Content-Type"], body))
                self._answer(*stub.get(self.path))

            def log_message(self, *_: object) -> None:
                pass

            def _answer(self, status: int, body: Object) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def get(self, path: str) -> tuple[int, Object]:
        """The answer to a GET."""
        if self.refusal:
            return self.refusal[0], {"kind": "Status", "message": self.refusal[1]}
        if path in self.objects:
            return 200, self.objects[path]
        items = [o for p, o in sorted(self.objects.items()) if p.startswith(f"{path}/")]
        if path.rsplit("/", 1)[-1] in ("inferenceservices", "benchmarks", "baselines"):
            return 200, {"items": items}
        return 404, {"kind": "Status", "message": f"{path} not found"}

    def put(self, kind: str, name: str, **parts: Any) -> Object:
        """Store an object of one of the three kinds."""
        made = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, **parts}
        self.objects[f"{ROOT}/{kind}/{name}"] = made
        return made

    def put_config_map(self, name: str, **parts: Any) -> Object:
        """Store a ConfigMap."""
        made = {"metadata": {"name": name, "namespace": "default"}, **parts}
        self.objects[f"/api/v1/namespaces/default/configmaps/{name}"] = made
        return made

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubApiServer]:
    """A stub API server that a temporary kubeconfig names."""
    stub = StubApiServer()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "stub",
                "clusters": [{"name": "stub", "cluster": {"server": stub.url}}],
                "users": [{"name": "ann", "user": {"token": "not-a-secret"}}],
                "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "ann", "namespace": "default"}}],
            }
        )
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    yield stub
    stub.close()


@dataclass(frozen=True)
class Ended:
    """How the command ended."""

    code: int
    text: str
    lines: list[str] = field(default_factory=list)


Tailguard = Callable[..., Ended]


@pytest.fixture
def tailguard(monkeypatch: pytest.MonkeyPatch) -> Tailguard:
    """Runs `tailguard ARGS...` in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tailguard_runtime.cli.main.console.width", 80, raising=False)

    def run(*args: str) -> Ended:
        result = CliRunner().invoke(app, list(args))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, " ".join(result.output.split()), result.output.splitlines())

    return run


def half(e2e: np.ndarray[Any, Any]) -> Half:
    """One arm's half whose latencies are `e2e` seconds."""
    count = len(e2e)
    offsets = (np.arange(count) + 0.5) / 5
    return Half(
        prompt_tokens=np.full(count, 100),
        output_tokens=np.full(count, 32),
        intended_s=offsets,
        sent_s=offsets + 1e-4,
        ttft_s=e2e / 10,
        tpot_s=e2e / 100,
        e2e_s=e2e,
        status=np.full(count, 200),
        error=("",) * count,
    )


def draw_slots(
    count: int, *, ratio: float = 1.0, seed: int = 1, noise: float = 0.1, void: Sequence[int] = ()
) -> list[Slot]:
    """Slots of 50 paired requests; the canary is slower by `ratio`."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        prompt = 0.3 * rng.standard_normal(50)
        canary, twin = (half(scale * np.exp(prompt + noise * rng.standard_normal(50))) for scale in (ratio, 1.0))
        first: Arm = "canary" if rng.random() < 0.5 else "twin"
        reason = "GeneratorBehind: the P99 of lateness was 80 ms" if number in void else ""
        made.append(Slot(number, first, reason, 1_700_000_000.0 + 20 * number, canary, twin, {"seed": "7"}))
    return made


SPEC = JudgeSpec(tuple(Metric), (RequestClass("all"),))


@pytest.fixture
def samples() -> Callable[..., list[Slot]]:
    """Makes slots; see `draw_slots`."""
    return draw_slots


@pytest.fixture
def stored(api: StubApiServer) -> Callable[..., Object]:
    """Stores a finished Benchmark with its samples, as Job and operator write them."""

    def store(measured: Sequence[Slot], *, name: str = "chat-bbbb-b2", verdict: bool = True) -> Object:
        for slot in measured:
            data = base64.b64encode(encode_slot(slot, benchmark=name)).decode()
            api.put_config_map(f"{name}-{slot.number}", binaryData={"slot.arrow": data}, immutable=True)
        found = judge(measured, SPEC)
        status = {"outcome": str(found.outcome), "verdict": found.to_json(), "slots": found.slots}
        spec = {"service": "chat", "purpose": "Canary", "judge": SPEC.to_json()}
        return api.put("benchmarks", name, spec=spec, status=status if verdict else {})

    return store


@pytest.fixture
def service(api: StubApiServer) -> Callable[..., Object]:
    """Stores the InferenceService chat with a status; a condition is type, status, reason and message."""

    def store(*, conditions: Sequence[tuple[str, str, str, str]] = (), **status: Any) -> Object:
        told = [{"type": t, "status": s, "reason": r, "message": m} for t, s, r, m in conditions]
        return api.put("inferenceservices", "chat", spec={}, status={**status, "conditions": told})

    return store
