"""The words: tables of text to be read and corrected, and their parsed entries."""
