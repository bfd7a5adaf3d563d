"""Training of a run, and other origins of its weights: averages and imports."""
