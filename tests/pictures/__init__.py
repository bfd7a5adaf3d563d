"""Tests of the pictures: what is drawn is compared with the weights."""
