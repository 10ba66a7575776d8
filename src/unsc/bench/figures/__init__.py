"""The paper's figures. Each file has `measure`, which gives numbers that JSON can hold, and `draw`, which needs no more
than those: a picture can be made anew without a network."""
