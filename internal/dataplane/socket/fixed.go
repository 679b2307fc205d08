package socket

import (
	"bytes"

	"modelgate/internal/base/apierr"
	"modelgate/internal/format/jsonedit"
)

// fixedSession are fields of a session that its client may not change. Nil fixes none.
type fixedSession struct{ fields jsonedit.Value }

// newFixed returns the fields of a JSON object, nil for nil.
func newFixed(object []byte) *fixedSession {
	if object == nil {
		return nil
	}
	v, err := jsonedit.ParseValue(object)
	if err != nil {
		return nil
	}
	return &fixedSession{v}
}

// check returns an error if a session that the client sets has another value for a fixed field.
func (f *fixedSession) check(session jsonedit.Value) error {
	for name, value := range session.Fields() {
		fixed, ok := f.fields.Get(name.String())
		if ok && !bytes.Equal(fixed.Raw(), value.Raw()) {
			return apierr.New(apierr.Forbidden, "the client secret of this session fixes %.60q; leave it out of session.update", name.String()).
				WithParam("session." + name.String()).WithCode("session_field_fixed")
		}
	}
	return nil
}

// sessionUpdate returns the event that sets fields of a session.
func sessionUpdate(fields []byte) []byte {
	b := jsonedit.Append(make([]byte, 0, len(fields)+64))
	b.Open('{')
	b.Name("type")
	b.String("session.update")
	b.Name("session")
	b.Raw(fields)
	b.Close('}')
	return b.Bytes()
}
