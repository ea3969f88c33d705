"""The commands of `sortnet`, one file each."""
