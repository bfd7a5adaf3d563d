"""Tests. Folders mirror `t2t_keras/`; `architecture/` checks the code rules."""
