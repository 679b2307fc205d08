package server

import "testing"

func TestAReloadLeavesTheGaugesThatAreServed(t *testing.T) {
	t.Parallel()
	m := newMetrics(new(Server))
	database, taken := m.database, m.taken
	m.reloaded(nil)
	if m.database != database || m.taken != taken {
		t.Error("after a reload other gauges are set than those that are registered")
	}
}
