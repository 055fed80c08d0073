"""A user of the service: about one streamed request a second over one keep-alive connection, each counted.

Standard library only: it runs as a pod from a ConfigMap. A request has failed when the status is not 200, the stream
breaks, carries an error, or ends without `[DONE]`. Nothing is retried.
"""

import http.client
import json
import signal
import sys
import time
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 120
PERIOD_SECONDS = 1.0


def ask(connection: http.client.HTTPConnection, model: str, number: int) -> str:
    """Sends one request and reads its stream; an empty answer means that it succeeded."""
    body = {"model": model, "prompt": f"Request {number}: tell me a story", "max_tokens": 8, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode("utf-8", "replace")
    if answer.getheader("Connection", "").lower() == "close":
        connection.close()
    if answer.status != 200:
        return f"status {answer.status}: {text[:200]}"
    if '"error"' in text:
        return f"an error in the stream: {text[:200]}"
    return "" if "data: [DONE]" in text else "the stream ended without [DONE]"


def main() -> None:
    """Sends until SIGTERM, then prints the totals."""
    address, model = urlsplit(sys.argv[1]), sys.argv[2]
    going = True

    def stop(*_: object) -> None:
        nonlocal going
        going = False

    signal.signal(signal.SIGTERM, stop)
    connection = http.client.HTTPConnection(address.hostname or "", address.port or 80, timeout=TIMEOUT_SECONDS)
    sent = failed = 0
    due = time.monotonic()
    while going:
        try:
            problem = ask(connection, model, sent)
        except (OSError, http.client.HTTPException) as error:
            problem = f"{type(error).__name__}: {error}"
            connection.close()
        sent += 1
        failed += bool(problem)
        print(json.dumps({"at": time.time(), "sent": sent, "failed": failed, "problem": problem}), flush=True)
        due = max(due + PERIOD_SECONDS, time.monotonic() - PERIOD_SECONDS)
        time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
