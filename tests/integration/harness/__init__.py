"""What the integration tests share: a real API server, a kubelet that plays its part, the operator's process, a DSL."""
