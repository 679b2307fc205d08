package dialect

// JobReader is implemented by dialects whose providers respond with a job that
// must be polled for its result. It is optional.
type JobReader interface {
	// ReadJob reads a provider's description of a job. It returns an error if
	// the body is not one.
	ReadJob(body []byte) (Job, error)
}

// Job is work at a provider.
type Job struct {
	// Path polls the job and Cancel cancels it; both are appended to the
	// provider's address.
	Path, Cancel string
	// Stream is the complete URL of the result as a stream, or empty.
	Stream string
	// Done is true once the job has ended. Failed is the reason if it has no
	// result.
	Done   bool
	Failed string
}
