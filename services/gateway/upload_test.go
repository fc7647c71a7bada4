package gateway_test

import (
	"archive/zip"
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/deployments"
)

// What is uploaded is built by the gateway, and then served by it.
func TestUpload(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	now := r.db.Moment(r.db.Now())
	if err := r.db.Writing(t.Context()).Exec("INSERT INTO projects (id, account, name, created_at, production_branch) VALUES ('prj_1', 'default', 'shop', ?, 'main')", now).Error; err != nil {
		t.Fatal(err)
	}
	tables := deployments.New(r.db)
	_, err := tables.CreateVariable(t.Context(), domain.Variable{Account: "default", Project: "shop", Branch: "main", Name: "GREETING", Value: "hello"})
	if err != nil {
		t.Fatal(err)
	}
	raw := zipped(t, gatewaytest.Files{"shop/config/a.oas.json": `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/hello":{"get":{"operationId":"hello","x-gateway-route":{
		"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"$env(GREETING) from $env(WAYBILL_BRANCH)"}}}}}}}`})
	r.run()
	build, err := tables.Upload(t.Context(), deployments.Target{Account: "default", Project: "shop", Branch: "main"}, raw, domain.ArchiveZip)
	if err != nil {
		t.Fatal(err)
	}
	r.bus.Announce(bus.SubjectGateway, nil)
	gatewaytest.Within(t, time.Minute, "it is served", func() bool {
		answer := r.ask("GET", build.Deployment+"."+"gateway.localhost", "/hello")
		return answer.Code == http.StatusOK && answer.Body.String() == "hello from main"
	})
}

// zipped packs files.
func zipped(t *testing.T, files gatewaytest.Files) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := zip.NewWriter(&raw)
	for name, content := range files {
		to, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(to, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// The policies of a program hold for what is uploaded, too: for its build, and for what serves it.
func TestUploadWithAPolicyOfAProgram(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *gateway.Options) { o.Policies = stamping(t) })
	if err := r.db.Writing(t.Context()).Exec("INSERT INTO projects (id, account, name, created_at, production_branch) VALUES ('prj_1', 'default', 'shop', ?, 'main')", r.db.Moment(r.db.Now())).Error; err != nil {
		t.Fatal(err)
	}
	r.run()
	build, err := deployments.New(r.db).Upload(t.Context(), deployments.Target{Account: "default", Project: "shop", Branch: "main"}, zipped(t, stampedFiles(`{"text":"blue"}`)), domain.ArchiveZip)
	if err != nil {
		t.Fatal(err)
	}
	r.bus.Announce(bus.SubjectGateway, nil)
	gatewaytest.Within(t, time.Minute, "it is served", func() bool {
		answer := r.ask("GET", build.Deployment+".gateway.localhost", "/a")
		return answer.Code == http.StatusOK && answer.Header().Get("X-Stamp") == "blue"
	})
}
