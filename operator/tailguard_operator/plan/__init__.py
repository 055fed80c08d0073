"""Pure planning: the observed world and the time in, the desired state out."""
