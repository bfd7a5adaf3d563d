"""Reports: the tables and figures of a run beside the paper's."""
