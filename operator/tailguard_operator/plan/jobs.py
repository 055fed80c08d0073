"""The Jobs of a Benchmark: one at a time, numbered; a Job that ends without a decision is followed by the next."""

from datetime import datetime, timedelta

from tailguard_operator.plan.world import BenchmarkView, JobView

JOB_LIMIT = 3
"""Benchmark pods that may fail before the rollout is held."""
PENDING_LIMIT = timedelta(seconds=180)
"""Longest time that a benchmark pod may wait to run."""


def job_of(view: BenchmarkView, number: int) -> JobView | None:
    """The Job with that number."""
    return next((job for job in view.jobs if job.number == number), None)


def over(job: JobView | None, now: datetime) -> bool:
    """Whether the Job will store no more slots: ended, failed, or waiting for too long."""
    return job is not None and (job.succeeded or job.failed or overdue(job, now))


def overdue(job: JobView, now: datetime) -> bool:
    """Whether the Job's pod has been Pending for too long."""
    return job.active and job.pending_since is not None and now - job.pending_since > PENDING_LIMIT


def why_over(job: JobView) -> str:
    """The reason in words."""
    if job.failed:
        return job.reason or "the benchmark pod failed"
    if job.succeeded:
        return "the benchmark pod ended without a decision that the stored samples support"
    return job.reason or "the benchmark pod could not be scheduled"
