"""Pure planning: the observed world and the time in, the desired state out."""

from tailguard_operator.plan.decide import decide
from tailguard_operator.plan.decision import Decision
from tailguard_operator.plan.desired import needs_evidence
from tailguard_operator.plan.world import World

__all__ = ["Decision", "World", "decide", "needs_evidence"]
