"""What the commands of `sortnet experiment` share: working cells out, and what is written."""
