#!/usr/bin/env bash
# build.sh CACHE_DIR: makes the images that the compose file and the Dockerfile name, for
# a machine that reaches a Debian mirror but no image registry. They get the real names,
# so that both files are tried as they are. What differs: PostgreSQL is Debian's (15),
# nats-server is built from its module, and all of them stand on Debian.
# Needs root, debootstrap, Go.
set -euo pipefail
cache=$1
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export DOCKER_BUILDKIT=0

base=$cache/debian.tar
if [ ! -s "$base" ]; then
  debootstrap --variant=minbase --include=postgresql-15,busybox,ca-certificates bookworm "$work/root" >"$cache/debootstrap.log" 2>&1 ||
    { tail -5 "$cache/debootstrap.log" >&2; exit 1; }
  tar -C "$work/root" -cf "$base.partial" --exclude=./var/cache/apt/archives --exclude=./proc --exclude=./sys .
  mv "$base.partial" "$base"
  rm -rf "$work/root"
fi
docker import "$base" waybill-standin:debian >/dev/null

image() { # image NAME CONTEXT, Dockerfile on stdin
  cat >"$2/Dockerfile"
  docker build --quiet --tag "$1" "$2" >/dev/null
  echo "stand-in for $1" >&2
}

mkdir "$work/postgres" "$work/nats" "$work/golang"

install -m 755 "$here/postgres-entrypoint.sh" "$work/postgres/entrypoint"
image postgres:17-alpine "$work/postgres" <<'DOCKERFILE'
FROM waybill-standin:debian
ENV PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin PGDATA=/var/lib/postgresql/data
COPY entrypoint /entrypoint
RUN install -d -o postgres -g postgres -m 700 /var/lib/postgresql/data && \
    install -d -o postgres -g postgres -m 3777 /run/postgresql
STOPSIGNAL SIGINT
ENTRYPOINT ["/entrypoint"]
DOCKERFILE

(cd "$here/../../cmd" && CGO_ENABLED=0 GOBIN= go build -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/nats/nats-server" github.com/nats-io/nats-server/v2)
image nats:2.15-alpine "$work/nats" <<'DOCKERFILE'
FROM waybill-standin:debian
RUN ln -s busybox /bin/wget
COPY nats-server /usr/local/bin/nats-server
ENTRYPOINT ["nats-server"]
DOCKERFILE

cp -a "$(go env GOROOT)" "$work/golang/go"
rm -rf "$work/golang/go/test"
# The module proxy may be reached through a machine whose certificate only this one trusts.
cp -L /etc/ssl/certs/ca-certificates.crt "$work/golang/"
image golang:1.26.8 "$work/golang" <<'DOCKERFILE'
FROM waybill-standin:debian
ENV PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY go /usr/local/go
DOCKERFILE
