package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"modelgate/internal/limits/quota"
)

const (
	// maxValueKey is the length in bytes from which a value key is cut and hashed.
	maxValueKey = 200
	keptOfKey   = 120 // bytes of a value key that is hashed

	// rotation is how long value keys are remembered after their last use, at least.
	rotation = time.Hour
)

// appendValueKey appends the value key of a request, for example
// metadata._user:alice|model:gpt-4o, and returns false if the request lacks a key of
// group_by. Percent signs and bars in values are escaped, so that different values
// have different keys.
func appendValueKey(dst []byte, group []key, f *Facts) ([]byte, bool) {
	for i, k := range group {
		v := f.value(k)
		if v == "" {
			return dst, false
		}
		if k.name == KeyModel {
			v = f.undated(v)
		}
		if i > 0 {
			dst = append(dst, '|')
		}
		dst = append(dst, k.name...)
		dst = append(dst, ':')
		for j := 0; j < len(v); j++ {
			switch c := v[j]; {
			case c == '%' || c == '|' || c < ' ' || c == 0x7f:
				dst = append(dst, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			default:
				dst = append(dst, c)
			}
		}
	}
	if len(dst) > maxValueKey || !utf8.Valid(dst) {
		sum := sha256.Sum256(dst)
		kept := min(keptOfKey, len(dst))
		for kept > 0 && !utf8.Valid(dst[:kept]) {
			kept--
		}
		dst = append(dst[:kept], "%~"...) // no escape, and so no value, is the same
		dst = hex.AppendEncode(dst, sum[:])
	}
	return dst, true
}

// values holds the limits of a policy by value key, for one hour of one period, or for the
// part of an hour that is in the period.
type values struct {
	from, until time.Time
	label       string // of the period
	resets      time.Time
	shards      [8]valueShard
	period      string                 // of [groups]: the label, or the window of a rate limit
	began       atomic.Int64           // groups that are new in this hour
	before      atomic.Pointer[values] // of the previous hour; nil for none
}

type valueShard struct {
	mu     sync.RWMutex
	limits map[string]*valueLimit
}

// valueLimit is the limit of a value key.
type valueLimit struct {
	quota.Limit
	// start is the start of the session that the value key names, once another request
	// than the first has found it in its counter. It does not change.
	start atomic.Pointer[sessionStart]
}

// sessionStart is the start of a session as a counter holds it.
type sessionStart struct {
	began int64     // unix time
	until time.Time // end of the counter
}

// counterPrefix begins the names of the counters of policies.
const counterPrefix = "policy/"

var seed = maphash.MakeSeed()

func (v *values) shard(key []byte) *valueShard {
	return &v.shards[maphash.Bytes(seed, key)%uint64(len(v.shards))]
}

func (v *values) find(key []byte) *valueLimit {
	s := v.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.limits[string(key)]
}

// add adds l unless the key has a limit, and returns the limit of the key.
func (v *values) add(key []byte, l *valueLimit) *valueLimit {
	s := v.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.limits[string(key)]; old != nil {
		return old
	}
	if s.limits == nil {
		s.limits = make(map[string]*valueLimit)
	}
	s.limits[string(key)] = l
	return l
}

// copyTo adds all limits to dst by value key. Nil has none.
func (v *values) copyTo(dst map[string]*quota.Limit) {
	if v == nil {
		return
	}
	for i := range v.shards {
		s := &v.shards[i]
		s.mu.RLock()
		for key, l := range s.limits {
			dst[key] = &l.Limit
		}
		s.mu.RUnlock()
	}
}

// current returns the values of the hour that contains now.
func (c *compiled) current(now time.Time) *values {
	v := c.values.Load()
	if v != nil && !now.Before(v.from) && now.Before(v.until) {
		return v
	}
	next := &values{from: now.Truncate(rotation)}
	next.until = next.from.Add(rotation)
	next.period = now.Truncate(max(rotation, c.policy.Window)).UTC().Format(time.RFC3339)
	if c.policy.Window == 0 {
		start, end := c.policy.Period.bounds(now.In(c.zone))
		next.label, next.resets = labelOf(start), end
		next.period = next.label
		if start.After(next.from) { // periods begin within hours too
			next.from = start
		}
		if !end.IsZero() && end.Before(next.until) {
			next.until = end
		}
	}
	if v != nil && v.label == next.label && v.until.Equal(next.from) {
		next.before.Store(v)
		v.before.Store(nil)
	}
	c.values.CompareAndSwap(v, next) // else another request did the same
	return c.values.Load()
}

// limit returns the limit of a value key at now.
func (c *compiled) limit(key []byte, now time.Time) *valueLimit {
	v := c.current(now)
	if l := v.find(key); l != nil {
		return l
	}
	if c.clientValues && !c.groupsAt(v).admit(key, v) {
		key = []byte(OverflowKey)
		if l := v.find(key); l != nil {
			return l
		}
	}
	if before := v.before.Load(); before != nil {
		if l := before.find(key); l != nil {
			return v.add(key, l)
		}
	}
	return v.add(key, c.newLimit(string(key), v))
}

// newLimit returns the limit of a value key. Counters of usage limits are named after
// their period and generation, so that they start at zero.
func (c *compiled) newLimit(key string, v *values) *valueLimit {
	p := c.policy
	name := p.ID + "/"
	if p.Window == 0 {
		name += v.label + "/"
	}
	name += strconv.FormatInt(p.Generations[EntityID(key)], 10) + "/" + key
	return &valueLimit{Limit: quota.Limit{
		Counter: counterPrefix + name, Measure: p.Measure, Max: p.Max, Window: p.Window, Resets: v.resets, Final: p.Window == 0,
		Holder: quota.Holder{Kind: c.kind, ID: p.ID, Name: p.Name}, Stop: p.Stop, Down: p.Down, PerAttempt: c.perAttempt,
	}}
}
