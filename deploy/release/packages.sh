#!/usr/bin/env bash
# packages.sh TREE ARCH VERSION OUT: makes the deb and the rpm of each package from the tree of a platform,
# for release.sh. Needs NFPM and SOURCE_DATE_EPOCH.
set -euo pipefail
configs=$(cd "$(dirname "$0")" && pwd)
export PACKAGE_ARCH=$2 PACKAGE_VERSION=$3
cd "$1"
for config in "$configs"/*.nfpm.yaml; do
  for kind in deb rpm; do
    "$NFPM" package --config "$config" --packager $kind --target "$4/" >/dev/null
  done
done
