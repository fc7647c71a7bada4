package jsonscan_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
)

// What is made to cost much costs no more than other bodies of its size.
func TestAttacks(t *testing.T) {
	for _, body := range attack.Bodies(1 << 20) {
		t.Run(body.Name, func(t *testing.T) {
			attack.Hold(t, len(body.Text), attack.Allowance{}, func() {
				faults, _ := jsonscan.Check(t.Context(), body.Text, jsonscan.Options{Exact: true})
				bounded(t, faults)
			})
			attack.Hold(t, len(body.Text), attack.Allowance{}, func() { goThrough(body.Text) })
		})
	}
}

func bounded(t *testing.T, faults []jsonscan.Fault) {
	t.Helper()
	if len(faults) > jsonscan.MaxFaults {
		t.Errorf("%d faults", len(faults))
	}
	for _, fault := range faults {
		if len(fault.Pointer) > jsonscan.MaxPointer || fault.Detail == "" {
			t.Errorf("pointer of %d bytes: %s", len(fault.Pointer), fault.Detail)
		}
	}
}

// goThrough reads what may not even be JSON with the reader that checks nothing.
func goThrough(text []byte) (values int) {
	var visit func(v jsonscan.Value, depth int)
	visit = func(v jsonscan.Value, depth int) {
		values++
		v.Text()
		if depth > 3 {
			return
		}
		for name, value := range v.Members() {
			name.Text()
			visit(value, depth+1)
		}
		for value := range v.Elements() {
			visit(value, depth+1)
		}
	}
	visit(text, 0)
	return values
}

func TestPointersAreCut(t *testing.T) {
	t.Parallel()
	at := func(levels, length int) string {
		return strings.Repeat(`{"`+strings.Repeat("é", length/2)+`":`, levels) + `{"a":0,"a":0}` + strings.Repeat("}", levels)
	}
	name := strings.Repeat("é", 50)
	const twice, long = "is given twice", "has a member with a long name, which is given twice"
	for body, want := range map[string]jsonscan.Fault{
		at(2, 100):                      {Pointer: "/" + name + "/" + name + "/a", Detail: twice},
		at(3, 100):                      {Pointer: "/" + name + "/" + name, Detail: long},
		at(1, 130):                      {Detail: long},
		`{"~/":[0,{"a":0,"\u0061":0}]}`: {Pointer: "/~0~1/1/a", Detail: twice},
		`[{"a\"b":0,"a\u0022b":0}]`:     {Pointer: `/0/a"b`, Detail: twice},
		`{"` + strings.Repeat("/", 128) + `":"\u0000"}`: {Detail: "has a member with a long name, which must not have U+0000"},
	} {
		faults, err := jsonscan.Check(t.Context(), []byte(body), jsonscan.Options{})
		if diff := cmp.Diff([]jsonscan.Fault{want}, faults); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
}

// Exactly as many faults as are told are told; of one more, that it is there.
func TestFaultsAreBounded(t *testing.T) {
	t.Parallel()
	for n, last := range map[int]string{99: "must not have U+0000", 100: "must not have U+0000", 101: jsonscan.More, 5000: jsonscan.More} {
		body := `[` + strings.TrimSuffix(strings.Repeat(`"\u0000",`, n), ",") + `]`
		faults, err := jsonscan.Check(t.Context(), []byte(body), jsonscan.Options{})
		if err != nil || len(faults) != min(n, 100) || faults[len(faults)-1].Detail != last {
			t.Errorf("%d faults: %d are told, the last one %v, %v", n, len(faults), faults[len(faults)-1], err)
		}
	}
}

// A name that only begins like another one, or has its text in it, is not that one.
func TestNamesThatAreNotTheSame(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"a":0,"ab":0,"":0,"b":0}`, `{"ab":"x","ab\":\"x":0}`, `{"\u0061b":0,"a":0,"\u0061bc":0}`, `{"\\":0,"\\\\":0,"\"":0}`,
		`{"\ud83d\ude00":0,"\ud83d\ude01":0,"` + "\U0001f602" + `":0}`,
	} {
		if faults, err := jsonscan.Check(t.Context(), []byte(body), jsonscan.Options{}); err != nil || faults != nil {
			t.Errorf("%s: %v, %v", body, faults, err)
		}
	}
	for _, body := range []string{
		`{"\ud83d\ude00":0,"` + "\U0001f600" + `":0}`, `{"` + "\U0001f600" + `":0,"\uD83D\uDE00":0}`, `{"\/":0,"/":0}`, `{"\n":0,"\u000a":0}`, `{"":0,"":0}`,
	} {
		if faults, err := jsonscan.Check(t.Context(), []byte(body), jsonscan.Options{}); err != nil || len(faults) != 1 {
			t.Errorf("%s: %v, %v", body, faults, err)
		}
	}
}

// The work ends with the request.
func TestContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	body := []byte("[" + strings.Repeat("0,", 1<<20) + "0]")
	if _, err := jsonscan.Check(ctx, body, jsonscan.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// The scanner takes and refuses what jsontext does, and sees the same names twice.
func FuzzScan(f *testing.F) {
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(body.Text)
	}
	for _, seed := range []string{
		``, ` `, `{"a":{"a":1,"a":[{}]},"\u0061":"\ud83d\ude00"}`, `[1,-0,0.5e-7,1E+2,true,false,null,"\\\"\/\b\f\n\r\t"]`, `[01]`, `[-]`, `[1.]`, `[.5]`, `[1e]`,
		`"\ud800"`, `"\ud800\u0041"`, `"\udc00"`, `tru`, `nul1`, `{"a"}`, `{"a":}`, `{,}`, `[1,]`, `[1 2]`, `{"a":1 "b":2}`, `{} {}`, `{} x`, "\"\x01\"", "\"\xc3\"", "\ufeff1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<20 {
			return
		}
		var faults []jsonscan.Fault
		var err error
		attack.Hold(t, len(body), attack.Allowance{}, func() {
			faults, err = jsonscan.Check(t.Context(), body, jsonscan.Options{})
			goThrough(body)
		})
		bounded(t, faults)
		agree(t, body, faults, err)
	})
}

// agree compares what Check has found with what jsontext finds.
func agree(t *testing.T, body []byte, faults []jsonscan.Fault, err error) {
	t.Helper()
	said := func(detail string) bool {
		for _, fault := range faults {
			if strings.HasSuffix(fault.Detail, detail) {
				return true
			}
		}
		return false
	}
	if said("levels") || said(jsonscan.More) {
		return // the rest was not read
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	wrong := dec.SkipValue()
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok && syntax.Reason >= jsonscan.Second {
		if wrong != nil {
			t.Fatalf("%q: a value that jsontext refuses: %v", body, wrong)
		}
		return
	}
	if (wrong == nil) != (err == nil) {
		t.Fatalf("%q: %v, and for jsontext %v", body, err, wrong)
	}
	if err == nil && !json.Valid(body) {
		t.Fatalf("%q is not JSON", body)
	}
	if err != nil {
		return
	}
	if strict := jsontext.Value(body).IsValid(); strict == said("is given twice") {
		t.Fatalf("%q: %v, and for jsontext it is valid: %t", body, faults, strict)
	}
}

func BenchmarkCheck(b *testing.B) {
	body := []byte(`{"a":[1,2.5,"text",{"b":null}],"c":` + strings.Repeat(`{"name":"value","n":[true,false],"d":`, 20) + `0` + strings.Repeat("}", 20) + `}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jsonscan.Check(b.Context(), body, jsonscan.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
