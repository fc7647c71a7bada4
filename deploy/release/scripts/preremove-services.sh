#!/bin/sh
# A removal stops the services. An upgrade does not. deb says "remove", rpm says 0.
set -e
case ${1-} in
remove | 0)
  if [ -d /run/systemd/system ]; then
    for unit in waybill-api.service waybill-dispatcher.service waybill-gateway.service; do
      systemctl --quiet disable --now "$unit" || true # it may be there no more
    done
  fi
  ;;
esac
