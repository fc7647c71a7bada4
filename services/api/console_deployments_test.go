package api_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// upload posts the form of an upload, with an archive.
func (b *browser) upload(project, branch string, archive []byte) shown {
	b.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, field := range [][2]string{{"projectName", project}, {"branchName", branch}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			b.t.Fatal(err)
		}
	}
	file, err := form.CreateFormFile("archive", "routes.zip")
	if err == nil {
		_, err = file.Write(archive)
	}
	if err == nil {
		err = form.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return b.do(http.MethodPost, "/console/new-deployment", url.Values{}, func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(&body), int64(body.Len())
		r.Header.Set("Content-Type", form.FormDataContentType())
	})
}

// From an upload to the build, and to the end of the deployment, by forms alone.
func TestConsoleDeployments(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	b.get("/console/deployments").want(t, http.StatusOK, "").has(t, "No projects yet", "waybill projects create")
	r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
	b.get("/console/deployments?project=shop").want(t, http.StatusOK, "").has(t, "Nothing is deployed yet")
	b.get("/console/new-deployment?project=shop").want(t, http.StatusOK, "").has(t, `enctype="multipart/form-data"`, `value="main"`)
	b.upload("shop", "feature/x", nil).want(t, http.StatusBadRequest, "").has(t, "Choose a .zip or .tar.gz", `value="feature/x"`)
	b.upload("shop", "feature/x", bytes.Repeat([]byte("PK"), 4<<20+1)).want(t, http.StatusRequestEntityTooLarge, "").has(t, "at most 8 MiB", `value="feature/x"`)
	b.upload("shop", "no branch", []byte("PK\x03\x04")).want(t, http.StatusBadRequest, "").has(t, "branchName")

	sent := b.upload("shop", "feature/x", []byte("PK\x03\x04"))
	build := sent.header.Get("Location")
	found := regexp.MustCompile(`^(/console/deployments/shop-feature-x-[a-z2-7]{10})/builds/[0-9a-f-]{36}$`).FindStringSubmatch(build)
	if sent.status != http.StatusSeeOther || found == nil {
		t.Fatalf("the upload leads to %d %q:\n%.1000s", sent.status, build, sent.body)
	}
	b.get(build).want(t, http.StatusOK, "").has(t, "Build #1", "queued", "Unpack the archive", "data-refresh")
	b.get(found[1]).want(t, http.StatusOK, "").has(t, "feature/x", "preview", "building", build)
	b.get("/console/deployments").want(t, http.StatusOK, "").has(t, found[1], "shop")
	b.get(found[1]+"/delete").want(t, http.StatusOK, "").has(t, "answers 404 from then on", "Delete the deployment")
	b.post(found[1]+"/delete").want(t, http.StatusSeeOther, "/console/deployments")
	b.get(found[1]).want(t, http.StatusNotFound, "")
}

// Variables are set, changed and deleted by forms, and no page shows a secret again.
func TestConsoleVariables(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
	at, secret := "/console/environments/shop/feature%2Fx", "canary-of-a-secret"
	b.get(at).want(t, http.StatusOK, "").has(t, "No variables yet", "New variable", "preview")
	b.post(at, "name", "wrong", "value", secret, "isSecret", "true").want(t, http.StatusBadRequest, "").has(t, "aria-invalid")
	b.post(at, "name", "TOKEN", "value", secret, "isSecret", "true").want(t, http.StatusSeeOther, at)
	b.post(at, "name", "BACKEND_URL", "value", "https://a.example\r\nsecond").want(t, http.StatusSeeOther, at)
	b.post(at, "name", "TOKEN", "value", secret, "isSecret", "true").want(t, http.StatusConflict, "")
	b.post("/console/environments/shop/~preview", "name", "LEVEL", "value", "debug").want(t, http.StatusSeeOther, "/console/environments/shop/~preview")
	page := b.get(at).want(t, http.StatusOK, "").has(t, "TOKEN", "secret, never shown", "https://a.example\nsecond", "From all previews", "LEVEL", "is set")
	edit := b.get(at+"/TOKEN").want(t, http.StatusOK, "").has(t, "What you write replaces it")
	if strings.Contains(page.body+edit.body+r.logs.String(), secret) {
		t.Error("a page or the log has the secret")
	}
	b.post(at+"/BACKEND_URL", "value", "https://b.example").want(t, http.StatusSeeOther, at)
	b.get(at+"/BACKEND_URL").want(t, http.StatusOK, "").has(t, "https://b.example")
	b.get(at+"/TOKEN/delete").want(t, http.StatusOK, "").has(t, "Delete TOKEN?", "can&#39;t be shown again")
	b.post(at+"/TOKEN/delete").want(t, http.StatusSeeOther, at)
	b.get(at+"/TOKEN").want(t, http.StatusNotFound, "")
	b.post("/console/environments/shop", "productionBranch", "feature/x").want(t, http.StatusSeeOther, "/console/environments/shop")
	b.get(at).want(t, http.StatusOK, "").has(t, "production")
}
