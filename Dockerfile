# Images of Waybill. Without --target: one image with all four binaries, /waybill (all in one, and the
# commands), /waybill-api, /waybill-dispatcher and /waybill-gateway. With --target api, dispatcher or
# gateway: that service alone. They are static binaries on an empty base: no shell, no packages,
# nothing to update except Waybill itself. The binaries contain the root certificates that they trust.
#
# Each image runs as an ordinary user and needs no file system that it can write to. Only `waybill dev`
# writes, to /data.

FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS="-mod=readonly -buildvcs=false -trimpath -tags=nomsgpack,grpcnotrace,nopgxregisterdefaulttypes"
ARG VERSION=dev
# `go build` downloads only what it compiles. `go mod download` would download everything.
RUN for name in waybill:waybill waybill-api:api waybill-dispatcher:dispatcher waybill-gateway:gateway; do \
      go build -ldflags "-s -w -X main.version=${VERSION}" -o "/out/${name%:*}" "./cmd/${name#*:}" || exit 1; \
    done
# `waybill dev --data /data` writes here, so it belongs to the user of the container.
RUN mkdir /data

FROM scratch AS base
ARG VERSION=dev
LABEL org.opencontainers.image.title="Waybill" \
      org.opencontainers.image.description="Shipment events in, signed callbacks out" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 65532:65532

FROM base AS api
COPY --from=build /out/waybill-api /waybill-api
# The routes that come with Waybill. Mount your own over them.
COPY --from=build /src/config/*.json /config/
EXPOSE 8080 9090
ENTRYPOINT ["/waybill-api"]

FROM base AS dispatcher
COPY --from=build /out/waybill-dispatcher /waybill-dispatcher
EXPOSE 8081 9091
ENTRYPOINT ["/waybill-dispatcher"]

FROM base AS gateway
COPY --from=build /out/waybill-gateway /waybill-gateway
EXPOSE 8082 9092
ENTRYPOINT ["/waybill-gateway"]

FROM base
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build /out/ /
COPY --from=build /src/config/*.json /config/
EXPOSE 8080 8081 8082 9090 9091 9092
ENTRYPOINT ["/waybill"]
