package server

import (
	"time"

	"modelgate/internal/base/bytepool"
	"modelgate/internal/pipeline/attempt"
	"modelgate/internal/pipeline/exchange"
	"modelgate/internal/provider/auth"
	"modelgate/internal/settings"
	"modelgate/internal/upstream"
)

// newEngine returns the engine without its ledger and counters.
func (s *Server) newEngine(set *settings.Settings) *attempt.Engine {
	t := set.Timeouts
	client := upstream.New(s.upstreamOptions(set))
	return &attempt.Engine{
		Client: client,
		Codecs: codecs(),
		Signer: auth.New(auth.Options{Client: client, ReadListed: func(name string) ([]byte, error) { return s.references.ReadListed(name) }}),
		Bounds: exchange.Bounds{
			Pool:        bytepool.New(set.Limits.BodyMemory.Or(1 << 30)),
			MaxAttempts: set.Limits.Attempts,
			MaxEvent:    int(set.Limits.Event.Or(16 << 20)),
			MaxDecoded:  set.Limits.Decoded.Or(64 << 20),
		},
		Limits: upstream.Timeouts{
			Header:     t.Header.Or(10 * time.Minute),
			FirstEvent: t.FirstToken.Or(5 * time.Minute),
			Idle:       t.Idle.Or(2 * time.Minute),
			Total:      t.Total.Or(0),
		},
		HeadDelay: t.KeepAlive.Or(15 * time.Second),
		UserAgent: "modelgate/" + s.Version,
	}
}
