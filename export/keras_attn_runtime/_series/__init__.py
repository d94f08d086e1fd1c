"""Forecaster, and CSV files with series."""
