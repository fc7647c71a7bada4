package e2e_test

import (
	"context"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/uploads"
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
	name := ""
	deploy := func(n int) {
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
		name = accepted.DeploymentName
	}
	deploy(1)
	load := uploads.NewLoad(name+".gateway.localhost", w.stack.GatewayAddresses, 100)
	load.Uploading(1)
	w.await("every gateway serves the first release", patience, func() bool { return load.Serves(w.Context(), 1) })

	ctx, stop := context.WithCancel(w.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Run(ctx)
	}()
	for n := 2; n <= 5; n++ {
		load.Uploading(n)
		deploy(n)
		load.Released(n, patience)
	}
	w.await("every gateway serves the last release", patience, func() bool { return load.Serves(w.Context(), 5) })
	stop()
	<-done
	if r := load.Mark(); r.Wrong() != "" || r.Requests == 0 {
		w.Errorf("%s: %+v", r.Wrong(), r)
	}
}
