package reqlog

import "modelgate/internal/format/jsonedit"

// LimitUse is what an attempt reserved and used of a limit, or its refusal. It
// holds nothing that a client chose.
type LimitUse struct {
	Attempt int    // number of the attempt, from 1; 0 before the first
	Holder  string // kind of what has the limit: key, workspace, provider, …
	ID      string // of the holder
	Measure string // requests, tokens or cost
	Unit    string // of a rate limit: rps, rpm, …; empty for a budget

	Reserved int64 // in nano-dollars for a cost
	Used     int64
	Refused  bool // the limit refused the attempt or, with something used, ended its response
}

// MaxLimits is the number of limits that an entry records.
const MaxLimits = 64

func (e *Entry) writeLimits(w *jsonedit.Builder) {
	w.Name("limits")
	w.Open('[')
	for i := range e.Limits {
		u := &e.Limits[i]
		w.Open('{')
		writeInt(w, "attempt", int64(u.Attempt))
		writeText(w, "holder", u.Holder)
		writeText(w, "id", u.ID)
		writeText(w, "type", u.Measure)
		writeText(w, "unit", u.Unit)
		writeInt(w, "reserved", u.Reserved)
		writeInt(w, "used", u.Used)
		writeBool(w, "refused", u.Refused)
		w.Close('}')
	}
	w.Close(']')
}
