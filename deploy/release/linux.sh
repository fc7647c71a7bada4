#!/usr/bin/env bash
# linux.sh TREE: puts what only Linux has into TREE: units, settings, scripts of packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
install -Dm644 -t "$1/systemd" deploy/systemd/*
install -Dm640 -t "$1/etc" deploy/release/etc/*
install -Dm755 -t "$1/scripts" deploy/release/scripts/*
install -m644 deploy/release/copyright "$1/copyright"
