"""Tests of `t2t_keras/evaluation`: one file per module."""
