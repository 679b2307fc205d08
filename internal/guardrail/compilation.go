package guardrail

// Compilation says for whom checks are compiled, and what may be done for them. The zero
// value is for checks of the operator, which may do everything.
type Compilation struct {
	Organisation string // id

	// NoCode refuses checks that contain code of their own.
	NoCode bool
	// Admitted says that the checks were compiled when they were saved: their code
	// waits for no place.
	Admitted bool
	// Patient lets admitted code wait for its place as long as it takes.
	Patient bool
	// Skip leaves out what takes long, so that checks that were compiled when they were
	// saved can be validated while a lock is held. They cannot be run.
	Skip bool
}

// For returns a table that compiles the same checks for c.
func (t *Table) For(c Compilation) *Table {
	out := *t
	out.compilation = c
	return &out
}
