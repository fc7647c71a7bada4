# One image with Waybill's four binaries: /waybill (all in one, and the commands),
# /waybill-api, /waybill-dispatcher and /waybill-gateway. They are static binaries on an empty
# base: no shell, no packages, nothing to update except Waybill itself. The binaries contain the root
# certificates that they trust.

FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
ARG VERSION=dev
# `go build` downloads only what it compiles. `go mod download` would download everything.
RUN for name in waybill:waybill waybill-api:api waybill-dispatcher:dispatcher waybill-gateway:gateway; do \
      go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o "/out/${name%:*}" "./cmd/${name#*:}" || exit 1; \
    done
# `waybill dev --data /data` writes here, so it belongs to the user of the container.
RUN mkdir /data

FROM scratch
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build /out/ /
# The routes that come with Waybill. Mount your own over them.
COPY --from=build /src/config/ /config/
USER 65532:65532
EXPOSE 8080 8081 8082 9090 9091 9092
ENTRYPOINT ["/waybill"]
