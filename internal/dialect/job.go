package dialect

// JobReader is what a dialect offers whose providers answer with a job that is
// followed until its answer is there. It is optional.
type JobReader interface {
	// ReadJob reads what a provider says of a job. An error says that the body is
	// none.
	ReadJob(body []byte) (Job, error)
}

// Job is work at a provider.
type Job struct {
	// Path and Cancel are where to ask for it and where to end it, appended to
	// the provider's address.
	Path, Cancel string
	// Stream is the whole address of its answer as events, empty when it has none.
	Stream string
	// Done is true once it has ended, and Failed says why it has no answer.
	Done   bool
	Failed string
}
