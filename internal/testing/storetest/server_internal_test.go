package storetest

import "testing"

func TestServerLeavesATakenPort(t *testing.T) {
	first := NewServer(t)
	second, err := prepare(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		second.Stop()
		second.reaper.Close()
	})
	second.Port = first.Port
	if err := second.start(); err != nil {
		t.Fatal(err)
	}
	if second.Port == first.Port {
		t.Error("a server whose port another one has is ready there")
	}
}
