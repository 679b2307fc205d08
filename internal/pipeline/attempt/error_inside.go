package attempt

import (
	"cmp"

	"modelgate/internal/dialect"
	"modelgate/internal/model/llm"
	"modelgate/internal/pipeline/exchange"
)

// setInside sets the error that is inside of body, which has a success status: of a complete
// response, or of the first event of a stream with this name.
func (a *attempt) setInside(out *exchange.Response, name string, body []byte) {
	if fault := dialect.FindError(body); fault != nil {
		a.setError(out, name, fault)
		return
	}
	a.setError(out, name, dialect.ErrorBody(&llm.ProviderError{Type: name, Message: out.Tap.Info().Failed}))
}

// failBlank sets the error of a stream that ended before it had anything of a response.
func (a *attempt) failBlank(out *exchange.Response, first []byte) error {
	out.Tap.Info().Failed = dialect.NoContent
	a.setInside(out, "", first)
	return nil
}

// setFault sets the error of a response that has a success status.
func (a *attempt) setFault(out *exchange.Response, fault *llm.ProviderError) {
	f := *fault
	if f.Message == "" {
		f.Message, f.Raw = out.Tap.Info().Failed, nil
	}
	a.setError(out, cmp.Or(f.Type, f.Code), dialect.ErrorBody(&f))
}

// setError makes a response with a success status one with the status of the error that it
// reports, so that the attempt failed. What was reported of its usage counts.
func (a *attempt) setError(out *exchange.Response, name string, body []byte) {
	body = a.hideCredentials(body)
	out.Status = dialect.ErrorStatus(name, body)
	out.Raw.StatusCode = out.Status // for the ledger
	a.plan.record.Record.Error = dialect.FailureMessage(a.plan.record.Target.Label(), out.Status, body)
	out.Events, out.Body = nil, nil
	a.writeError(out, body)
}
