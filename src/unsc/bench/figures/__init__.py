"""The figures, one file each: a module of this folder that registers a figure is a figure."""
