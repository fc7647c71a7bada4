package chart_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"waybill.dev/cmd/lab/bench/internal/chart"
)

func TestSVG(t *testing.T) {
	t.Parallel()
	svg := string(chart.Chart{
		Title: "CPU & rate", X: "webhooks",
		Panels: []chart.Panel{
			{Y: "ms", Lines: []chart.Line{
				{Name: "<all>", Points: []chart.Point{{X: 0, Y: 37}, {X: 10, Y: 38}, {X: 100_000, Y: 55.5}}},
				{Name: "api", Points: []chart.Point{{X: 10, Y: 12}}},
			}},
			{Y: "deliveries/s", Lines: []chart.Line{{Name: "rate", Points: []chart.Point{{X: 10, Y: 0}, {X: 100_000, Y: 31_000}}}}},
		},
	}.SVG())
	counts := make(map[string]int)
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if element, ok := token.(xml.StartElement); ok {
			counts[element.Name.Local]++
		}
	}
	if counts["circle"] != 6 || counts["polyline"] != 3 {
		t.Errorf("drew %v", counts)
	}
	for _, want := range []string{"CPU &amp; rate", "&lt;all&gt;", ">100k<", ">10<", ">30k<", ">60<", `cx="70.0"`, `cx="490.0"`} {
		if !strings.Contains(svg, want) {
			t.Errorf("%s is not in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a place is no number in\n%s", svg)
	}
}

func TestSVGOfOnePoint(t *testing.T) {
	t.Parallel()
	svg := string(chart.Chart{Panels: []chart.Panel{{Lines: []chart.Line{{Points: []chart.Point{{X: 0, Y: 0}}}}}}}.SVG())
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Errorf("a place is no number in\n%s", svg)
	}
}
