#!/usr/bin/env bash
# check.sh OUT [OS/ARCH …]: makes the release in OUT again, from a clone of its commit in another folder and
# without anything that was compiled before, and compares each file. Without platforms: linux/amd64.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=$1
shift
[ $# -gt 0 ] || set -- linux/amd64

[ -z "$(git status --porcelain)" ] || { echo 'The tree has changes that are not committed: a clone does not have them.' >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone -q --no-hardlinks . "$work/a clone elsewhere"
export GOCACHE=$work/cache
(umask 077 && "$work/a clone elsewhere/deploy/release/release.sh" "$work/again" "$@")
same=0
while read -r sum file; do
  grep -qF "  $file" "$out/SHA256SUMS" || { echo "$out has no $file: it was made from another commit, or for other platforms" >&2; exit 1; }
  grep -qxF "$sum  $file" "$out/SHA256SUMS" || { echo "$file has other bytes when it is built again" >&2; exit 1; }
  same=$((same + 1))
done <"$work/again/SHA256SUMS"
[ "$same" -gt 0 ]
(cd "$out" && sha256sum --quiet --check SHA256SUMS)
echo "$same files have the same bytes when they are built again."
