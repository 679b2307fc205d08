package quotatest

import "testing"

func TestRedisLeavesATakenPort(t *testing.T) {
	first := NewRedis(t)
	second := &Redis{program: first.program}
	t.Cleanup(second.Kill)
	ports := []int{first.Port, freePort(t)}
	err := second.startOn(func() (port int) {
		port, ports = ports[0], ports[1:]
		return port
	})
	if err != nil || second.Port == first.Port {
		t.Errorf("a server whose port another one has is at %d, %v, want another port than %d", second.Port, err, first.Port)
	}
}
