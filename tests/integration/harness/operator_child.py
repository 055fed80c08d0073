"""Starts operators quickly: imports once, then forks one operator a request.

Importing the operator's and the judge's libraries takes seconds of a core, and the crash test starts the operator a
hundred times. A forked child runs the same `main` as a fresh process would.

Requests and answers are lines of JSON on standard input and output: `{"argv", "env", "log", "fault", "constants"}` in,
`{"pid"}` out.
"""

import ctypes
import functools
import importlib
import json
import multiprocessing
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from harness.faults import FaultyCluster
from tailguard_operator import main

PR_SET_PDEATHSIG = 1
PRELOADED = ("tailguard_operator.cluster.process", "tailguard_runtime.judge", "tailguard_runtime.engines", "pyarrow")


def serve() -> None:
    """Until standard input ends."""
    for name in PRELOADED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            become_operator(json.loads(line))
        print(json.dumps({"pid": pid}), flush=True)


def become_operator(request: dict[str, Any]) -> None:
    """Turn this forked process into an operator; never returns."""
    _detach(request["log"])
    os.environ.update(request["env"])
    for place, value in request["constants"].items():
        module, _, name = place.rpartition(".")
        setattr(importlib.import_module(module), name, timedelta(**value) if isinstance(value, dict) else value)
    code = 1
    try:
        code = _run(request["argv"], request["fault"])
    except BaseException:
        sys.excepthook(*sys.exc_info())
    sys.stderr.flush()
    os._exit(code)


def _run(argv: list[str], fault: dict[str, Any] | None) -> int:
    """`main`, with its judge's worker forked (spawning would import everything again) and its cluster made faulty."""
    forking = multiprocessing.get_context("fork")
    multiprocessing.get_context = lambda method=None: forking  # type: ignore[assignment]
    if fault:
        main.run = functools.partial(main.run, wrap=lambda cluster: FaultyCluster(cluster, **fault))
    return main.main(argv)


def _detach(log: str) -> None:
    """Own group, own log, and gone when the starter is gone."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)


if __name__ == "__main__":
    serve()
