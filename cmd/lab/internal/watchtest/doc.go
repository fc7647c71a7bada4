// Package watchtest holds what operators watch, deploy/prometheus and deploy/grafana, to a running
// Waybill: a real Prometheus scrapes it, evaluates the rules and answers every panel.
package watchtest
