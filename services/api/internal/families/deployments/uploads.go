package deployments

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/deployments"
)

// Bounds of the names in a request; longer names can't exist.
const (
	maxAccount = 64
	maxProject = 100
	maxBranch  = 100
	maxID      = 64
)

// Media types of archives.
const (
	mediaZip  = "application/zip"
	mediaGzip = "application/gzip"
)

// createSource starts an upload. A body that is an archive is the upload itself.
func (h *handlers) createSource(c *web.Call) error {
	if err := h.uploads.take(uploadOf{c.Principal.Account, started}, time.Now()); err != nil {
		return err
	}
	if c.Media() == mediaZip || c.Media() == mediaGzip {
		return h.upload(c)
	}
	f := c.Form()
	f.Require("accountName", "projectName", "branchName")
	var t deployments.Target
	t.Account, _ = f.Text("accountName", 1, maxAccount)
	t.Project, _ = f.Text("projectName", 1, maxProject)
	if branch, ok := f.Text("branchName", 1, maxBranch); ok {
		if t.Branch = branch; domain.CheckBranch(branch) != nil {
			f.Fault(domain.ErrBranch.Error(), "branchName")
		}
	}
	if err := c.Check(); err != nil {
		return err
	}
	if err := c.Of(t.Account); err != nil {
		return err
	}
	source, err := h.Sources.CreateSource(c.Context(), t)
	if err != nil {
		return refused(err)
	}
	return c.Created(web.PathIn(t.Account, "projects", t.Project, "deployment-status", source.ID), struct {
		UploadURL      string `json:"uploadUrl"`
		StatusID       string `json:"statusId"`
		DeploymentName string `json:"deploymentName"`
	}{c.WholeLink(h.sign(source.ID, time.Now().Add(domain.UploadTime))), source.ID, source.Deployment})
}

// upload takes an archive in one step.
func (h *handlers) upload(c *web.Call) error {
	if err := h.uploads.take(uploadOf{c.Principal.Account, archived}, time.Now()); err != nil {
		return err
	}
	q := c.Query()
	t := deployments.Target{}
	for name, into := range map[string]*string{"accountName": &t.Account, "projectName": &t.Project, "branchName": &t.Branch} {
		text, ok := q.Text(name)
		if *into = text; !ok || text == "" {
			q.Fault(name, "is required")
		}
	}
	if t.Branch != "" && domain.CheckBranch(t.Branch) != nil {
		q.Fault("branchName", domain.ErrBranch.Error())
	}
	if q.Err() == nil {
		if err := c.Of(t.Account); err != nil {
			c.Refuse(err)
		}
	}
	archive, err := readArchive(c)
	if err != nil {
		return err
	}
	build, err := h.Sources.Upload(c.Context(), t, archive, formatOf(archive))
	if err != nil {
		return refused(err)
	}
	h.Changed()
	return c.Answer(http.StatusAccepted, Uploaded{StatusID: build.StatusID, BuildID: build.ID, DeploymentName: build.Deployment, URL: h.url(build.Deployment)})
}

// putArchive takes the archive of an upload that createSource has started, from any caller that has
// its URL.
func (h *handlers) putArchive(c *web.Call) error {
	id, q := c.Param("sourceId"), c.Query()
	expires, _ := q.Text("expires")
	signature, _ := q.Text("signature")
	if c.Check() != nil {
		return errAltered
	}
	if err := h.verify(id, expires, signature, time.Now()); err != nil {
		return err
	}
	source, err := h.Sources.GetSource(c.Context(), id)
	if err != nil {
		return err
	}
	if source.Uploaded {
		return errUsed
	}
	if err := h.uploads.take(uploadOf{source.Account, archived}, time.Now()); err != nil {
		return err
	}
	archive, err := readArchive(c)
	if err != nil {
		return err
	}
	build, err := h.Sources.PutArchive(c.Context(), id, archive, formatOf(archive))
	if err != nil {
		if errors.Is(err, domain.ErrConflict) {
			if now, found := h.Sources.GetSource(c.Context(), id); found == nil && now.Uploaded {
				return errUsed
			}
		}
		return refused(err)
	}
	h.Changed()
	return c.Answer(http.StatusAccepted, Uploaded{StatusID: build.StatusID, BuildID: build.ID, DeploymentName: build.Deployment, URL: h.url(build.Deployment)})
}

// readArchive reads a body that is an archive, and checks the whole request. Faults inside the archive
// are found by the build.
func readArchive(c *web.Call) ([]byte, error) {
	archive := c.Bytes(domain.MaxArchive)
	if err := c.Check(); err != nil {
		return nil, err
	}
	if len(archive) == 0 {
		return nil, problem.Invalid(problem.Fault{Detail: "must be an archive of route files, zip or tar.gz"})
	}
	return archive, nil
}

// formatOf recognises the format of an archive by its first bytes. The build reports an unknown
// format.
func formatOf(archive []byte) domain.ArchiveFormat {
	if bytes.HasPrefix(archive, []byte("PK")) {
		return domain.ArchiveZip
	}
	return domain.ArchiveTarGz
}

var (
	errAltered = problem.New(problem.Forbidden, "The URL is not one that an upload was started with.")
	errLate    = problem.New(problem.Forbidden, "The URL has expired. Start the upload again.")
	errUsed    = problem.New(problem.Conflict, "The archive was uploaded already. Each upload has a URL of its own.")
)

// refused turns an error into the problem of a refused upload.
func refused(err error) error {
	if errors.Is(err, domain.ErrConflict) {
		return web.Conflict("The deployment's name stands for another project or branch already.")
	}
	return limited(missing(err, "project"))
}

// limited turns an error into the problem for the limit that was reached.
func limited(err error) error {
	if full, ok := errors.AsType[*deployments.SourcesError](err); ok {
		return web.Conflict(fmt.Sprintf("The account would keep %.1f MiB of route archives with this one, of %.1f MiB at most (WAYBILL_SOURCES_BYTES). "+
			"Each deployment keeps those of its %d newest builds. Delete a deployment, or upload smaller archives.", mebibytes(full.Kept), mebibytes(full.Limit), domain.KeptBuilds))
	}
	switch {
	case errors.Is(err, deployments.ErrNoArchive):
		return web.Conflict("The archive of this build is not kept any more, because the build failed. Upload it again.")
	case errors.Is(err, deployments.ErrBuilds):
		return web.Conflict("Too many builds of the account wait already. Try again when some have ended.")
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict("The account has as many deployments as it may have. Delete one first.")
	}
	return err
}

func mebibytes(size int64) float64 { return float64(size) / (1 << 20) }

func isMissing(err error) bool { return errors.Is(err, domain.ErrNotFound) }

// missing names the kind of thing that was not found, if it is not the last part of the path.
func missing(err error, kind string) error {
	if isMissing(err) {
		return problem.New(problem.NotFound, "There is no such "+kind+".")
	}
	return err
}
