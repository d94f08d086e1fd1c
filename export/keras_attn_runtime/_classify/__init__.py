"""Classifies texts with exported files of the kind "functional"."""
