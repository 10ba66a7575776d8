"""What a request costs, beside what else the same cores could do: `unsc bench speed`, and the page `docs/speed.md`."""
