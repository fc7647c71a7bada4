#!/usr/bin/env bash
# common.sh TREE VERSION: puts what is the same on all platforms into TREE: manual, completions, routes,
# licence. For release.sh, which sets SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/../.."
go run ./cmd/waybill/internal/manual "$1" "$2"
find "$1/man" -type f -exec gzip -9n {} +
install -Dm644 -t "$1/routes" config/*.json
install -m644 LICENSE README.md CHANGELOG.md "$1/"
deploy/release/licences.sh api dispatcher gateway waybill >"$1/THIRD-PARTY-LICENCES"
