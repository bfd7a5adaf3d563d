"""The tests. Folders mirror `t2t_keras/`; `architecture/` holds the house rules."""
