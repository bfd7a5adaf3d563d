"""Whether two commits compute the same, seen from outside through their programs."""
