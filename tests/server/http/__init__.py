"""Tests of the client, with fake servers."""
