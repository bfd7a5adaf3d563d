"""Tests of what a client needs of gRPC, against servers made up here."""
