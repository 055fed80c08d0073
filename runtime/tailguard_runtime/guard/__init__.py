"""What runs inside the serving process: request counts, probes and drain.

Standard library only and Python 3.10 compatible: an init container copies this package alone into engine
images (`python -m tailguard_runtime.guard.install DEST`), and vLLM loads it with
`--middleware tailguard_runtime.guard.middleware.GuardMiddleware`.
"""
