package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"slices"
	"time"

	"modelgate/internal/limits/quota"
)

// LoopHolder is the kind of holder of the limits that detect loops of tool calls.
const LoopHolder = "loop"

// loopWindow is the window in which equal tool calls of a session are counted.
const loopWindow = time.Hour

// CallDigest identifies a call of a tool: its server, its name and its arguments, whatever
// their spelling as JSON.
func CallDigest(server, tool string, arguments []byte) string {
	h := sha256.New()
	for _, part := range [...][]byte{[]byte(server), []byte(tool), canonical(arguments)} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// appendLoops appends a limit for each policy that detects loops and applies to the tool
// call of a session. It counts the calls that equal this one. Clients choose arguments, so
// the number of counters of a policy is bounded like that of its groups; calls beyond the
// bound are not counted.
func (s *Set) appendLoops(dst []*quota.Limit, f *Facts) []*quota.Limit {
	session := f.Metadata[SessionField]
	if !f.Tools || f.Call == "" || session == "" {
		return dst
	}
	s.govern.each(f, func(c *compiled, f *Facts) {
		var room [maxValueKey * 2]byte
		key, ok := c.appliesTo(room[:0], f)
		if !ok || c.policy.Loop.SameCalls == 0 {
			return
		}
		sum := sha256.Sum256(append(append(key, 0), session...))
		name := counterPrefix + c.policy.ID + "/" + LoopHolder + "/" + hex.EncodeToString(sum[:16]) + "/" + f.Call
		if same := func(l *quota.Limit) bool { return l.Counter == name }; slices.ContainsFunc(dst, same) || !c.admitCall(name, f.Time) {
			return
		}
		dst = append(dst, &quota.Limit{Counter: name, Max: int64(c.policy.Loop.SameCalls) - 1, Window: loopWindow, PerAttempt: true,
			Holder: quota.Holder{Kind: LoopHolder, ID: c.policy.ID, Name: c.policy.Name}, Down: c.policy.Down})
	})
	return dst
}

// admitCall reports whether a call has a counter in the window of now, and adds it if there is
// room for it.
func (c *compiled) admitCall(name string, now time.Time) bool {
	window := now.Truncate(loopWindow).UTC().Format(time.RFC3339)
	g := c.calls.Load()
	for g == nil || g.period < window {
		next := &groups{period: window, keys: make(map[uint64]struct{})}
		if c.calls.CompareAndSwap(g, next) {
			g = next
			break
		}
		g = c.calls.Load()
	}
	hash := maphash.String(seed, name)
	known, size := g.find(hash)
	if !known && size < maxNewGroups {
		g.add(hash)
		return true
	}
	return known
}

// LoopError returns the error for a tool call that was made too often. The limit is one of
// [Set.Match] whose holder is a loop.
func LoopError(l *quota.Limit, tool string) error {
	return loopError("the tool %q was called %d times with the same arguments in this session, and policy %q allows fewer than %d within an hour; use the result you have, call it with other arguments, or ask the user",
		truncatedName(tool), l.Max, holderName(l.Holder), l.Max+1)
}

func truncatedName(name string) string { return name[:min(len(name), maxCallName)] }
