package reqlog

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

func (e *Entry) writeLimits(w *jsonWriter) {
	w.name("limits").open('[')
	for i := range e.Limits {
		u := &e.Limits[i]
		w.comma().open('{')
		w.name("attempt").int(int64(u.Attempt))
		w.name("holder").text(u.Holder)
		w.name("id").text(u.ID)
		w.name("type").text(u.Measure)
		w.name("unit").text(u.Unit)
		w.name("reserved").int(u.Reserved)
		w.name("used").int(u.Used)
		w.name("refused").bool(u.Refused)
		w.close('}')
	}
	w.close(']')
}
