"""The `tailguard` command: what is, why it was decided, and the same verdict from the stored samples again."""
