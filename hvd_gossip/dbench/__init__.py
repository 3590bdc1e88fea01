"""Comparison of runs."""
