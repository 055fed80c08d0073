"""The operator: watches InferenceServices, decides by pure functions, applies the result."""
