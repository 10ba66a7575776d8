"""Readers of the data sets' files, one form of file each."""
