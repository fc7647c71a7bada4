#!/bin/sh
# Before the files are unpacked: some of them belong to the group. systemd-sysusers makes the
# same user from the package's file, but it is not on every machine.
set -e
getent group waybill >/dev/null || groupadd --system waybill
getent passwd waybill >/dev/null ||
  useradd --system --gid waybill --home-dir /var/lib/waybill --no-create-home --shell /usr/sbin/nologin --comment Waybill waybill
