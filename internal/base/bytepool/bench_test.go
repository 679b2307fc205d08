package bytepool_test

import (
	"testing"

	"modelgate/internal/base/bytepool"
)

func BenchmarkGet(b *testing.B) {
	pool := bytepool.New(1 << 30)
	for name, share := range map[string]*bytepool.Share{"pool": nil, "key": pool.Key("o")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					buf, err := pool.GetShare(4000, share)
					if err != nil {
						b.Error(err)
						return
					}
					buf.Release()
				}
			})
		})
	}
}
