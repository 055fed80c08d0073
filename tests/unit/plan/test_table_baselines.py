"""Baselines: frozen from an A/A pair of stable, keyed, never in the way of serving (rollout.md part 5)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from plan_sim import FREEZING, FROZEN, Sim, benchmark_runs, measuring, only, serving, stable

from tailguard_operator.plan import decide
from tailguard_operator.plan.freeze import RETRY_AFTER
from tailguard_operator.plan.world import Evidence, Role

DIFFERENT = replace(FREEZING, frozen=FROZEN | {"alarm": True, "startOffset": "0.09"}, message="TTFT differs by 9 %")


def freezing(sim: Sim | None = None) -> Sim:
    """A service whose A/A pair is measured."""
    return serving(sim).run(lambda s: any(b.jobs and not b.finished for b in s.benchmarks.values()))


def test_a_freeze_writes_an_immutable_baseline_with_its_key_and_its_samples() -> None:
    """R-016: a version-lockable snapshot, named by its content."""
    # Given an A/A pair under measurement
    sim = freezing()
    # When ten valid slots are stored
    sim.slots(FREEZING)
    sim.run(lambda s: s.status.baseline is not None)
    sim.step()
    # Then the Baseline is in force, the pair is gone, and its samples are kept with it
    (baseline,) = sim.baselines.values()
    assert (sim.status.baseline.name, baseline.spec["calibration"]) == (baseline.name, "Measured")
    assert baseline.spec["samples"]["benchmark"] in sim.benchmarks
    assert sim.roles == {"serving"}
    assert sim.status.p99 == "250ms"
    # And it counts as one A/A start; with less than four s is at least 4 %
    assert (sim.status.offset.starts, sim.status.offset.sd) == (1, "0.0400")


def test_what_the_key_is_made_of() -> None:
    # Given frozen Baselines of services that differ in one thing each
    key = stable().status.baseline.key
    slower = Sim()
    slower.spec = slower.spec.model_copy(
        update={"rollout": slower.spec.rollout.parse({"benchmark": {"ratePerSecond": 1}}, "r")}
    )
    objective = {"metric": "TTFT", "percentile": "99", "max": "800ms"}
    classes = Sim()
    classes.spec = classes.spec.parse(
        {"model": {"uri": "file:///models/tiny"}, "slos": [{"name": "short", "objectives": [objective]}]}, "spec"
    )
    others = [slower, classes, Sim(environment={"kernel": "7"}), Sim(spec_hash="ffff")]
    # Then rate, classes, environment and revision each make another key, and the same service the same
    keys = [stable(sim).status.baseline.key for sim in others]
    assert len({key, *keys}) == 5
    assert stable().status.baseline.key == key


def test_pods_that_differ_raise_s_and_are_measured_once_more_only() -> None:
    # Given an A/A pair whose pods differ beyond the tolerance
    sim = freezing()
    first = set(sim.benchmarks)
    sim.slots(DIFFERENT)
    # When that was seen
    sim.run(lambda s: s.status.freeze is not None and s.status.freeze.repeated)
    # Then s is raised, it is told, and a fresh pair is measured; serving goes on
    assert float(sim.status.offset.sd) > 0.08
    assert sim.events.count("PodsDiffer") == 1
    assert sim.condition("Ready").status == "True"
    sim.run(lambda s: any(b.jobs and not b.finished for b in s.benchmarks.values()))
    assert len(set(sim.benchmarks) - first) == 1
    # When it alarms again, the Baseline is written all the same
    sim.slots(DIFFERENT)
    sim.run(lambda s: s.status.baseline is not None)
    assert sim.events.count("PodsDiffer") == 1
    assert sim.status.offset.starts == 2
    # And the next verdict knows s
    measuring(sim)
    judge = sim.benchmarks[sim.status.rollout.benchmark].spec["judge"]
    assert (judge["offsetSdMillionths"] > 80_000, judge["offsetStarts"]) == (True, 2)


def test_the_repetition_is_once_also_where_the_first_pair_still_takes_the_room() -> None:
    # Given a node that holds one A/A pair and no more
    sim = freezing()
    sim.room, sim.lingering = 0, True
    sim.slots(DIFFERENT)
    # When the pair is repeated while the first pods are ending
    sim.run(lambda s: s.status.freeze is not None and s.status.freeze.repeated)
    sim.gone()
    sim.room = 2
    sim.run(lambda s: any(b.jobs and not b.finished for b in s.benchmarks.values()))
    sim.slots(DIFFERENT)
    # Then the second alarm is the last
    sim.run(lambda s: s.status.baseline is not None)
    assert sim.events.count("PodsDiffer") == 1


def test_without_room_for_a_pair_it_is_frozen_from_one_pod() -> None:
    # Given room for one more engine
    sim = serving(Sim(room=1))
    # When the Baseline is frozen
    sim.run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    assert "aa-b" not in sim.roles
    sim.slots(FREEZING)
    sim.run(lambda s: s.status.baseline is not None)
    # Then it says that A/A is missing, and s learns nothing from one pod
    assert sim.baselines[sim.status.baseline.name].spec["calibration"] == "Missing"
    assert sim.status.offset is None


def test_a_scheduler_without_room_for_the_second_pod_narrows_the_pair() -> None:
    # Given room by the numbers, and a scheduler that disagrees
    sim = Sim()
    sim.behaviour = only("full", "raaaa", Role.AA_B)
    # When the pair starts
    serving(sim).run(lambda s: any(b.jobs for b in s.benchmarks.values()))
    # Then one pod plays both arms
    assert (sim.status.freeze.single, "aa-b" in sim.roles) == (True, False)


def test_a_freeze_without_any_room_fails_tells_and_is_tried_again_later() -> None:
    # Given no room at all
    sim = serving(Sim(room=0))
    sim.run(lambda s: s.status.freeze is not None)
    # Then it is told, and serving goes on
    assert (sim.status.freeze.failed, sim.condition("Ready").status) == (True, "True")
    assert "BaselineUnavailable" in sim.events
    # When half an hour has passed and there is room
    sim.room = 5
    assert sim.last.requeue_after > 60
    sim.now += RETRY_AFTER + timedelta(seconds=2)
    sim.run(lambda s: any(b.jobs for b in s.benchmarks.values()))


@pytest.mark.parametrize(("kind", "role"), [("pull", Role.AA_A), ("evicted", Role.AA_B), ("refused", Role.AA_A)])
def test_a_pair_that_does_not_start_fails_the_freeze_and_never_blocks_serving(kind: str, role: Role) -> None:
    # Given an A/A pod that cannot start
    sim = Sim()
    sim.behaviour = only(kind, "raaaa", role)
    # When the deadline has passed
    serving(sim).run(lambda s: s.status.freeze is not None and s.status.freeze.failed, seconds=30)
    # Then the pair is gone and the service serves
    sim.step()
    assert sim.roles == {"serving"}
    assert sim.condition("Ready").status == "True"


def test_three_failed_jobs_end_a_freeze() -> None:
    # Given an A/A pair under measurement
    sim = freezing()
    for _ in range(3):
        sim.fail_job("OOMKilled")
        sim.step()
        sim.step()
    # Then the freeze has failed with the reason
    assert (sim.status.freeze.failed, sim.status.freeze.reason) == (True, "BenchmarkFailed")
    assert "OOMKilled" in sim.status.freeze.message


def test_a_pod_that_goes_while_it_is_frozen_fails_the_freeze() -> None:
    # Given an A/A pair under measurement
    sim = freezing()
    # When one of its pods is deleted
    sim.lose(sim.status.freeze.canary_pod)
    sim.step()
    # Then what was measured is not used
    assert sim.status.freeze.failed
    assert sim.baselines == {}


def test_void_slots_do_not_count_for_the_ten() -> None:
    # Given ten slots of which three are void
    sim = freezing()
    sim.slots(Evidence(slots=10, void_slots=3, requests=1000))
    sim.step()
    sim.step()
    # Then it goes on
    assert (sim.status.freeze.failed, sim.status.freeze.message) == (False, "freezing, 7 of 10 slots")


def test_samples_without_a_single_finite_ratio_teach_nothing_about_s() -> None:
    # Given an A/A start in which every request failed
    sim = freezing()
    frozen = {name: value for name, value in FROZEN.items() if not name.startswith("start")}
    # When it is frozen
    sim.slots(replace(FREEZING, frozen=frozen))
    sim.run(lambda s: s.status.baseline is not None)
    # Then s is what it was
    assert sim.status.offset is None


def test_samples_that_go_before_the_baseline_is_written_start_the_freeze_again() -> None:
    # Given a freeze that was decided by an operator that died before it wrote the Baseline
    sim = freezing()
    sim.slots(FREEZING)
    sim.apply(decide(sim.world(), sim.now), upto=1)
    assert sim.status.freeze.baseline
    # When somebody deletes the Benchmark with its samples
    sim.benchmarks.clear()
    # Then another A/A pair is measured
    freezing(sim)
    sim.slots(FREEZING)
    sim.run(lambda s: s.status.baseline is not None)


def test_a_freeze_gives_way_to_nothing_but_the_end_of_its_need() -> None:
    # Given a freeze under way when a change is applied
    sim = freezing()
    benchmark = sim.status.freeze.benchmark
    sim.spec_is("bbbb").step()
    sim.step()
    # Then it goes on for the change that waits for it
    assert sim.status.freeze.benchmark == benchmark
    sim.slots(FREEZING)
    sim.run(benchmark_runs)
    # And the last three Benchmarks and those of Baselines are all that is kept
    assert len(sim.benchmarks) == 2


def test_old_benchmarks_and_baselines_are_removed_and_those_in_use_never() -> None:
    # Given a service with many rollouts behind it
    sim = stable()
    for spec_hash in ("b1", "b2", "b3", "b4", "b5"):
        sim.spec_is(spec_hash).run(benchmark_runs)
        sim.command("abort", spec_hash).run(lambda s: s.state == "Aborted")
    sim.step()
    sim.step()
    # Then three Benchmarks are kept, and the one that the Baseline stands on
    frozen = sim.baselines[sim.status.baseline.name].spec["samples"]["benchmark"]
    assert len(sim.benchmarks) == 4 and frozen in sim.benchmarks
    assert len(sim.baselines) == 1
