"""The data sets, one file each: a module of this folder that registers an `ImageData` is a data set."""
