"""Each benchmark runs, on next to nothing."""
