"""The example files of the how-tos, which `sortnet demo --examples` lays out."""
