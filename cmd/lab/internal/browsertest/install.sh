#!/usr/bin/env bash
# Puts the Node package of package-lock.json into the folder that is named, unless it lies there
# already.
set -euo pipefail
tools=$1
cd "$(dirname "$0")/node"

if ! command -v chromium >/dev/null; then
  echo 'NOT RUN: chromium is missing (Debian: apt-get install chromium). The console is tried in a real browser.' >&2
  exit 1
fi
if cmp -s package-lock.json "$tools/installed-lock.json"; then exit 0; fi
if ! command -v npm >/dev/null; then
  echo 'NOT RUN: npm is missing (Debian: apt-get install npm). It installs axe-core.' >&2
  exit 1
fi
mkdir -p "$tools"
cp package.json package-lock.json "$tools"
(cd "$tools" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
cp package-lock.json "$tools/installed-lock.json"
