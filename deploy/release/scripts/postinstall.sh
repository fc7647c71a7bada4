#!/bin/sh
# Nothing is started: the settings come first. What runs goes on with the old program until it is
# restarted, because the services need `waybill migrate up` before.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
