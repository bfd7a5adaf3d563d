"""Station 5: logits in, updated weights out. Loss, schedule, step and loop."""
