"""The demo: the main job, told on a real cluster with real vLLM."""
