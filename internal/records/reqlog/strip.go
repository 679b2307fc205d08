package reqlog

import "slices"

// StripClientText removes from e, for [LevelNone], all text chosen by a client:
// metadata and path, which the arguments replace, the user agent, span names, unknown
// methods, and the text of errors, decisions and parameters. Ids, models, codes and
// all numbers stay, so that analytics and budgets are unaffected.
func (e *Entry) StripClientText(path string, metadata map[string]string) {
	if !slices.Contains([]string{"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}, e.Method) {
		e.Method = ""
	}
	e.Path, e.Metadata = path, metadata
	e.SpanName, e.UserAgent, e.ErrorMessage = "", "", ""
	e.Params, e.Bodies = nil, nil
	attempts := slices.Clone(e.Attempts)
	for i := range attempts {
		if attempts[i].Error != "" {
			attempts[i].Error = "not kept" // the failure itself stays
		}
	}
	e.Attempts = attempts
	decisions := slices.Clone(e.Decisions)
	for i := range decisions {
		decisions[i].Text = ""
	}
	e.Decisions = decisions
}
