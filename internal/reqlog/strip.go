package reqlog

import "slices"

// StripClientText takes out of e, for [LevelNone], what a client chose as text: metadata
// and path, which the given ones replace, the user agent, names of
// spans, methods that do not exist, what errors, decisions and parameters say.
// Ids, models, codes and all figures stay, so that sums and budgets are as ever.
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
			attempts[i].Error = "not kept" // that it failed stays
		}
	}
	e.Attempts = attempts
	decisions := slices.Clone(e.Decisions)
	for i := range decisions {
		decisions[i].Text = ""
	}
	e.Decisions = decisions
}
