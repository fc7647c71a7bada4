#!/usr/bin/env bash
# licences.sh FOLDER …: prints the licences of Go and of all modules in the programs of cmd/FOLDER, on
# any platform. A module without a licence is a fault.
set -euo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C

printf 'Waybill contains the following, under these licences.\n\n== Go\n\n'
cat "$(go env GOROOT)/LICENSE"
for os in linux darwin windows; do
  GOOS=$os CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if .Version}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' "${@/#/./cmd/}"
done | sort -u | while read -r module version dir; do
  printf '\n== %s %s\n' "$module" "$version"
  found=$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname 'unlicense*' \) ! -name '*.go' | sort)
  [ -n "$found" ] || { echo "$module $version has no licence" >&2; exit 1; }
  while IFS= read -r file; do
    printf '\n'
    cat "$file"
  done <<<"$found"
done
