"""Tests of t2t_keras/input_pipeline."""
