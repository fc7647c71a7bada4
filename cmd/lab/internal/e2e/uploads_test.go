package e2e_test

import (
	"context"
	"fmt"
	"net/http"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/uploads"
	"waybill.dev/shared/domain"
)

// whileRequestsGoOn is the case that has gateways of its own.
const whileRequestsGoOn = "uploads disturb no request"

// uploaded uploads one release after the other while requests go on, kept connections and new
// ones. None fails, none is answered by two releases, none by one that is out of date.
func uploaded(w *world) {
	d, err := uploads.NewDeployer(w.Context(), client.Access{URL: w.stack.URL, Key: domain.Secret(w.stack.Key)})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(d.Close)
	name := w.deploy(d, 1)
	load := uploads.NewLoad(name+".gateway.localhost", w.stack.GatewayAddresses, 100)
	load.Uploading(1)
	w.await("every gateway serves the first release", patience, func() bool { return load.Serves(w.Context(), 1) })

	end := w.run(load)
	for n := 2; n <= 5; n++ {
		load.Uploading(n)
		w.deploy(d, n)
		load.Released(n, patience)
	}
	w.await("every gateway serves the last release", patience, func() bool { return load.Serves(w.Context(), 5) })
	end()
}

// movingDomain is the case of a domain that moves, which has gateways of its own.
const movingDomain = "a domain moves while requests go on"

// moved leads a domain from one deployment to another while requests go on. None fails, and after
// the other deployment has answered at a gateway, the first one answers none there any more.
func moved(w *world) {
	first, err := uploads.NewDeployer(w.Context(), client.Access{URL: w.stack.URL, Key: domain.Secret(w.stack.Key)})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(first.Close)
	const path = "/v1/accounts/default/custom-domains"
	from, to := w.deploy(first, 1), w.deploy(first.On("other"), 2)
	send := func(method, deployment string) {
		w.Helper()
		a, err := w.api.Ask(w.Context(), method, path, fmt.Appendf(nil, `{"hostname":"shop.example.org","deploymentName":%q}`, deployment), nil)
		if err != nil || a.Status/100 != 2 {
			w.Fatalf("%s %s: %d %s, %v", method, path, a.Status, a.Body, err)
		}
	}
	send(http.MethodPost, from)
	load := uploads.NewLoad("shop.example.org", w.stack.GatewayAddresses, 100)
	load.Uploading(1)
	w.await("every gateway serves the first deployment", patience, func() bool { return load.Serves(w.Context(), 1) })
	end := w.run(load)
	goOn := func() {
		w.Helper()
		after := load.Answered() + 50
		w.await("requests go on", patience, func() bool { return load.Answered() >= after })
	}
	goOn()
	load.Uploading(2)
	send(http.MethodPatch, to)
	load.Released(2, patience)
	w.await("every gateway serves the other deployment", patience, func() bool { return load.Serves(w.Context(), 2) })
	load.Released(2, 0) // from now on
	goOn()
	end()
}

// deploy deploys a release, and returns the name of the deployment.
func (w *world) deploy(d *uploads.Deployer, n int) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	accepted, err := d.Upload(ctx, n, 20)
	if err == nil {
		err = d.Await(ctx, accepted)
	}
	if err != nil {
		w.Fatal(err)
	}
	return accepted.DeploymentName
}

// run has requests go on until end is called, which reports what went wrong with them.
func (w *world) run(load *uploads.Load) (end func()) {
	ctx, stop := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Run(ctx)
	}()
	return func() {
		w.Helper()
		stop()
		<-done
		w.right(load)
	}
}

// right checks that there were requests, and that none went wrong.
func (w *world) right(load *uploads.Load) {
	w.Helper()
	if r := load.Mark(); r.Wrong() != "" || r.Requests == 0 {
		w.Errorf("%s: %+v", r.Wrong(), r)
	}
}
