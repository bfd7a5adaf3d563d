"""Tests of t2t_keras/interop."""
