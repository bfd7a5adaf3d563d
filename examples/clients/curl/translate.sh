#!/usr/bin/env bash
# Translates lines with a server over REST: one line in, one line out, in order.
# Usage: ./translate.sh [URL] < source.txt > target.txt
set -euo pipefail

url="${1:-http://localhost:8501/v1/models/translate:predict}"
batch_size=32

while mapfile -n "$batch_size" lines && ((${#lines[@]} > 0)); do
    printf '%s' "${lines[@]}" |
        jq -R -n '{instances: [inputs | {text: .}]}' |
        curl --silent --show-error --max-time 60 --data-binary @- "$url" |
        jq -r '(.error // empty | error), .predictions[].translation
            | gsub("\n"; " ")'
done
