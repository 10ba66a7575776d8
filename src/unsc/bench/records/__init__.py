"""`unsc bench records`: how records are forgotten, beside networks that never saw them. A case is a file."""
