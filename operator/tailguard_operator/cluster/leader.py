"""Who may write: one Lease, held by one process, given up by itself as soon as it cannot be renewed.

The others take the Lease over when they have seen it unchanged for its whole duration by their own clock, so clocks of
different machines are never compared. The holder stops earlier, at the renew deadline, counted from the *start* of its
last successful renewal on a clock that also runs while the machine is suspended: a process that was paused finds on
waking that its time is over, before it writes anything.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prometheus_client import Gauge

from tailguard_operator.cluster.client import Cluster
from tailguard_operator.cluster.errors import ApiError, Conflict, NotFound, NotLeader
from tailguard_operator.cluster.kinds import LEASE, Object

LOG = logging.getLogger(__name__)
IS_LEADER = Gauge("tailguard_is_leader", "1 while this process holds the Lease.")


def boot_clock() -> float:
    """Seconds on a clock that never jumps and, where the system has one, also counts suspended time."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which Lease, and its times in seconds."""

    namespace: str
    name: str = "tailguard-operator"
    duration: int = 15
    renew_deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew_deadline < self.duration:
            raise ValueError(
                f"lease: retry {self.retry} s, renew deadline {self.renew_deadline} s and duration {self.duration} s "
                "must be in growing order, all above 0"
            )


class Leader:
    """One contender for the Lease."""

    def __init__(
        self,
        cluster: Cluster,
        identity: str,
        settings: LeaseSettings,
        clock: Callable[[], float] = boot_clock,
    ):
        self.elected = asyncio.Event()
        """Set once this process holds the Lease."""
        self.transitions = 0
        """How many times the Lease has changed hands, this time included."""
        self._cluster = cluster
        self._identity = identity
        self._settings = settings
        self._clock = clock
        self._renewed = float("-inf")
        self._seen: Object = {}
        self._seen_at = clock()

    def check(self) -> None:
        """Make sure that this process may write now.

        Raises:
            NotLeader: it does not hold the Lease, or its last renewal is older than the renew deadline.
        """
        if not self.elected.is_set():
            raise NotLeader(f"{self._identity} does not hold the Lease {self._settings.name}")
        age = self._clock() - self._renewed
        if age >= self._settings.renew_deadline:
            raise NotLeader(
                f"{self._identity} renewed the Lease {self._settings.name} {age:.1f} s ago, and may write for "
                f"{self._settings.renew_deadline:g} s after a renewal"
            )

    async def run(self) -> None:
        """Wait for the Lease, then keep it.

        Raises:
            NotLeader: the Lease was held and is lost; the process must end, as its plans may be old.
        """
        while not await self._tried(self._acquire):
            await asyncio.sleep(self._settings.retry)
        LOG.info("%s holds the Lease, transition %d", self._identity, self.transitions)
        self.elected.set()
        IS_LEADER.set(1)
        try:
            while True:
                await asyncio.sleep(self._settings.retry)
                self.check()
                await self._tried(self._renew)
        finally:
            IS_LEADER.set(0)

    async def release(self) -> None:
        """Hand the Lease back, so that the next one need not wait; only if it is still ours."""
        if not self.elected.is_set():
            return
        self.elected.clear()
        try:
            await self._write(self._seen, {"holderIdentity": "", "leaseDurationSeconds": 1})
        except ApiError as error:
            LOG.info("the Lease was not handed back: %s", error)

    async def _tried(self, attempt: Callable[[], Any]) -> bool:
        try:
            async with asyncio.timeout(self._settings.renew_deadline):
                return bool(await attempt())
        except (ApiError, TimeoutError) as error:
            LOG.warning("the Lease could not be written: %s", error or "no answer in time")
            return False

    async def _acquire(self) -> bool:
        started = self._clock()
        try:
            found = await self._cluster.get(LEASE, self._settings.namespace, self._settings.name)
        except NotFound:
            self._holds(started, await self._cluster.create(self._new()))
            return True
        if not self._free(found):
            return False
        transitions = int(found["spec"].get("leaseTransitions") or 0) + 1
        try:
            self._holds(started, await self._write(found, self._ours() | {"leaseTransitions": transitions}))
        except Conflict:
            return False
        return True

    async def _renew(self) -> bool:
        started = self._clock()
        try:
            self._holds(started, await self._write(self._seen, {"renewTime": _now()}))
        except Conflict:
            await self._reread()
            return False
        return True

    async def _reread(self) -> None:
        """After a conflict: go on if only somebody's annotation got in between; stop if the Lease is another's."""
        found = await self._cluster.get(LEASE, self._settings.namespace, self._settings.name)
        holder, transitions = found["spec"].get("holderIdentity"), found["spec"].get("leaseTransitions")
        if (holder, transitions) != (self._identity, self.transitions):
            raise NotLeader(f"the Lease {self._settings.name} is held by {holder or 'nobody'} now")
        self._seen = found

    def _free(self, found: Object) -> bool:
        """Whether `found` has no holder, is from an earlier life of ours, or was not renewed for its duration."""
        if found["spec"] != self._seen.get("spec"):
            self._seen, self._seen_at = found, self._clock()
        holder = found["spec"].get("holderIdentity")
        if not holder or holder == self._identity:
            return True
        return self._clock() - self._seen_at > float(found["spec"].get("leaseDurationSeconds") or 0)

    def _holds(self, started: float, lease: Object) -> None:
        self._renewed, self._seen = started, lease
        self.transitions = int(lease["spec"].get("leaseTransitions") or 0)

    async def _write(self, lease: Object, changes: Mapping[str, Any]) -> Object:
        return await self._cluster.replace(lease | {"spec": lease["spec"] | changes})

    def _new(self) -> Object:
        lease = LEASE.partial(self._settings.namespace, self._settings.name)
        return lease | {"spec": self._ours() | {"leaseTransitions": 0}}

    def _ours(self) -> dict[str, Any]:
        now = _now()
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.duration,
            "acquireTime": now,
            "renewTime": now,
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
