package verb

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

const domainsPath = accountPath + "/custom-domains"

func customDomains() Noun {
	view := View{None: "There are no custom domains.", Columns: append([]Column{
		{Title: "HOSTNAME", Member: "hostname"}, {Title: "STATUS", Member: "status"}, {Title: "CERTIFICATE", Member: "certificate.status"},
		{Title: "ENDS", Member: "certificate.validTo", Form: Moment, Spare: true},
	}, made()...), Tell: tellDomain}
	host := []Arg{{Word: "HOSTNAME", To: "hostname", List: domainsPath, ID: "hostname"}}
	deployment := Flag{Name: "deployment", Usage: "`name` of the deployment that it leads to", To: "deploymentName"}
	main := Flag{Name: "default", Usage: "make it the main hostname of its deployment", Kind: Bool, To: "isDefault"}
	must := deployment
	must.Required = true
	return Noun{
		Name: "domains", Short: "Give deployments hostnames of your own",
		Long: "A custom domain is a hostname of yours that leads to a deployment. A TXT record\nshows that it is yours, and a CNAME record leads clients to the gateway.",
		Verbs: []Verb{
			{
				Name: "list", Short: "List custom domains", Example: "  waybill domains list -o json",
				Method: http.MethodGet, Path: domainsPath, Flags: paging(), Show: view,
			},
			{
				Name: "create", Short: "Add a custom domain", Example: "  waybill domains create api.example.com --deployment shop-main-abcdefghij",
				Long:   "Adds a hostname and prints the DNS records that it needs.",
				Method: http.MethodPost, Path: domainsPath, Args: []Arg{{Word: "HOSTNAME", To: "hostname"}}, Flags: []Flag{deployment, main}, Body: AnObject, Show: view,
			},
			{
				Name: "update", Short: "Lead a custom domain to another deployment", Example: "  waybill domains update api.example.com --deployment shop-next-klmnopqrst",
				Long:   "All traffic of the hostname moves at once.",
				Method: http.MethodPatch, Path: domainsPath, Args: host, Flags: []Flag{must, main}, Body: AnObject, Show: view,
			},
			{
				Name: "verify", Short: "Look in DNS now whose a custom domain is", Example: "  waybill domains verify api.example.com",
				Method: http.MethodPost, Path: domainsPath + "/verify", Args: host, Body: AnObject, Show: view,
			},
			{
				Name: "delete", Short: "Remove a custom domain", Example: "  waybill domains delete api.example.com",
				Method: http.MethodDelete, Path: domainsPath + "?hostname={hostname}", Args: host, Done: "The custom domain {hostname} is removed.",
				Confirm: "Remove the custom domain {hostname}? It is answered with 404 from now on.",
			},
			{
				Name: "certificate", Short: "Give a custom domain a certificate that you have", Example: "  waybill domains certificate api.example.com chain.pem key.pem",
				Long:   "Uploads a certificate, those between it and its authority, and its private key,\nall in PEM. It takes the place of any other certificate of the hostname.",
				Method: http.MethodPut, Path: domainsPath + "/certificate", Args: append(host[:1:1], Arg{Word: "CHAIN", To: "certificate", File: true}, Arg{Word: "KEY", To: "privateKey", File: true}),
				Show:   View{Columns: []Column{{Title: "SUBJECT", Member: "subject"}, {Title: "ISSUER", Member: "issuer"}, {Title: "FROM", Member: "validFrom"}, {Title: "TO", Member: "validTo"}, {Title: "SERIAL", Member: "serialNumber"}}},
				Adjust: certificateFiles,
			},
			{
				Name: "delete-certificate", Short: "Take the uploaded certificate of a custom domain away", Example: "  waybill domains delete-certificate api.example.com",
				Method: http.MethodDelete, Path: domainsPath + "/certificate", Args: host, Body: AnObject, Done: "The uploaded certificate of {hostname} is gone.",
				Confirm: "Take the uploaded certificate of {hostname} away?",
			},
		},
	}
}

// certificateFiles puts the contents of the files into the body.
func certificateFiles(r *Request, in *Input) error {
	chain, err := in.Read(in.Args[1])
	if err != nil {
		return err
	}
	key, err := in.Read(in.Args[2])
	if err != nil {
		return err
	}
	r.Body, err = json.Marshal(map[string]string{"hostname": in.Args[0], "certificate": string(chain), "privateKey": string(key)})
	return err
}

// tellDomain writes the state of a custom domain, and what is missing.
func tellDomain(w io.Writer, thing map[string]any, _ int) {
	say := func(name string) string { return Column{Member: name}.text(thing) }
	fmt.Fprintf(w, "%s is %s. ", say("hostname"), say("status"))
	if say("deploymentName") == "-" {
		fmt.Fprintln(w, "It leads to no deployment.")
	} else {
		fmt.Fprintf(w, "It leads to %s.\n", say("deploymentName"))
	}
	errors, _ := thing["errors"].([]any)
	for _, one := range errors {
		fmt.Fprintln(w, Column{Member: "x"}.text(members{"x": one}))
	}
	if say("status") != "active" {
		fmt.Fprintf(w, "\nSet this record, by which Waybill sees that the hostname is yours:\n  %s  %s  %s\n", say("ownershipVerification.name"), say("ownershipVerification.type"), say("ownershipVerification.value"))
	}
	if say("cname") != "-" {
		fmt.Fprintf(w, "\nThis record leads clients to the gateway:\n  %s  CNAME  %s\n", say("hostname"), say("cname"))
	}
	fmt.Fprintf(w, "\nCertificate: %s", say("certificate.status"))
	if say("certificate.validTo") != "-" {
		fmt.Fprintf(w, ", until %s", say("certificate.validTo"))
	}
	if say("certificate.error") != "-" {
		fmt.Fprintf(w, ". %s", say("certificate.error"))
	}
	fmt.Fprintln(w)
}
