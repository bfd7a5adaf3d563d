"""Mutation testing: runs the tests against faulty variants of the code."""
