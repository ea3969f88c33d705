"""Answer questions about items: the longer text is better, as in every program that is a judge."""

import json
import sys

for line in sys.stdin:
    question = json.loads(line)
    if "items" in question:  # more than two
        by_length = sorted(question["items"], key=lambda item: len(item["text"]))
        answer = {"best": by_length[-1]["place"], "worst": by_length[0]["place"]}
    else:
        is_left_longer = len(question["left"]["text"]) > len(question["right"]["text"])
        answer = {"answer": "left" if is_left_longer else "right"}
    print(json.dumps(answer), flush=True)
