"""The rows of the table, one family a file: to add one is to add a file."""
