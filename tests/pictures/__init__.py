"""Tests of attention pictures, which read the drawn values back."""
