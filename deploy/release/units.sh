#!/usr/bin/env bash
# units.sh: asks systemd how exposed each service is. More than 2.0 of 10 is a fault.
set -euo pipefail
cd "$(dirname "$0")/../systemd"
for unit in *.service; do
  said=$(systemd-analyze security --offline=true --threshold=20 "$unit" 2>&1) || { printf '%s\n' "$said" >&2; exit 1; }
  tail -n 1 <<<"$said"
done
