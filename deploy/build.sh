#!/usr/bin/env bash
# build.sh OUT PACKAGE [flags of go build]: builds a program. If that takes long, it says what
# it does: the first time, modules are downloaded and some hundred packages compiled.
set -euo pipefail
out=$1 package=$2
shift 2

# A build that has nothing to compile ends before anybody wonders.
say() { [ -n "${said-}" ] || { said=1; printf 'Building %s. The first time this takes a few minutes: modules are downloaded and compiled.\n' "$package" >&2; }; }

count=0 total=""
CGO_ENABLED=0 go build -v -trimpath -buildvcs=false "$@" -o "$out" "$package" 2>&1 >/dev/null | {
  failed=()
  while IFS= read -r line; do
    case $line in
    'go: downloading '*) say; printf '  %s\n' "$line" >&2 ;;
    *[[:space:]:]* | '') failed+=("$line") ;; # an error, not a package's path
    *)
      say
      [ -n "$total" ] || total=$(CGO_ENABLED=0 go list -deps "$package" 2>/dev/null | wc -l)
      count=$((count + 1))
      if [ -t 2 ]; then
        printf '\r\033[K  compiling %d of at most %d: %.50s' "$count" "$total" "$line" >&2
      elif [ $((count % 50)) = 0 ]; then
        printf '  compiled %d of at most %d packages\n' "$count" "$total" >&2
      fi
      ;;
    esac
  done
  [ -z "${said-}" ] || [ ! -t 2 ] || printf '\r\033[K' >&2
  [ ${#failed[@]} = 0 ] || printf '%s\n' "${failed[@]}" >&2
}
