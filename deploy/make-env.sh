#!/usr/bin/env bash
# make-env.sh TEMPLATE FILE: makes FILE from TEMPLATE, with random secrets for its empty
# settings. Only the owner can read it. An existing FILE is not changed.
set -euo pipefail
template=$1 file=$2
[ ! -e "$file" ] || exit 0

hex() { head -c "$1" /dev/urandom | od -An -tx1 | tr -d ' \n'; }

umask 077
partial=$(mktemp "$file.XXXXXX")
trap 'rm -f "$partial"' EXIT
while IFS= read -r line; do
  case $line in
    WAYBILL_ENCRYPTION_KEY=) line+=$(head -c 32 /dev/urandom | base64) ;;
    [A-Z]*=) line+=k$(hex 24) ;;
  esac
  printf '%s\n' "$line"
done <"$template" >"$partial"
mv "$partial" "$file"
echo "made $file with fresh secrets" >&2
