"""The whole road: programs, from a command line to what they leave on the disk."""
