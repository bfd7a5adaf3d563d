"""The mutation check: tests of the tests, by wrong variants of the code."""
