#!/bin/sh
# submit.sh posts a task with curl, waits for its end and prints the output.
# usage: submit.sh PROMPT
set -eu
url=${BLOOM_RUNTIME_URL:-http://127.0.0.1:5000}/api/runtime
prompt=${1:?usage: submit.sh PROMPT}

call() { curl -sS --fail-with-body -H "X-Runtime-API-Key: ${BLOOM_API_KEY:-}" -H 'Content-Type: application/json' "$@"; }

body=$(jq -n --arg prompt "$prompt" '{context_id: "example", agent_slug: "assistant", prompt: $prompt}')
id=$(call -d "$body" "$url/llm-tasks" | jq -re .id)

# The stream ends when the task does.
call -N -H 'Accept: application/x-ndjson' "$url/llm-tasks/$id/events" | jq -r .type >&2

call "$url/llm-tasks/$id/results" | jq -re '.[0] | select(.status == "success") | .output'
