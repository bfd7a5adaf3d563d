"""Tests of serving: an export works in a server, or is not there."""
