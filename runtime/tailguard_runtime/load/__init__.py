"""The benchmark's load: workloads, arrival times, the open-loop client, slots and their storage."""
