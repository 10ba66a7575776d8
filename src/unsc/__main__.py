"""`python -m unsc`."""

from unsc.cli import main

main()
