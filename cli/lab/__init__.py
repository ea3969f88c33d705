"""Commands of `sortnet experiment`: options, computation of cells, and output."""
