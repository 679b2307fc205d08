package bytepool_test

import (
	"errors"
	"strings"
	"testing"

	"modelgate/internal/base/bytepool"
)

const (
	kb = 1 << 10
	mb = 1 << 20
)

// fill gets buffers of a size until an error, which it returns with the number of bytes.
func fill(t *testing.T, pool *bytepool.Pool, share *bytepool.Share, size int) (held int, err error) {
	t.Helper()
	for {
		b, err := pool.GetShare(size, share)
		if err != nil {
			return held, err
		}
		t.Cleanup(b.Release)
		held += size
	}
}

func TestSharesLeaveRoomForOthers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		share func(p *bytepool.Pool) *bytepool.Share
		size  int
		held  int
		want  error
	}{
		{"the pool, large bodies", func(*bytepool.Pool) *bytepool.Share { return nil }, mb, 56 * mb, bytepool.ErrBudget},
		{"the pool, small bodies", func(*bytepool.Pool) *bytepool.Share { return nil }, 64 * kb, 64 * mb, bytepool.ErrBudget},
		{"an organisation, large bodies", func(p *bytepool.Pool) *bytepool.Share { return p.Organisation("o") }, mb, 42 * mb, bytepool.ErrOrganisation},
		{"an organisation, small bodies", func(p *bytepool.Pool) *bytepool.Share { return p.Organisation("o") }, 64 * kb, 48 * mb, bytepool.ErrOrganisation},
		{"a key, large bodies", func(p *bytepool.Pool) *bytepool.Share { return p.Key("o") }, mb, 28 * mb, bytepool.ErrKey},
		{"a key, small bodies", func(p *bytepool.Pool) *bytepool.Share { return p.Key("o") }, 64 * kb, 32 * mb, bytepool.ErrKey},
		{"requests without a key", func(p *bytepool.Pool) *bytepool.Share { return p.Keyless() }, 64 * kb, 4 * mb, bytepool.ErrKeyless},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := bytepool.New(64 * mb)
			held, err := fill(t, pool, tt.share(pool), tt.size)
			if held != tt.held || !errors.Is(err, tt.want) || !bytepool.IsFull(err) {
				t.Errorf("held %d KB, then %v; want %d KB and %v", held/kb, err, tt.held/kb, tt.want)
			}
			if used := pool.Used(); used != int64(tt.held) {
				t.Errorf("%d bytes are counted, want %d", used, tt.held)
			}
		})
	}
}

// All keys of an organisation have its share together, and another organisation what is
// left.
func TestKeysShareThePartOfTheirOrganisation(t *testing.T) {
	pool := bytepool.New(64 * mb)
	fill(t, pool, pool.Key("o"), mb)
	if held, err := fill(t, pool, pool.Key("o"), mb); held != 14*mb || !errors.Is(err, bytepool.ErrOrganisation) {
		t.Errorf("a second key holds %d MB, then %v; want 14 and ErrOrganisation", held/mb, err)
	}
	if held, err := fill(t, pool, pool.Key("o"), 64*kb); held != 6*mb || !errors.Is(err, bytepool.ErrOrganisation) {
		t.Errorf("small bodies of a third key hold %d MB, then %v; want 6 and ErrOrganisation", held/mb, err)
	}
	if held, err := fill(t, pool, pool.Key("other"), mb); held != 8*mb || !errors.Is(err, bytepool.ErrBudget) {
		t.Errorf("another organisation holds %d MB, then %v; want 8 and ErrBudget", held/mb, err)
	}
	if held, err := fill(t, pool, pool.Key("third"), 64*kb); held != 8*mb || !errors.Is(err, bytepool.ErrBudget) {
		t.Errorf("small bodies of a third organisation hold %d MB, then %v; want 8 and ErrBudget", held/mb, err)
	}
	if first, second := pool.Organisation("o"), pool.Organisation("o"); first != second {
		t.Error("an organisation has two shares")
	}
}

// What is added to a buffer counts against its share, and against the limit of large
// bodies once it is one.
func TestReservedBytesCountAgainstTheShare(t *testing.T) {
	pool := bytepool.New(64 * mb)
	key := pool.Key("o")
	b, err := pool.GetShare(4*kb, key)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; err == nil; n++ {
		err = b.Reserve(64 * kb)
	}
	if held := pool.Used(); held > 28*mb || held < 28*mb-64*kb || !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("a buffer holds %d KB in %d pieces, then %v; want 28 MB and ErrKey", held/kb, n, err)
	}
	if err := key.Check(64 * kb); err != nil {
		t.Errorf("a small body: %v", err)
	}
	if err := key.Check(mb); !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("a large body: %v, want ErrKey", err)
	}
	b.Release()
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
	if err := key.Check(20 * mb); err != nil {
		t.Errorf("after the release: %v", err)
	}
}

func TestGrowingBodiesCountAgainstTheShare(t *testing.T) {
	pool := bytepool.New(8 * mb)
	key := pool.Key("o")
	if _, err := pool.ReadShare(strings.NewReader(strings.Repeat("x", 4*mb)), -1, 16*mb, key); !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("reading a body: %v, want ErrKey", err)
	}
	b, err := pool.GetShare(mb, key)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = b.Append(make([]byte, 3*mb)); !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("appending: %v, want ErrKey", err)
	}
	b.Release()
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are still counted", used)
	}
}

// Work that no request waits for leaves the reserve to small bodies, however small its pieces are.
func TestWorkBehindRequestsLeavesTheReserve(t *testing.T) {
	pool := bytepool.New(64 * mb)
	key := pool.Key("o")
	var releases []func()
	release, err := key.HoldBehind(kb)
	for err == nil {
		releases = append(releases, release)
		release, err = key.HoldBehind(kb)
	}
	if held := pool.Used(); held != 28*mb || !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("%d KB are held, then %v; want 28 MB and ErrKey", held/kb, err)
	}
	if _, err = key.Hold(mb); !errors.Is(err, bytepool.ErrKey) {
		t.Errorf("holding as much as a large body: %v, want ErrKey", err)
	}
	if release, err = key.Hold(kb); err != nil {
		t.Errorf("holding a little for a request: %v", err)
	} else {
		release()
	}
	if held, _ := fill(t, pool, key, 64*kb); held != 4*mb {
		t.Errorf("small bodies get %d KB, want 4 MB", held/kb)
	}
	for _, release := range releases {
		release()
	}
	if used := pool.Used(); used != 4*mb {
		t.Errorf("%d bytes are counted after the release, want 4 MB", used)
	}
	var none *bytepool.Share
	if release, err := none.Hold(1 << 40); err != nil {
		t.Errorf("holding without a share: %v", err)
	} else {
		release()
	}
}

func TestPoolsWithoutALimitHaveSharesWithout(t *testing.T) {
	pool := bytepool.New(0)
	for _, share := range []*bytepool.Share{nil, pool.Organisation("o"), pool.Key("o"), pool.Keyless()} {
		if err := share.Check(1 << 40); err != nil {
			t.Errorf("Check = %v", err)
		}
		b, err := pool.GetShare(mb, share)
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
}
