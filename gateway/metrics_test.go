package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/troupehq/troupe/bus"
	"github.com/troupehq/troupe/gateway"
	"github.com/troupehq/troupe/host"
)

// TestMetricsAreFew: however many services somebody names, there are only so many metrics; and no stale ones while the
// server does not answer.
func TestMetricsAreFew(t *testing.T) {
	t.Parallel()
	var fleet gateway.Fleet
	for i := range 500 {
		fleet.Services = append(fleet.Services, bus.Service{Kind: "tool", Name: fmt.Sprint("name", i), Waiting: 1, Served: i == 499})
	}
	for _, fails := range []error{nil, errors.New("no server")} {
		registry := prometheus.NewRegistry()
		m := gateway.NewMetrics(func() host.Stats { return host.Stats{} }, func(context.Context) (gateway.Fleet, error) { return fleet, fails })
		if err := registry.Register(m); err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		services, waiting, up, served := 0, 0.0, -1.0, false
		for _, f := range families {
			for _, one := range f.GetMetric() {
				switch f.GetName() {
				case "troupe_work_waiting":
					services++
					waiting += one.GetGauge().GetValue()
					for _, l := range one.GetLabel() {
						served = served || l.GetValue() == "name499"
					}
				case "troupe_fleet_up":
					up = one.GetGauge().GetValue()
				}
			}
		}
		if fails != nil && (services != 0 || up != 0) {
			t.Errorf("without a server %d services are told of, and fleet_up is %g", services, up)
		}
		if fails == nil && (services != 65 || waiting != 500 || up != 1 || !served) {
			t.Errorf("%d services with %g jobs are told of, the one that is served among them: %v; want 65 with all 500", services, waiting, served)
		}
	}
}
