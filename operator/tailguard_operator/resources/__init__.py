"""Pure builders: from intents and rendered revisions to Kubernetes objects as plain data."""
