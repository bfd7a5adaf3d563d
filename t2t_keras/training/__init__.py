"""Training (section 5): loss, schedule, Adam, update step, loop, checkpoints."""
