"""Tests of station 9: an export works in a server, or is not there."""
