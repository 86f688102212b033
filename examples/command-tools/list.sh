#!/bin/sh
# Prints what tools there are.
cat <<'END'
[
  {
    "name": "count_words",
    "description": "Counts the words of a text.",
    "parameters": {
      "type": "object",
      "properties": {"text": {"type": "string", "description": "The text."}},
      "required": ["text"]
    }
  },
  {"name": "today", "description": "Says what day it is."}
]
END
