"""Custom kernels for model servers, one file a kernel. Empty until the first kernel lands."""
