# One image with Waybill's three binaries: /waybill (all in one, and the CLI),
# /waybill-api and /waybill-dispatcher. Static binaries on an empty base: no shell, no
# packages, nothing to update but Waybill itself.

FROM golang:1.26.8 AS build
WORKDIR /src
# The dependencies first: they change seldom, and this layer is kept while they don't.
COPY go.work go.work.sum ./
COPY cmd/go.mod cmd/go.sum cmd/
COPY services/api/go.mod services/api/go.sum services/api/
COPY services/dispatcher/go.mod services/dispatcher/go.sum services/dispatcher/
COPY shared/go.mod shared/go.sum shared/
RUN go mod download
COPY . .
ARG VERSION=dev
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/waybill ./cmd/waybill
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/waybill-api ./cmd/api
RUN go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/waybill-dispatcher ./cmd/dispatcher
# What `waybill dev --data /data` writes to belongs to the user that it runs as.
RUN mkdir /data

FROM scratch
# The binaries bring the root certificates that they trust.
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build /out/ /
USER 65532:65532
EXPOSE 8080 8081 9090 9091
ENTRYPOINT ["/waybill"]
