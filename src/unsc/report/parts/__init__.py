"""Parts of the page that are words and tables: one file each."""
