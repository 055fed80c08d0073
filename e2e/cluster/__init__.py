"""The local cluster: a real Kubernetes with real vLLM on one machine, in one set of namespaces."""
