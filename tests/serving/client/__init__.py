"""Tests of the client, against servers made up here."""
