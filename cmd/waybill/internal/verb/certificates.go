package verb

import (
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	certificatesPath = accountPath + "/client-mtls-ca-certificates"
	certificatePath  = certificatesPath + "/{certificateId}"
)

// certificates returns the noun of CA certificates, whose clients an account lets in.
func certificates() Noun {
	view := View{None: "There are no CA certificates.", Columns: append([]Column{
		{Title: "ID", Member: "id", Form: Ident}, {Title: "NAME", Member: "name"}, {Title: "SUBJECT", Member: "certificateInfo.subject", Shrinks: true},
		{Title: "ISSUER", Member: "certificateInfo.issuer", Wide: true}, {Title: "ENDS", Member: "certificateInfo.validTo", Form: Moment},
		{Title: "FINGERPRINT", Member: "sha256Fingerprint", Wide: true},
	}, made()...)}
	one := []Arg{{Word: "CERTIFICATE", To: "certificateId", List: certificatesPath, ID: "id"}}
	return Noun{
		Name: "certificates", Short: "Say whose clients are let in by their certificates",
		Long: "Uploads certificates of CAs. Routes with the policy mtls-auth-inbound let in\nclients whose certificate one of these CAs has issued.",
		Verbs: []Verb{
			{Name: "list", Short: "List CA certificates", Example: "  waybill certificates list", Method: http.MethodGet, Path: certificatesPath, Flags: paging(), Show: view},
			{
				Name: "create", Short: "Upload a CA certificate", Example: "  waybill certificates create partners ca.pem",
				Long:   "Uploads one certificate in PEM from a file; -: standard input. Never its private\nkey. A name has letters, digits, _ and $.",
				Method: http.MethodPost, Path: certificatesPath, Args: []Arg{newName("NAME"), {Word: "FILE", To: "file", File: true}}, Show: view, Adjust: withCertificate,
			},
			{Name: "get", Short: "Show a CA certificate", Example: "  waybill certificates get mtlsca_…", Method: http.MethodGet, Path: certificatePath, Args: one, Show: view},
			{
				Name: "update", Short: "Rename a CA certificate", Example: "  waybill certificates update mtlsca_… --name suppliers",
				Method: http.MethodPatch, Path: certificatePath, Args: one, Body: AnObject, Show: view,
				Flags: []Flag{{Name: "name", Usage: "another name", To: "name"}},
			},
			{
				Name: "delete", Short: "Delete a CA certificate", Example: "  waybill certificates delete mtlsca_…",
				Long:   "Clients with certificates of this CA are refused within a second, also on\nconnections that are open.",
				Method: http.MethodDelete, Path: certificatePath, Args: one, Confirm: "Delete CA certificate {certificateId}? Its clients are refused from then on.",
			},
		},
	}
}

func withCertificate(r *Request, in *Input) error {
	text, err := in.Read(in.Args[1])
	if err != nil {
		return err
	}
	if r.Body, err = json.Marshal(map[string]string{"name": in.Args[0], "certificate": string(text)}); err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	return nil
}
