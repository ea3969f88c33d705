"""Commands of `sortnet experiment`: options, computation of results, and output."""
