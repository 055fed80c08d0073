"""A bounded wait."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work, or None when it isn't there in time; the work is then cancelled."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    return task.result() if task.done() else None
