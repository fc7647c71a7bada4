#!/usr/bin/env bash
# release.sh OUT [OS/ARCH …]: makes the files of a release in the folder OUT: an archive for each
# platform, deb and rpm packages for Linux, an SBOM of each platform, and SHA256SUMS. Without
# platforms: all.
#
# The same commit gives the same bytes, wherever it is built: every time in a file is that of the
# commit, paths are left out, and what is packed is in the order of its names. check.sh proves it.
# Needs nfpm and cyclonedx-gomod, which `make release` builds and names, GNU tar, gzip, zip and jq.
set -euo pipefail
cd "$(dirname "$0")/../.."

programs=(waybill:waybill api:waybill-api dispatcher:waybill-dispatcher gateway:waybill-gateway)
out=$1
shift
targets=("$@")
[ $# -gt 0 ] || targets=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
: "${NFPM:?run make release}" "${CYCLONEDX:?run make release}" "${TAGS:?run make release}"

export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath -tags=$TAGS"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
umask 022
# As many digits of the commit in each clone.
version=$(git describe --tags --always --abbrev=12 --dirty)
# As packages order versions: v1.2.0-rc.1 comes before v1.2.0, and a commit without a tag before all.
case $version in
v[0-9]*) package=${version#v} package=${package/-/\~} package=${package//-/.} ;;
*) package=0.0.0~$(git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S).${version//-/.} ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
say() { printf '%4d s  %s\n' $SECONDS "$*" >&2; }

# tree OS ARCH: everything that is packed for a platform, in a folder of its own.
tree() {
  local os=$1 arch=$2 ending="" tree=$work/$1-$2/waybill-${version#v}-$1-$2 one
  [ "$os" != windows ] || ending=.exe
  mkdir -p "$tree"
  cp -r "$work/common/." "$tree"
  for one in "${programs[@]}"; do
    GOOS=$os GOARCH=$arch go build -ldflags "-s -w -X main.version=$version" -o "$tree/${one#*:}$ending" "./cmd/${one%:*}"
  done
  bill "$tree" "$os" "$arch" "$ending"
  if [ "$os" = linux ]; then
    deploy/release/linux.sh "$tree"
  fi
  find "$tree" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}

# bill TREE OS ARCH ENDING: the bill of materials of waybill, which contains what the other programs do.
bill() {
  "$CYCLONEDX" bin -json -std -noserial -notimestamp -version "$version" -output "$work/bill.json" "$1/waybill$4" 2>"$work/bill.log" ||
    { cat "$work/bill.log" >&2; return 1; }
  # The tool has other bytes on another machine.
  jq 'del(.metadata.tools[].hashes)' "$work/bill.json" >"$1/sbom.cdx.json"
  cp "$1/sbom.cdx.json" "$out/waybill-${version#v}-$2-$3.cdx.json"
}

# pack OS ARCH: the archive of a platform.
pack() {
  local name=waybill-${version#v}-$1-$2 parts
  (
    cd "$work/$1-$2"
    parts=("--exclude=$name/scripts" "--exclude=$name/copyright")
    if [ "$1" = windows ]; then
      find "$name" -type f | sort | zip -q -X -@ "$out/$name.zip"
    else
      tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u+rw,go-w "${parts[@]}" -cf - "$name" | gzip -n >"$out/$name.tar.gz"
    fi
  )
}

say "Waybill $version, packages $package"
mkdir "$work/common"
deploy/release/common.sh "$work/common" "$version"
for target in "${targets[@]}"; do
  os=${target%/*} arch=${target#*/}
  tree "$os" "$arch"
  pack "$os" "$arch"
  [ "$os" != linux ] || deploy/release/packages.sh "$work/$os-$arch/waybill-${version#v}-$os-$arch" "$arch" "$package" "$out"
  rm -rf "${work:?}/$os-$arch"
  say "$target"
done
cd "$out"
find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" SHA256SUMS
say "made $(wc -l <SHA256SUMS) files in $out"
