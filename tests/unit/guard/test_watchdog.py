"""When an engine counts as hung: a fake clock, no engine."""

from hypothesis import given
from hypothesis import strategies as st

from tailguard_runtime.guard.watchdog import Watchdog

LIMIT = 60.0


def test_hung_engine_is_noticed_after_the_limit() -> None:
    # Given requests that run while neither answers nor the scheduler move
    watchdog = Watchdog(LIMIT)
    looks = {}
    for now in range(0, 200, 10):
        watchdog.observe(now, running=3, answered=5, engine=(1.0, 2.0))
        looks[now] = watchdog.verdict(now).ok
    # Then it is alive until the limit has passed since the first look that could compare
    assert looks[60] is True
    assert looks[80] is False
    assert looks[190] is False
    assert watchdog.verdict(190).reason.endswith("for 180 s")


def test_new_requests_on_a_hung_engine_do_not_hide_it() -> None:
    # Given ever more requests that arrive at an engine that stands still
    watchdog = Watchdog(LIMIT)
    for now in range(0, 100, 10):
        watchdog.observe(now, running=1 + now, answered=5, engine=(1.0,))
    # Then
    assert not watchdog.verdict(100).ok


def test_idle_engine_is_never_hung() -> None:
    watchdog = Watchdog(LIMIT)
    for now in range(0, 10_000, 10):
        watchdog.observe(now, running=0, answered=5, engine=None)
    assert watchdog.verdict(10_000).ok


def test_the_wait_of_an_idle_time_does_not_count() -> None:
    # Given an engine that was idle for long
    watchdog = Watchdog(LIMIT)
    watchdog.observe(0, running=0, answered=5, engine=None)
    # When a request has run for a moment
    watchdog.observe(1000, running=1, answered=5, engine=(1.0,))
    # Then
    assert watchdog.verdict(1000).ok


def test_unreadable_figures_are_unknown_and_not_a_standstill() -> None:
    """Rule of runtimes.md 12, no. 14: scrape failure = unknown."""
    watchdog = Watchdog(LIMIT)
    for now in range(0, 1000, 10):
        watchdog.observe(now, running=3, answered=5, engine=None)
    assert watchdog.verdict(1000).ok


def test_long_prefill_without_a_token_is_work() -> None:
    """The scheduler reports KV-cache use at every step, long before the first token."""
    watchdog = Watchdog(LIMIT)
    for step in range(100):
        watchdog.observe(step * 50, running=1, answered=0, engine=(0.0, step / 100))
        assert watchdog.verdict(step * 50).ok


def test_an_engine_that_calls_itself_dead_fails_after_the_limit() -> None:
    """Rules no. 3 and 26: a process that outlives its engine must be restarted."""
    watchdog = Watchdog(LIMIT)
    watchdog.observe_health(0, alive=False)
    assert watchdog.verdict(59).ok
    assert not watchdog.verdict(60).ok
    watchdog.observe_health(61, alive=True)
    assert watchdog.verdict(61).ok


@given(
    st.lists(
        st.tuples(
            st.floats(0.1, 30.0),
            st.integers(1, 50),
            st.sampled_from(["answer", "engine", "nothing"]),
        ),
        max_size=200,
    )
)
def test_a_busy_engine_is_never_called_hung(looks: list[tuple[float, int, str]]) -> None:
    """Whatever the looks: with a sign of work at least every limit, the verdict stays good."""
    watchdog = Watchdog(LIMIT)
    now, moved_at, answered, step = 0.0, 0.0, 0, 0.0
    for wait, running, sign in looks:
        now += wait
        # Given some sign of work less than the limit ago
        if sign == "answer" or now - moved_at >= LIMIT - 30.0:
            answered, moved_at = answered + 1, now
        elif sign == "engine":
            step, moved_at = step + 1.0, now
        # When
        watchdog.observe(now, running=running, answered=answered, engine=(step,))
        # Then
        assert watchdog.verdict(now).ok
