"""Tests of the reports, mirroring t2t_keras/reports."""
