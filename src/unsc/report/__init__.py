"""A report on runs: one HTML file that needs nothing beside itself, made from run folders alone.

`read.read_run` says what a folder holds, `figures/` has one file for each figure, `parts/` one for each part of the
page that is words or a table, and `page.write_report` puts them together.
"""
