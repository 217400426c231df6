#!/usr/bin/env python3
"""A tool for `troupe worker --serve tool/wordcount --exec examples/wordcount.py --env PATH`.

It gets a job as a line of JSON and answers with one. It is kept for the next job.
"""
import json
import sys

for line in sys.stdin:
    job = json.loads(line)
    text = job["arguments"].get("text")
    if not isinstance(text, str):
        answer = {"error": "text is required"}
    else:
        print(json.dumps({"id": job["id"], "progress": "counting"}), flush=True)
        answer = {"result": {"words": len(text.split())}}
    print(json.dumps({"id": job["id"], **answer}), flush=True)
