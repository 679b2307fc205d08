package settings_test

import (
	"strings"
	"testing"
	"time"

	"modelgate/internal/settings"
)

func TestCountersAreChecked(t *testing.T) {
	values := map[string]string{"REDIS": "rediss://:hunter2@redis.internal:6380/1", "PG": "postgres://u:hunter2@db/x", "HTTP": "http://hunter2@redis:6379", "BROKEN": "redis://hunter2:%zz"}
	resolver := settings.SecretResolver{Env: func(name string) (string, bool) { v, ok := values[name]; return v, ok }}
	for _, tt := range []struct{ block, want string }{ // want is part of the error; empty for none
		{"{}", ""},
		{"{store: memory}", ""},
		{"{store: redis, url: '${REDIS}', deadline: 20ms}", ""},
		{"{store: postgres}", ""},
		{"{store: leased, url: '${PG}', deadline: 1s}", ""},
		{"{store: redis}", "limits.counters.url: is required"},
		{"{store: redis, url: 'redis://:hunter2@redis:6379'}", "limits.counters.url: plaintext credentials are not allowed"},
		{"{store: redis, url: '${PG}'}", "limits.counters.url: must be a redis://"},
		{"{store: redis, url: '${HTTP}'}", "limits.counters.url: must be a redis://"},
		{"{store: redis, url: '${BROKEN}'}", "limits.counters.url: must be a redis://"},
		{"{store: redis, url: '${UNSET}'}", "limits.counters.url: the environment variable UNSET is not set"},
		{"{store: postgres, url: '${REDIS}'}", "limits.counters.url: must be a postgres://"},
		{"{url: '${REDIS}'}", "limits.counters.url: is only for the stores"},
		{"{store: memory, url: '${REDIS}'}", "limits.counters.url: is only for the stores"},
		{"{store: memory, deadline: 1s}", "limits.counters.deadline: is only for"},
		{"{store: postgres, deadline: 1m}", "limits.counters.deadline: must be 1ms to 10s"},
		{"{store: postgres, deadline: -1s}", "limits.counters.deadline: must be 1ms to 10s"},
		{"{store: postgres, on_store_down: closed}", ""},
		{"{on_store_down: open}", ""},
		{"{store: memory, on_store_down: open}", "limits.counters.on_store_down: is only for"},
		{"{store: postgres, on_store_down: maybe}", "limits.counters.on_store_down"},
		{"{store: etcd}", "limits.counters.store"},
		{"{stores: redis}", "stores"},
	} {
		s, err := settings.Parse("modelgate.yaml", []byte("limits: {counters: "+tt.block+"}\n"), resolver)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.block, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error has the password: %v", tt.block, err)
		}
		if err == nil && strings.Contains(tt.block, "REDIS") {
			if c := s.Limits.Counters; c.Address().Reveal() != values["REDIS"] || c.Deadline.Or(0) != 20*time.Millisecond {
				t.Errorf("%s was read as %+v", tt.block, c)
			}
		}
	}
}
