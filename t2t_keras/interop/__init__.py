"""Models of other toolkits: readers and writers, which know no run."""
