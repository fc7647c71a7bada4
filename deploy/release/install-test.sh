#!/usr/bin/env bash
# install-test.sh: installs the packages on a fresh Debian and tells how long it takes from `dpkg -i` to the
# first callback whose signature an independent tool verified. Then upgrades and removes them.
#
# debootstrap makes the Debian, in a folder, as root. It has no systemd that runs, so the script does by
# hand what waybill.service says: the same program, user, environment and folders. The root is kept
# as an archive in .tools, so that only the first run downloads it.
set -euo pipefail
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo 'This needs root, for debootstrap and chroot.' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'Missing: debootstrap (Debian: apt-get install debootstrap)' >&2; exit 1; }

suite=bookworm
base=$PWD/.tools/debian-$suite.tar
work=$(mktemp -d)
root=$work/root
running=""
finish() {
  status=$?
  trap - EXIT
  [ -z "$running" ] || kill "$running" 2>/dev/null || true
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  [ $status = 0 ] || { echo "FAILED (exit code $status)" >&2; tail -20 "$work/log" 2>/dev/null >&2; }
  rm -rf "$work"
  exit $status
}
trap finish EXIT
say() { printf '\n=== %s\n' "$*"; }
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 "$@"; }

say 'packages'
deploy/release/release.sh "$work/dist" "linux/$(dpkg --print-architecture)"
deb() { ls "$work"/dist/"$1"_*.deb; }

say 'a fresh Debian'
if [ ! -e "$base" ]; then
  debootstrap --variant=minbase "$suite" "$work/fresh" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1
  tar -C "$work/fresh" -cf "$base.part" . && mv "$base.part" "$base"
  rm -rf "$work/fresh"
fi
mkdir "$root"
tar -C "$root" -xf "$base"
mount -t proc proc "$root/proc"
cp "$work"/dist/*.deb "$root/root/"
inside sh -c '! command -v curl && ! command -v systemctl' >/dev/null

say 'install'
began=$EPOCHREALTIME
inside dpkg -i "/root/$(basename "$(deb waybill)")" >"$work/log" 2>&1
installed=$EPOCHREALTIME
inside sh -c 'id waybill; stat -c "%A %U %G %n" /etc/waybill /etc/waybill/* /usr/bin/waybill'
[ "$(inside stat -c '%a %U %G' /etc/waybill/waybill.env)" = '640 root waybill' ]
inside waybill version

say 'start, as waybill.service does'
unit=$root/usr/lib/systemd/system/waybill.service
of() { sed -n "s/^$1=//p" "$unit"; }
read -ra command <<<"$(of ExecStart)"
state=/var/lib/$(of StateDirectory)
inside install -d -o "$(of User)" -g "$(of Group)" -m "$(of StateDirectoryMode)" "$state"
# Ports that nothing else here has, and leave to call this machine.
for setting in HTTP_ADDR=127.0.0.1:18380 OPS_ADDR=127.0.0.1:18391 NATS_ADDR=127.0.0.1:18322 EGRESS_ALLOW=127.0.0.0/8 EGRESS_HTTP=true; do
  sed -i "s|^WAYBILL_${setting%%=*}=.*|WAYBILL_$setting|" "$root/etc/waybill/waybill.env"
done
# As exec does: its number is that of the program, so that a signal reaches it.
chroot "$root" setpriv --reuid "$(of User)" --regid "$(of Group)" --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
  env -i PATH=/usr/bin "$(of Environment)" sh -c 'umask 0077; cd "$1"; shift; exec "$@"' sh "$(of WorkingDirectory)" "${command[@]}" >/dev/null 2>"$work/log" &
running=$!
until inside waybill health http://127.0.0.1:18380/readyz >/dev/null 2>&1; do kill -0 $running; done
ready=$EPOCHREALTIME

say 'a webhook, an event, a callback'
secret=whsec_$(head -c 32 /dev/urandom | base64)
python3 deploy/release/verify.py 18390 "$secret" >"$work/verified" &
receiver=$!
until grep -qs listening "$work/verified"; do kill -0 $receiver; done
# Files of another user are not trusted, even by root.
own() { inside setpriv --reuid "$(of User)" --regid "$(of Group)" --init-groups "$@"; }
at=(--data "$state" --server http://127.0.0.1:18380)
own waybill webhooks create http://127.0.0.1:18390/shipments --secret "$secret" "${at[@]}" >/dev/null
own waybill trigger shipment.delivered "${at[@]}"
wait $receiver
delivered=$EPOCHREALTIME
cat "$work/verified"

say 'upgrade: the settings stay'
inside dpkg -i "/root/$(basename "$(deb waybill)")" "/root/$(basename "$(deb waybill-services)")" >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; exit 1; }
grep -q '^WAYBILL_HTTP_ADDR=127.0.0.1:18380$' "$root/etc/waybill/waybill.env"
for service in api dispatcher gateway; do
  inside waybill-$service --version
  # Its settings are read, by its user, and it says what is missing.
  ! own env WAYBILL_CONFIG=/etc/waybill/$service.env /usr/bin/waybill-$service 2>"$work/refused"
  grep -q 'WAYBILL_DATABASE_URL is required' "$work/refused" || { cat "$work/refused" >&2; exit 1; }
done

say 'stop, remove'
kill -TERM $running
wait $running
running=""
inside dpkg --remove waybill-services waybill >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; exit 1; }
inside sh -c 'test ! -e /usr/bin/waybill && test -e /etc/waybill/waybill.env && test -e /var/lib/waybill/admin.key'
inside dpkg --purge waybill-services waybill >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; exit 1; }
inside sh -c 'test ! -e /etc/waybill/waybill.env && test -e /var/lib/waybill/admin.key'

say 'passed'
took() { awk -v a="$1" -v b="$2" -v what="$3" 'BEGIN { printf "%-45s %6.2f s\n", what, b - a }'; }
took "$began" "$installed" 'dpkg -i'
took "$installed" "$ready" 'start until ready'
took "$ready" "$delivered" 'webhook, event, verified callback'
took "$began" "$delivered" 'from dpkg -i to the first verified callback'
