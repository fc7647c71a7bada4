#!/usr/bin/env bash
# systemd-test.sh DIST: boots a fresh Debian with systemd in a container, installs the packages in DIST, starts
# waybill.service as it is shipped, and waits for a verified callback. So the whole sandbox is tried.
#
# Needs root, debootstrap and systemd-nspawn (Debian: apt-get install debootstrap systemd-container).
set -euo pipefail
dist=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo 'This needs root, for debootstrap and systemd-nspawn.' >&2; exit 1; }
missing=""
for program in debootstrap systemd-nspawn; do command -v $program >/dev/null || missing="$missing $program"; done
[ -z "$missing" ] || { echo "Missing:$missing (Debian: apt-get install debootstrap systemd-container)" >&2; exit 1; }

suite=bookworm
base=$PWD/.tools/debian-$suite-systemd.tar
work=$(mktemp -d)
root=$work/root
receiver=""
trap 'rm -rf "$work"; [ -z "$receiver" ] || kill "$receiver" 2>/dev/null || true' EXIT
if [ ! -e "$base" ]; then
  debootstrap --variant=minbase --include=systemd,systemd-sysv "$suite" "$work/fresh" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/log" 2>&1 ||
    { tail -5 "$work/log" >&2; exit 1; }
  tar -C "$work/fresh" -cf "$base.part" . && mv "$base.part" "$base"
fi
mkdir "$root"
tar -C "$root" -xf "$base"
cp "$dist"/waybill_*_"$(dpkg --print-architecture)".deb "$root/root/waybill.deb"
chroot "$root" dpkg -i /root/waybill.deb >/dev/null
# The container has this machine's network: ports that nothing else here has, and leave to call it.
for setting in HTTP_ADDR=127.0.0.1:18480 OPS_ADDR=127.0.0.1:18491 NATS_ADDR=127.0.0.1:18422 EGRESS_ALLOW=127.0.0.0/8 EGRESS_HTTP=true; do
  sed -i "s|^WAYBILL_${setting%%=*}=.*|WAYBILL_$setting|" "$root/etc/waybill/waybill.env"
done
secret=whsec_$(head -c 32 /dev/urandom | base64)
python3 deploy/release/verify.py 18490 "$secret" >"$work/verified" &
receiver=$!

cat >"$root/root/try.sh" <<END
trap 'journalctl -u waybill --no-pager; systemctl --no-block poweroff' EXIT
set -e
own() { setpriv --reuid waybill --regid waybill --init-groups waybill "\$@" --data /var/lib/waybill; }
systemctl start waybill
until waybill health http://127.0.0.1:18480/readyz; do [ "\$(systemctl is-active waybill)" = active ]; done
own webhooks create http://127.0.0.1:18490/shipments --secret '$secret' >/dev/null
own trigger shipment.delivered
grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/\$(systemctl show -P MainPID waybill)/status
for n in \$(seq 100); do ! own deliveries list -o json | grep -q '"delivered"' || break; sleep 0.2; done
systemctl stop waybill
[ "\$(systemctl show -P Result waybill)" = success ]
! journalctl -u waybill | grep -F "\$(cat /var/lib/waybill/admin.key)"
echo the service has done its work
END
cat >"$root/etc/systemd/system/try.service" <<'END'
[Service]
Type=oneshot
ExecStart=/bin/bash /root/try.sh
StandardOutput=file:/root/said
StandardError=inherit
[Install]
WantedBy=multi-user.target
END
chroot "$root" systemctl --quiet enable try.service 2>/dev/null
timeout 120 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --boot >"$work/boot" 2>&1 || true # it may say that it can't clean up
cat "$work/verified" "$root/root/said"
wait "$receiver"
receiver=""
grep -q '^the service has done its work$' "$root/root/said"
