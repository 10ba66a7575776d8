"""Our step beside the paper's, on networks small and large: `unsc bench steps`, and the page `docs/steps.md`."""
