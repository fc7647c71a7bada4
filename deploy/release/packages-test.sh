#!/usr/bin/env bash
# packages-test.sh: makes the packages with stand-ins for the programs, and compares what is in them, with
# modes and owners, with the list of each. `packages-test.sh -update` writes the lists.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${NFPM:?run make packages-test}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1764060000 TZ=UTC LC_ALL=C
mkdir "$work/tree" "$work/out"
deploy/release/common.sh "$work/tree" v1.2.3
deploy/release/linux.sh "$work/tree"
echo '{}' >"$work/tree/sbom.cdx.json"
for name in waybill waybill-api waybill-dispatcher waybill-gateway; do
  printf '#!/bin/sh\n' >"$work/tree/$name"
done
deploy/release/packages.sh "$work/tree" amd64 1.2.3 "$work/out"

# What dpkg and rpm say, in one form: mode, owner, file. Of the pages of commands the first is enough.
debs() { dpkg-deb --contents "$1" | awk '$1 !~ /^d/ || /\/etc\/waybill\/$/ { sub(/^\./, "", $6); sub(/\/$/, "", $6); print $1, $2, $6 }'; }
rpms() { rpm -qp --qf '[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]' "$1" 2>/dev/null; }
short() { grep -vE '/man1/waybill-.*' | sort -k3; }
failed=0
for package in waybill waybill-services; do
  for kind in deb rpm; do
    file=$(ls "$work"/out/$package[_-]1.2.3*.$kind)
    "${kind}s" "$file" | short >"$work/list"
    list=deploy/release/lists/$package.$kind
    if [ "${1-}" = -update ]; then
      mkdir -p deploy/release/lists
      cp "$work/list" "$list"
    fi
    diff -u "$list" "$work/list" || failed=1
  done
  dpkg-deb --ctrl-tarfile "$work"/out/${package}_1.2.3_amd64.deb | tar -xO ./conffiles | grep -q '^/etc/waybill/' || { echo "$package.deb: no conffiles" >&2; failed=1; }
done
pages=$(debs "$work"/out/waybill_1.2.3_amd64.deb | grep -c /man1/)
[ "$pages" -gt 100 ] || { echo "waybill.deb has $pages pages of commands" >&2; failed=1; }
exit $failed
