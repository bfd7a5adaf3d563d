"""Tests of ablations, mirroring t2t_keras/reports/ablation."""
