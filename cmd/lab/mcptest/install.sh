#!/usr/bin/env bash
# Puts the Node packages of package-lock.json into the folder that is named, unless they lie
# there already, and the scripts that use them. The conformance suite needs Node 22, which
# comes with them.
set -euo pipefail
tools=$1
cd "$(dirname "$0")/node"

mkdir -p "$tools"
cp ./*.mjs ../python/*.py "$tools"
if cmp -s package-lock.json "$tools/installed-lock.json"; then exit 0; fi
if ! command -v npm >/dev/null; then
  echo 'NOT RUN: npm is missing (Debian: apt-get install npm). The MCP conformance suite and the clients are Node programs.' >&2
  exit 1
fi
echo 'installing the MCP conformance suite and clients (once, about a minute)'
cp package.json package-lock.json "$tools"
(cd "$tools" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
cp package-lock.json "$tools/installed-lock.json"
