"""Reports: a run or a collection as one HTML page, and the words and tables on it."""
