#!/usr/bin/env bash
# Tests docker-compose.yml: builds the image, brings everything up, runs the demo against
# it, kills a dispatcher under load, checks that nothing was lost, runs the demo again, and
# takes everything down.
#
# Uses the Docker engine if one answers. If none does, and this is root on a machine with
# dockerd installed, it starts one and stops it later. If no registry is reachable,
# stand-ins get the names of the images (deploy/standin). If the engine has no networks,
# deploy/compose-test.override.yml makes the containers share one loopback.
set -euo pipefail
cd "$(dirname "$0")/.."

events=1000 # published while a dispatcher is killed; what one page of the log can list
work=$(mktemp -d)
engine=""
compose=(docker compose)
files=(-f docker-compose.yml)

say() { printf '\n=== %s\n' "$*" >&2; }
fail() { printf '\nFAILED: %s\n' "$*" >&2; exit 1; }
dc() { "${compose[@]}" --project-name waybill-test --project-directory . --env-file "$work/env" "${files[@]}" "$@"; }

finish() {
  status=$?
  trap - EXIT
  set +e
  if [ -s "$work/env" ]; then
    if [ $status != 0 ]; then
      dc ps --all >&2
      dc logs --tail 30 >&2
    fi
    say 'down'
    dc --profile demo down --volumes --remove-orphans --timeout 40 >"$work/down" 2>&1 || { cat "$work/down" >&2; status=1; }
  fi
  if [ -n "$engine" ]; then
    kill "$engine" && wait "$engine" 2>/dev/null
    mount | awk -v at="$work/" 'index($3, at) == 1 { print $3 }' | sort -r | xargs -r -n1 umount
  fi
  rm -rf "$work"
  [ $status = 0 ] && say 'passed'
  exit $status
}
trap finish EXIT
trap 'exit 130' INT TERM

start_engine() {
  [ "$(id -u)" = 0 ] && command -v dockerd >/dev/null ||
    fail 'no Docker engine answers, and none can be started here (as root; Debian: apt-get install docker.io)'
  say 'starting a Docker engine without networks'
  mkdir "$work/engine"
  dockerd --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
    --data-root "$work/engine/data" --exec-root "$work/engine/run" --pidfile "$work/engine/pid" \
    -H "unix://$work/engine/socket" >"$work/engine/log" 2>&1 &
  engine=$!
  export DOCKER_HOST=unix://$work/engine/socket
  for _ in $(seq 100); do
    docker info >/dev/null 2>&1 && return
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.2
  done
  tail -5 "$work/engine/log" >&2
  fail 'the Docker engine did not start'
}

find_compose() {
  docker compose version >/dev/null 2>&1 && return
  compose=("$PWD/.tools/docker-compose")
  [ -x "${compose[0]}" ] && return
  say 'building docker compose (once, about three minutes)'
  # It can't be installed by its module path, as it replaces modules; from a module of our own it can.
  mkdir -p .tools/compose
  (
    cd .tools/compose
    export GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0
    [ -f go.mod ] || go mod init waybill.dev/tools/compose
    go get -tool github.com/docker/compose/v5/cmd@v5.5.1
    go build -trimpath -ldflags '-s -w' -o ../docker-compose github.com/docker/compose/v5/cmd
  ) >"$work/compose-build" 2>&1 || { tail -5 "$work/compose-build" >&2; fail 'docker compose could not be built'; }
}

find_images() {
  for image in postgres:17-alpine nats:2.15-alpine golang:1.26.8; do
    docker image inspect "$image" >/dev/null 2>&1 && continue
    timeout 300 docker pull --quiet "$image" >/dev/null 2>&1 && continue
    say 'no registry is reachable: building stand-in images'
    command -v debootstrap >/dev/null || fail 'debootstrap is missing (Debian: apt-get install debootstrap)'
    deploy/standin/build.sh .tools/standin
    return
  done
}

docker info >/dev/null 2>&1 || start_engine
find_compose
find_images

deploy/make-env.sh .env.example "$work/env"
# Other ports than a running installation has.
sed -i '/_PORT=/d' "$work/env"
printf '%s\n' WAYBILL_PORT=18080 WAYBILL_GATEWAY_PORT=18082 WAYBILL_RECEIVER_PORT=18090 NATS_PORT=14222 >>"$work/env"
dispatchers=(dispatcher)
if ! docker network inspect bridge >/dev/null 2>&1; then
  files+=(-f deploy/compose-test.override.yml)
  echo WAYBILL_CALLBACK_SUBNET=127.0.0.0/8 >>"$work/env"
  dispatchers+=(dispatcher-2)
fi
key=$(sed -n 's/^WAYBILL_ADMIN_KEY=//p' "$work/env")

say 'up'
VERSION=$(git describe --tags --always --dirty 2>/dev/null || echo dev)
export VERSION
DOCKER_BUILDKIT=${DOCKER_BUILDKIT-0} dc build >"$work/build" 2>&1 || { tail -20 "$work/build" >&2; fail 'the image could not be built'; }
dc up --detach --wait --wait-timeout 180
dc ps --format 'table {{.Service}}\t{{.Status}}'
[ "$(dc ps --quiet "${dispatchers[@]}" | wc -l)" = 2 ] || fail 'there are not two dispatchers'

# api PATH [BODY]: asks the API. Waybill's containers have no shell, so a neighbour asks.
api() {
  dc exec -T nats wget -q -O - --header "Authorization: Bearer $key" \
    ${2+--header 'Content-Type: application/json' --post-data "$2"} "http://api:8080$1"
}
# of NAME: the value of a string field in the JSON on stdin.
of() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

say 'rights'
docker inspect $(dc ps --quiet) --format \
  '{{.Name}} user={{.Config.User}} read-only={{.HostConfig.ReadonlyRootfs}} dropped={{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}}' | tee "$work/rights"
! grep -vE 'user=(65532:65532|postgres) read-only=true dropped=\[ALL\] \[no-new-privileges:true\]$' "$work/rights" ||
  fail 'a container has more rights than it needs'

say 'gateway'
dc exec -T nats wget -q -O - http://gateway:8082/readyz | grep -q '"store":"up","bus":"up"' || fail 'the gateway is not ready'

say 'demo'
dc run --rm --no-deps --use-aliases demo

say "a dispatcher is killed while $events events go out"
webhook=$(api /v1/webhooks '{"url":"http://receiver:8090/load","events":["shipment.in_transit"]}' | of id)
[ -n "$webhook" ] || fail 'the webhook for the load was not registered'
for ((n = 0; n < events; n += 50)); do
  batch=""
  for ((i = n; i < n + 50; i++)); do
    batch+=",{\"id\":\"load_$i\",\"type\":\"shipment.in_transit\",\"data\":{\"shipmentId\":\"shp_$i\"}}"
  done
  api /v1/events "[${batch#,}]" >/dev/null
  if [ $n = $((events / 2 / 50 * 50)) ]; then
    docker kill --signal KILL "$(dc ps --quiet "${dispatchers[0]}" | head -1)" >/dev/null
    echo 'killed'
  fi
done
delivered=0
for _ in $(seq 60); do
  delivered=$(api "/v1/deliveries?webhookId=$webhook&status=delivered&limit=1000" | grep -oE '"eventId": ?"load_[0-9]+"' | sort -u | wc -l)
  [ "$delivered" = "$events" ] && break
  sleep 1
done
echo "$delivered of $events delivered"
[ "$delivered" = "$events" ] || fail 'events were lost'

say 'demo, with the dispatcher that is left'
dc run --rm --no-deps --use-aliases demo
