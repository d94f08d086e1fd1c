"""Copies and configurations of layers."""
