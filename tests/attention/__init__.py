"""Tests of attention pictures: what is drawn is compared with the weights."""
